// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "failure.hpp"
#include "memory.hpp"

namespace gaudi::rdma_check {

/// The conversation of the two programs: JSON documents in messages from host memory. Every wait
/// ends with a failure when the peer reports one or goes away, or after the limit. A side sends two
/// documents at most, and an abort, before one from the other: there are receives for that many.
class control {
 public:
  /// Posts its receives on a connection that is not connected yet.
  control(connection link, std::chrono::seconds limit);
  control(const control&) = delete;
  control& operator=(const control&) = delete;

  connection& link() { return link_; }

  void send(const nlohmann::json& document);
  nlohmann::json receive(std::string_view what);
  template <class T>
  T receive_as(std::string_view what) {
    try {
      return receive(what).template get<T>();
    } catch (const nlohmann::json::exception&) {
      throw failure(exit_code::no_connection, "the peer does not speak this tool's protocol");
    }
  }
  nlohmann::json exchange(const nlohmann::json& document, std::string_view what) {
    send(document);
    return receive(what);
  }
  /// Returns when both sides have called it.
  void barrier(std::string_view what) { exchange("barrier", what); }

  /// Looks whether the peer has failed or is gone: a failure then.
  void look();
  /// As look, but gives the peer's words a moment to arrive.
  void look_for_a_moment();

  /// Tells the peer why this side ends.
  void abort(const failure& why) noexcept;
  /// Waits, briefly, until the peer has what was sent.
  void flush() noexcept;

 private:
  void progress();
  void take(const ibv_wc& done);
  void post_receive(std::size_t slot);
  void post_send(const std::string& text);
  std::byte* place(std::size_t slot) const { return pages_.data() + slot * room; }

  static constexpr std::size_t room = 8192;  // bytes of the longest document
  static constexpr std::size_t receives = 4;

  connection link_;
  std::chrono::seconds limit_;
  copy::host_pages pages_;
  mr_ptr mr_;
  std::deque<nlohmann::json> arrived_;
  bool sending_ = false;
};

}  // namespace gaudi::rdma_check
