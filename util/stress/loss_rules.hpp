// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <string>

#include "image.hpp"

namespace gaudi::stress {

/// What may fail in a round: only what has to do with a loss that was made on purpose, and only
/// with the codes for it. All else throws a failure.
class loss_rules {
 public:
  loss_rules(const round_plan& plan, const fault& loss) : plan_(plan), loss_(loss) {}

  bool loses_worker() const {
    return loss_.kind == fault_kind::kill || loss_.kind == fault_kind::close;
  }
  bool loses_worker(unsigned worker) const { return loses_worker() && loss_.victim == worker; }
  bool has_loss() const { return loss_.kind != fault_kind::none; }

  /// name: of what failed
  void require_operation(std::size_t number, int error, const std::string& name) const;
  void require_receive(std::size_t number, int error, const std::string& name) const;
  /// What was injected has an end of its own only where it could not be sent, and that does not say
  /// which one it is.
  void require_injected(int error) const;
  [[noreturn]] void refuse(int error, const std::string& name) const;

 private:
  bool may_fail(const planned& p, unsigned peer, int error) const;
  bool is_on_lost_device(const planned& p) const;

  const round_plan& plan_;
  const fault loss_;
};

/// What has come for a message has to be of its length and with its remote data.
void require_received(const round_plan& plan, std::size_t number, std::size_t length,
                      std::uint64_t data);

}  // namespace gaudi::stress
