// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

namespace gaudi::device {

/// One opening of a device's compute node that this process uses, for as long as this object lives
/// or until end(). The driver's context belongs to the open file, so the child of a fork would
/// share its memory, addresses and queues with the parent, without either knowing of the other. The
/// child therefore closes the descriptor, and used_after_fork() tells it which openings to leave
/// alone. Any thread; the child of a fork destroys none of its parent's.
class opening {
 public:
  /// `fd` is the provider's own descriptor; `number` is how often the device had been opened then
  /// (hl::thunk::openings), 0 where the library does not tell.
  opening(std::string bus_id, std::uint64_t number, int fd);
  opening(const opening&) = delete;
  opening& operator=(const opening&) = delete;
  ~opening() { end(); }

  /// The device was reopened, and it is that opening which is used from now on.
  void renew(std::uint64_t number) noexcept;
  /// It is used no more.
  void end() noexcept;

  /// Whether a process that this one came from by fork uses that opening.
  [[nodiscard]] static bool used_after_fork(const std::string& bus_id,
                                            std::uint64_t number) noexcept;

 private:
  struct list;

  const std::string bus_id_;
  const unsigned process_;  // base::fork_generation
  std::uint64_t number_;
  int fd_;
  bool ended_ = false;
  opening* next_ = nullptr;
  opening** link_ = nullptr;  // what points here
};

}  // namespace gaudi::device
