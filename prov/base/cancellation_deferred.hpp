// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

namespace gaudi::base {

/// While it lives, a pthread_cancel of this thread waits: system calls of ours and of the core are
/// cancellation points, and a thread that ended in one would leave locks and queues as they are in
/// the middle of a change. The thread ends at its next cancellation point after that.
class cancellation_deferred {
 public:
  cancellation_deferred() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~cancellation_deferred() { ::pthread_setcancelstate(before_, nullptr); }
  cancellation_deferred(const cancellation_deferred&) = delete;
  cancellation_deferred& operator=(const cancellation_deferred&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gaudi::base
