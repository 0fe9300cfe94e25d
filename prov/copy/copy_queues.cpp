// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/copy_queues.hpp"

#include "copy/command_queues.hpp"
#include "copy/synapse_streams.hpp"

namespace gaudi::copy {
namespace {

using queues = base::result<std::unique_ptr<copy_queues>>;

template <class Kind>
queues made(base::result<std::unique_ptr<Kind>> one) {
  if (!one) return one.failure();
  return queues(*std::move(one));
}

}  // namespace

base::result<std::unique_ptr<copy_queues>> copy_queues::of(
    const std::shared_ptr<device::device>& owner) {
  return owner->synapse() != nullptr ? made(synapse_streams::make(owner))
                                     : made(command_queues::make(owner));
}

}  // namespace gaudi::copy
