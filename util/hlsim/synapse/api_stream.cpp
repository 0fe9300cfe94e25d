// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <span>
#include <vector>

#include "session.hpp"

// Streams and events: reference, section 5.6. A stream's copies go to one channel of the device,
// which keeps their order; an event is the number of a submission.

using namespace synsim;

namespace {

template <class Work>
synStatus with_stream(synStreamHandle stream, Work work) {
  return with_device(synFail,
                     [&](session& s) { return s.knows(stream) ? work(s) : synInvalidArgument; });
}

template <class Work>
synStatus with_event(synEventHandle event, Work work) {
  return with_device(synFail,
                     [&](session& s) { return s.knows(event) ? work(s) : synInvalidEventHandle; });
}

bool is_direction(synDmaDir direction) {
  return direction == HOST_TO_DRAM || direction == DRAM_TO_HOST || direction == DRAM_TO_DRAM;
}

/// Waits without the lock for what `with` (of a stream or an event) says under it.
template <class With, class Handle>
synStatus synchronise(With with, Handle handle) {
  uint64_t last = 0;
  int fd = -1;
  const synStatus rc = with(handle, [&](session& s) {
    last = handle->last;
    fd = s.fd();
    return synSuccess;
  });
  return rc != synSuccess ? rc : wait_for(fd, std::span(&last, 1));
}

constexpr auto of_stream = [](synStreamHandle h, auto work) { return with_stream(h, work); };
constexpr auto of_event = [](synEventHandle h, auto work) { return with_event(h, work); };

}  // namespace

synStatus synStreamCreateGeneric(synStreamHandle* stream, synDeviceId, uint32_t) {
  if (!stream) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    *stream = s.add_stream();
    return *stream ? synSuccess : synAllResourcesTaken;
  });
}

synStatus synStreamDestroy(synStreamHandle stream) {
  if (const synStatus rc = synchronise(of_stream, stream); rc != synSuccess && rc != synDeviceReset)
    return rc;
  return with_stream(stream, [&](session& s) {
    s.remove(stream);
    return synSuccess;
  });
}

synStatus synStreamSynchronize(synStreamHandle stream) {
  return synchronise(of_stream, stream);
}

synStatus synStreamQuery(synStreamHandle stream) {
  return with_stream(stream, [&](session& s) { return look_at(s.fd(), stream->last); });
}

/// Waits on the CPU, where the real one lets the stream wait: what follows is as late.
synStatus synStreamWaitEvent(synStreamHandle stream, synEventHandle event, uint32_t) {
  const synStatus rc = with_stream(stream, [](session&) { return synSuccess; });
  return rc != synSuccess ? rc : synchronise(of_event, event);
}

synStatus synEventCreate(synEventHandle* event, synDeviceId, uint32_t) {
  if (!event) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    *event = s.add_event();
    return synSuccess;
  });
}

synStatus synEventDestroy(synEventHandle event) {
  return with_event(event, [&](session& s) {
    s.remove(event);
    return synSuccess;
  });
}

synStatus synEventRecord(synEventHandle event, synStreamHandle stream) {
  return with_stream(stream, [&](session& s) {
    if (!s.knows(event)) return synInvalidEventHandle;
    event->last = stream->last;
    return synSuccess;
  });
}

/// An event that was never recorded has happened.
synStatus synEventQuery(synEventHandle event) {
  return with_event(event, [&](session& s) { return look_at(s.fd(), event->last); });
}

synStatus synEventSynchronize(synEventHandle event) {
  return synchronise(of_event, event);
}

synStatus synMemCopyAsync(synStreamHandle stream, uint64_t source, uint64_t size,
                          uint64_t destination, synDmaDir direction) {
  return synMemCopyAsyncMultiple(stream, &source, &size, &destination, direction, 1);
}

synStatus synMemCopyAsyncMultiple(synStreamHandle stream, const uint64_t* sources,
                                  const uint64_t* sizes, const uint64_t* destinations,
                                  synDmaDir direction, uint64_t count) {
  if (!sources || !sizes || !destinations || !is_direction(direction)) return synInvalidArgument;
  return with_stream(stream, [&](session& s) {
    std::vector<session::copy> copies;
    for (uint64_t i = 0; i < count; ++i) copies.push_back({sources[i], sizes[i], destinations[i]});
    return s.start(*stream, copies, direction);
  });
}

synStatus synMemsetD8Async(uint64_t address, unsigned char value, size_t count,
                           synStreamHandle stream) {
  return with_stream(stream, [&](session& s) { return s.fill(*stream, address, value, count); });
}
