// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gaudi.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "device/device_list.hpp"
#include "failure.hpp"
#include "hl/thunk.hpp"
#include "reg/registration_failure.hpp"
#include "room_log.hpp"

namespace gaudi::rdma_check {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The value of a result, or the failure that says what could not be done and why.
template <class T>
T taken(base::result<T> got, const char* what) {
  if (!got) throw failure(exit_code::no_gaudi, fmt::format("{}: {}", what, reason_of(got.code())));
  return *std::move(got);
}

void require(base::result<void> got, const char* what) {
  if (!got) throw failure(exit_code::no_gaudi, fmt::format("{}: {}", what, reason_of(got.code())));
}

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

gaudi_device gaudi_device::open(const std::string& which) {
  constexpr const char* what = "no Gaudi";
  const auto chosen =
      taken(device::device_list::parse(which.empty() ? variable("FI_GAUDI_DEVICE") : which), what)
          .first();
  const auto library = taken(hl::thunk::load(variable("FI_GAUDI_HLTHUNK")), what);
  auto opened = taken(device::device::open(library, chosen), what);
  auto copier = taken(copy::copier::for_device(opened), "no copy engine");
  return {std::move(opened), std::move(copier)};
}

std::string gaudi_device::name() const {
  const auto& known = device_->attributes();
  return fmt::format("{} {}", known.name, known.bus_id);
}

void gaudi_device::copy_to_device(std::uint64_t to, std::span<const std::byte> from) const {
  require(copier_->copy(to, address_of(from.data()), from.size(), copy::direction::host_to_device),
          "copying to the Gaudi failed");
}

void gaudi_device::copy_from_device(std::span<std::byte> to, std::uint64_t from) const {
  require(copier_->copy(address_of(to.data()), from, to.size(), copy::direction::device_to_host),
          "copying from the Gaudi failed");
}

device_block::device_block(const gaudi_device& owner, std::size_t size)
    : device_(owner.handle()),
      size_(size),
      address_(taken(device_->allocate(size), "the Gaudi gives no memory")) {}

device_block::~device_block() {
  // Fails while a copy is in flight only, and none outlives its call here.
  static_cast<void>(device_->free(address_));
}

device::dmabuf device_block::export_dmabuf() const {
  auto exported = device_->export_dmabuf(address_, size_);
  if (!exported) {
    const auto why = reg::diagnose_no_export(exported.code());
    // The room's own words are about what the provider does then.
    static_cast<void>(reason_of(exported.code()));
    throw failure(exit_code::no_dmabuf,
                  fmt::format("{}: {}. To change that: {}.", device_->attributes().bus_id,
                              why.reason, why.remedy));
  }
  return *std::move(exported);
}

}  // namespace gaudi::rdma_check
