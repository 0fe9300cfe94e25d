// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

// What clang's -Wthread-safety checks: which lock guards a member (GAUDI_GUARDED_BY), and which one
// a function wants held (GAUDI_REQUIRES), takes (GAUDI_ACQUIRE) or gives back (GAUDI_RELEASE). The
// linter lint.tidy, whose compiler is clang, takes what that finds for errors; GCC reads none of
// it. The attributes: clang's manual, "Thread Safety Analysis".
#if defined(__clang__)
#define GAUDI_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define GAUDI_THREAD_SAFETY(attribute)
#endif

#define GAUDI_CAPABILITY(kind) GAUDI_THREAD_SAFETY(capability(kind))
#define GAUDI_SCOPED_CAPABILITY GAUDI_THREAD_SAFETY(scoped_lockable)
#define GAUDI_GUARDED_BY(lock) GAUDI_THREAD_SAFETY(guarded_by(lock))
#define GAUDI_PT_GUARDED_BY(lock) GAUDI_THREAD_SAFETY(pt_guarded_by(lock))
#define GAUDI_REQUIRES(...) GAUDI_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define GAUDI_EXCLUDES(...) GAUDI_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define GAUDI_ACQUIRE(...) GAUDI_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define GAUDI_RELEASE(...) GAUDI_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define GAUDI_RETURN_CAPABILITY(lock) GAUDI_THREAD_SAFETY(lock_returned(lock))
#define GAUDI_ASSERT_CAPABILITY(lock) GAUDI_THREAD_SAFETY(assert_capability(lock))
// For what the analysis cannot follow; a comment says why.
#define GAUDI_NO_THREAD_SAFETY GAUDI_THREAD_SAFETY(no_thread_safety_analysis)
