// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <dlfcn.h>

namespace gaudi::hl {

/// Fills a table of C functions from a loaded library.
class resolver {
 public:
  explicit resolver(void* library) : library_(library) {}

  template <class Function>
  void optional(Function*& slot, const char* name) {
    slot = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  template <class Function>
  void required(Function*& slot, const char* name) {
    optional(slot, name);
    if (slot == nullptr && missing_ == nullptr) missing_ = name;
  }

  /// The first required function that is not there, or null.
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace gaudi::hl
