// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::test {

/// The base of a mock of a C library: functions that end in the one made last.
template <class Mock>
class mock_routes {
 public:
  mock_routes(const mock_routes&) = delete;
  mock_routes& operator=(const mock_routes&) = delete;

 protected:
  explicit mock_routes(Mock& made) { current = &made; }
  ~mock_routes() { current = nullptr; }

  /// For a method; the type it is converted to chooses R and Args.
  template <auto Method, class R, class... Args>
  static R route(Args... args) {
    return (current->*Method)(args...);
  }

 private:
  static inline Mock* current = nullptr;
};

}  // namespace gaudi::test
