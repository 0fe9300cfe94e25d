// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>

/// Limits for those who connect to a listener of the core's tcp provider and do not say what they
/// want, which that provider waits for without any. It gives no access to its sockets; they are
/// found among the process's descriptors. Where there is no such listener, as over verbs, nothing
/// happens. Any thread.
namespace gaudi::core {

/// Makes reads that wait, on connections which the listener with this name accepts from now on, end
/// after 100 ms. libfabric 1.17 reads a request in two parts, the second of them without looking
/// whether it is there (tcpx_conn_mgr.c, rx_cm_data, v1.17.0), so that who sends only the first
/// stops the process; later releases never wait there. Reads of data do not wait and are as before.
/// False: nothing of this process listens there.
bool limit_reads(const sockaddr* name, std::size_t length) noexcept;

/// Whether the process has less than an eighth of its descriptors left (RLIMIT_NOFILE), by the
/// lowest that is free: all below it are taken.
bool descriptors_are_scarce() noexcept;

/// Ends connections to the listener with this name on which fewer than `least` bytes have come, and
/// none for `limit`: the core closes them when it sees that. Each takes a descriptor, and whoever
/// makes many takes all there are. Returns their number. Costs some system calls for each of the
/// process's descriptors.
unsigned end_silent(const sockaddr* name, std::size_t length, std::size_t least,
                    std::chrono::milliseconds limit) noexcept;

/// Ends all connections to the listener with this name, which is about to be closed: libfabric 1.17
/// keeps those whose request it has not read by then, until the process ends, and whoever asked
/// would wait for as long. Returns their number. Costs as end_silent.
unsigned end_all(const sockaddr* name, std::size_t length) noexcept;

}  // namespace gaudi::core
