// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.hpp"

#include <algorithm>
#include <cerrno>

#include "hlsim.hpp"

namespace synsim {
namespace {

constexpr uint64_t wait_slice_us = 1'000'000;
constexpr size_t max_streams = 256;

synStatus status_of(int outcome) {
  if (outcome == 0) return synSuccess;
  return outcome == -EBUSY ? synBusy : synDeviceReset;
}

template <class Object>
bool is_among(const std::vector<std::unique_ptr<Object>>& all, const Object* one) {
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.get() == one; });
}

template <class Object>
bool drop(std::vector<std::unique_ptr<Object>>& all, const Object* one) {
  return std::erase_if(all, [&](const auto& each) { return each.get() == one; }) != 0;
}

void append_pieces(std::vector<lin_dma>& to, session::copy one) {
  while (one.size > 0) {
    const uint64_t size = std::min(one.size, packet_limit);
    to.push_back({static_cast<uint32_t>(size), copy_control, one.source, one.destination});
    one = {one.source + size, one.size - size, one.destination + size};
  }
}

}  // namespace

runtime& runtime::instance() {
  static runtime* const one = new runtime;  // the device is the driver's to close at the end
  return *one;
}

std::unique_ptr<session> session::begin(int fd, synStatus& why) {
  scal_handle_t scal = nullptr;
  scal_pool_handle_t pool = nullptr;
  if (const int rc = hlsim_scal_begin(fd, &scal); rc != 0) {
    // A Gaudi1, whose memory no mapping makes known.
    why = rc == -EOPNOTSUPP ? synUnsupported : synFail;
    hlthunk_close(fd);
    return nullptr;
  }
  scal_get_pool_handle_by_name(scal, "global_hbm", &pool);
  return std::unique_ptr<session>(new session(fd, scal, pool));
}

session::session(int fd, scal_handle_t scal, scal_pool_handle_t pool)
    : fd_(fd), scal_(scal), pool_(pool), host_(std::make_unique<host_maps>(fd)) {}

session::~session() {
  host_.reset();
  hlsim_scal_end(scal_);
  hlthunk_close(fd_);
}

scal_memory_pool_infoV2 session::pool_info() const {
  scal_memory_pool_infoV2 info{};
  scal_pool_get_infoV2(pool_, &info);
  return info;
}

synStream* session::add_stream() {
  if (streams_.size() == max_streams) return nullptr;
  streams_.push_back(std::make_unique<synStream>());
  streams_.back()->channel = next_channel_++ % hlsim_channels;
  return streams_.back().get();
}

synEvent* session::add_event() {
  events_.push_back(std::make_unique<synEvent>());
  return events_.back().get();
}

bool session::remove(const synStream* stream) {
  return drop(streams_, stream);
}
bool session::remove(const synEvent* event) {
  return drop(events_, event);
}
bool session::knows(const synStream* stream) const {
  return is_among(streams_, stream);
}
bool session::knows(const synEvent* event) const {
  return is_among(events_, event);
}

std::vector<uint64_t> session::pending() const {
  std::vector<uint64_t> last;
  for (const auto& stream : streams_) last.push_back(stream->last);
  return last;
}

synStatus session::submit(synStream& on, std::span<const lin_dma> packets) {
  if (packets.empty()) return synSuccess;
  const uint64_t number = synsim::submit(fd_, on.channel, packets);
  if (number == 0) return synDeviceReset;
  on.last = number;
  return synSuccess;
}

synStatus session::start(synStream& on, std::span<const copy> copies, synDmaDir direction) {
  std::vector<lin_dma> packets;
  for (copy one : copies) {
    uint64_t* const host = direction == HOST_TO_DRAM   ? &one.source
                           : direction == DRAM_TO_HOST ? &one.destination
                                                       : nullptr;
    if (host) *host = host_->translate(*host, one.size);
    if (host && *host == 0) return synMappingNotFound;
    append_pieces(packets, one);
  }
  return submit(on, packets);
}

synStatus session::fill(synStream& on, uint64_t address, unsigned char value, uint64_t size) {
  constexpr uint64_t four_times = 0x01010101;
  std::vector<lin_dma> packets;
  append_pieces(packets, {0, size, address});
  for (lin_dma& one : packets) one.control = fill_control, one.source = four_times * value;
  return submit(on, packets);
}

synStatus wait_for(int fd, std::span<const uint64_t> submissions) {
  synStatus worst = synSuccess;
  for (const uint64_t one : submissions) {
    synStatus now = synBusy;
    while (now == synBusy) now = status_of(outcome_of(fd, one, wait_slice_us));
    if (now != synSuccess) worst = now;
  }
  return worst;
}

synStatus look_at(int fd, uint64_t submission) {
  return status_of(outcome_of(fd, submission, 0));
}

}  // namespace synsim
