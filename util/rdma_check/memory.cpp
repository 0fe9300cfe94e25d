// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/pieces.hpp"
#include "failure.hpp"
#include "reg/registration_failure.hpp"

namespace gaudi::rdma_check {
namespace {

constexpr std::size_t page_size = 4096;
constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::size_t whole_pages(std::size_t size) {
  return (size + page_size - 1) / page_size * page_size;
}

copy::host_pages allocate_pages(std::size_t size) {
  auto pages = copy::host_pages::allocate(size);
  if (!pages)
    throw failure(exit_code::operation_failed, fmt::format("no {} bytes of host memory", size));
  return *std::move(pages);
}

reg::registration_failure explain(int code) {
  // libibverbs itself: the NIC's library does not know the call, or the kernel does not.
  if (code == ENOSYS || code == EPROTONOSUPPORT)
    return {reg::failure_cause::nic_driver,
            "rdma-core's part for this NIC or the kernel cannot register dma-bufs",
            "use rdma-core 34, Linux 5.12 or later, and a NIC whose driver does", true};
  return reg::diagnose(-code);
}

[[noreturn]] void refuse(const ibv_pd* pd, const gaudi_device& gaudi, int code) {
  const auto why = explain(code);
  throw failure(exit_code::no_dmabuf,
                fmt::format("NIC {} cannot read and write the memory of {}: {} ({}). To change "
                            "that: {}.",
                            ibv_get_device_name(pd->context->device), gaudi.name(), why.reason,
                            std::strerror(code), why.remedy));
}

}  // namespace

mr_ptr register_host(ibv_pd* pd, const copy::host_pages& pages) {
  mr_ptr mr(ibv_reg_mr(pd, pages.data(), pages.len(), access));
  if (!mr)
    throw failure(
        exit_code::operation_failed,
        fmt::format("registering {} bytes of host memory: {}{}", pages.len(), std::strerror(errno),
                    errno == ENOMEM ? " (raise RLIMIT_MEMLOCK)" : ""));
  return mr;
}

memory::memory(ibv_pd* pd, const gaudi_device* gaudi, std::size_t size)
    : gaudi_(gaudi),
      pages_(allocate_pages(gaudi != nullptr ? std::min(whole_pages(size), common::piece_size)
                                             : size)) {
  if (gaudi_ != nullptr) {
    register_device(pd, size);
    return;
  }
  mr_ = register_host(pd, pages_);
  address_ = reinterpret_cast<std::uintptr_t>(pages_.data());
  length_ = pages_.len();
}

void memory::register_device(ibv_pd* pd, std::size_t size) {
  length_ = whole_pages(size);
  block_ = std::make_unique<device_block>(*gaudi_, length_);
  address_ = block_->address();
  auto exported = block_->export_dmabuf();
  dmabuf_ = std::move(exported.fd);
  // The NIC knows the memory by its device addresses, so that both sides speak of the same ones.
  mr_.reset(ibv_reg_dmabuf_mr(pd, exported.offset, length_, address_, dmabuf_.get(), access));
  if (!mr_) refuse(pd, *gaudi_, errno);
}

void memory::fill(const common::pattern& bytes, std::size_t offset, std::size_t size) {
  if (gaudi_ == nullptr) {
    bytes.fill({pages_.data() + offset, size}, 0);
    return;
  }
  common::fill_in_pieces(bytes, size, {pages_.data(), pages_.len()},
                         [&](std::size_t done, auto piece) {
                           gaudi_->copy_to_device(address_ + offset + done, piece);
                         });
}

std::optional<std::size_t> memory::find_difference(const common::pattern& bytes, std::size_t offset,
                                                   std::size_t size) {
  if (gaudi_ == nullptr) return bytes.find_difference({pages_.data() + offset, size}, 0);
  return common::find_difference_in_pieces(
      bytes, size, {pages_.data(), pages_.len()}, [&](std::size_t done, auto piece) {
        gaudi_->copy_from_device(piece, address_ + offset + done);
      });
}

}  // namespace gaudi::rdma_check
