// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

// The static probes (USDT) of the provider "gaudi", for bpftrace, perf, SystemTap and gdb: each is
// a nop and a note in the library that says where the arguments are. fi_gaudi_probes(7) documents
// them, and the test package.probes compares the two. Without systemtap-sdt-dev at build time there
// are none (CMake's GAUDI_USDT).
#ifdef GAUDI_USDT
#include <sys/sdt.h>
#else
#define STAP_PROBE2(provider, name, ...) static_cast<void>(0)
#define STAP_PROBE3(provider, name, ...) static_cast<void>(0)
#define STAP_PROBE4(provider, name, ...) static_cast<void>(0)
#endif

/// One function for each probe, so that its name and the types of its arguments are here alone. All
/// are to be inlined: the probe is where it is called, and unused arguments are not loaded.
namespace gaudi::base::probes {

// NOLINTBEGIN(misc-unused-parameters,readability-avoid-const-params-in-decls,hicpp-no-assembler)

[[gnu::always_inline]] inline void send([[maybe_unused]] std::uint64_t target,
                                        [[maybe_unused]] std::uint64_t tag,
                                        [[maybe_unused]] std::uint64_t length,
                                        [[maybe_unused]] std::int32_t result) noexcept {
  STAP_PROBE4(gaudi, send, target, tag, length, result);
}

[[gnu::always_inline]] inline void write([[maybe_unused]] std::uint64_t target,
                                         [[maybe_unused]] std::uint64_t address,
                                         [[maybe_unused]] std::uint64_t length,
                                         [[maybe_unused]] std::int32_t result) noexcept {
  STAP_PROBE4(gaudi, write, target, address, length, result);
}

[[gnu::always_inline]] inline void read([[maybe_unused]] std::uint64_t target,
                                        [[maybe_unused]] std::uint64_t address,
                                        [[maybe_unused]] std::uint64_t length,
                                        [[maybe_unused]] std::int32_t result) noexcept {
  STAP_PROBE4(gaudi, read, target, address, length, result);
}

[[gnu::always_inline]] inline void match([[maybe_unused]] std::uint64_t source,
                                         [[maybe_unused]] std::uint64_t tag,
                                         [[maybe_unused]] std::uint64_t length,
                                         [[maybe_unused]] std::int32_t unexpected) noexcept {
  STAP_PROBE4(gaudi, match, source, tag, length, unexpected);
}

[[gnu::always_inline]] inline void transfer_start([[maybe_unused]] std::uint64_t id,
                                                  [[maybe_unused]] std::uint64_t length) noexcept {
  STAP_PROBE2(gaudi, transfer_start, id, length);
}

[[gnu::always_inline]] inline void transfer_issue([[maybe_unused]] std::uint64_t id,
                                                  [[maybe_unused]] std::uint64_t issued,
                                                  [[maybe_unused]] std::uint64_t length) noexcept {
  STAP_PROBE3(gaudi, transfer_issue, id, issued, length);
}

[[gnu::always_inline]] inline void transfer_complete(
    [[maybe_unused]] std::uint64_t id, [[maybe_unused]] std::uint64_t length,
    [[maybe_unused]] std::int32_t status) noexcept {
  STAP_PROBE3(gaudi, transfer_complete, id, length, status);
}

[[gnu::always_inline]] inline void copy_start([[maybe_unused]] std::uint64_t ticket,
                                              [[maybe_unused]] std::uint64_t length,
                                              [[maybe_unused]] std::int32_t direction) noexcept {
  STAP_PROBE3(gaudi, copy_start, ticket, length, direction);
}

[[gnu::always_inline]] inline void copy_complete([[maybe_unused]] std::uint64_t ticket,
                                                 [[maybe_unused]] std::int32_t result) noexcept {
  STAP_PROBE2(gaudi, copy_complete, ticket, result);
}

[[gnu::always_inline]] inline void connection_up([[maybe_unused]] std::uint64_t connection,
                                                 [[maybe_unused]] std::uint64_t peer,
                                                 [[maybe_unused]] std::int32_t shm) noexcept {
  STAP_PROBE3(gaudi, connection_up, connection, peer, shm);
}

[[gnu::always_inline]] inline void connection_down([[maybe_unused]] std::uint64_t connection,
                                                   [[maybe_unused]] std::uint64_t peer,
                                                   [[maybe_unused]] std::int32_t error) noexcept {
  STAP_PROBE3(gaudi, connection_down, connection, peer, error);
}

[[gnu::always_inline]] inline void registration([[maybe_unused]] std::uint64_t address,
                                                [[maybe_unused]] std::uint64_t length,
                                                [[maybe_unused]] std::int32_t dmabuf,
                                                [[maybe_unused]] std::int32_t result) noexcept {
  STAP_PROBE4(gaudi, registration, address, length, dmabuf, result);
}

// NOLINTEND(misc-unused-parameters,readability-avoid-const-params-in-decls,hicpp-no-assembler)

}  // namespace gaudi::base::probes
