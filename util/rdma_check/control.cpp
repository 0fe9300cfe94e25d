// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "control.hpp"

#include <fmt/format.h>

#include <cstring>

#include "common/patience.hpp"

namespace gaudi::rdma_check {
namespace {

using std::chrono::milliseconds;

// How long the words of a peer that is about to end may take.
constexpr milliseconds moment{1000};

copy::host_pages allocate(std::size_t size) {
  auto pages = copy::host_pages::allocate(size);
  if (!pages) throw failure(exit_code::operation_failed, "no host memory");
  return *std::move(pages);
}

[[noreturn]] void throw_peers(const nlohmann::json& document) {
  const int code = document.value("code", static_cast<int>(exit_code::operation_failed));
  throw peer_failure(static_cast<exit_code>(code),
                     fmt::format("the peer ended: {}", document.value("abort", "")));
}

}  // namespace

control::control(connection link, std::chrono::seconds limit)
    : link_(std::move(link)),
      limit_(limit),
      pages_(allocate((receives + 1) * room)),
      mr_(register_host(link_.pd(), pages_)) {
  for (std::size_t slot = 0; slot < receives; ++slot) post_receive(slot);
}

void control::post_receive(std::size_t slot) {
  link_.post_receive({reinterpret_cast<std::uintptr_t>(place(slot)), room, mr_->lkey}, slot);
}

void control::post_send(const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  if (size > room) throw failure(exit_code::operation_failed, "a message to the peer is too long");
  std::memcpy(place(receives), text.data(), size);
  sending_ = true;
  link_.post(operation::send, {reinterpret_cast<std::uintptr_t>(place(receives)), size, mr_->lkey},
             {}, 0);
}

void control::send(const nlohmann::json& document) {
  common::patience waited(limit_);
  while (sending_) {
    progress();
    if (sending_ && waited.spend("a message to the peer")) look();
  }
  post_send(document.dump());
}

nlohmann::json control::receive(std::string_view what) {
  common::patience waited(limit_);
  for (;;) {
    progress();
    if (!arrived_.empty()) break;
    if (waited.spend(what)) look();
  }
  nlohmann::json first = std::move(arrived_.front());
  arrived_.pop_front();
  return first;
}

void control::progress() {
  std::array<ibv_wc, 4> done;
  const std::size_t count = link_.poll(done);
  for (std::size_t i = 0; i < count; ++i) take(done.at(i));
}

void control::take(const ibv_wc& done) {
  if (done.status != IBV_WC_SUCCESS)
    throw failure(exit_code::no_connection, fmt::format("the connection to the peer broke: {}",
                                                        ibv_wc_status_str(done.status)));
  if ((done.opcode & IBV_WC_RECV) == 0) {
    sending_ = false;
    return;
  }
  const auto* text = reinterpret_cast<const char*>(place(done.wr_id));
  auto document = nlohmann::json::parse(text, text + done.byte_len, nullptr, false);
  if (document.is_discarded())
    throw failure(exit_code::no_connection, "the peer does not speak this tool's protocol");
  post_receive(done.wr_id);
  if (document.is_object() && document.contains("abort")) throw_peers(document);
  arrived_.push_back(std::move(document));
}

void control::look() {
  progress();
  if (arrived_.empty() && link_.closed())
    throw failure(exit_code::no_connection, "the peer is gone");
}

void control::look_for_a_moment() {
  const auto end = std::chrono::steady_clock::now() + moment;
  while (std::chrono::steady_clock::now() < end) {
    progress();
    std::this_thread::yield();
  }
}

void control::abort(const failure& why) noexcept {
  try {
    flush();
    post_send(nlohmann::json{{"abort", std::string(why.what()).substr(0, room / 2)},
                             {"code", static_cast<int>(why.code())}}
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    flush();
  } catch (const std::exception&) {  // it sees that the connection ends
  }
}

void control::flush() noexcept {
  const auto end = std::chrono::steady_clock::now() + moment;
  try {
    while (sending_ && std::chrono::steady_clock::now() < end) {
      progress();
      std::this_thread::yield();
    }
  } catch (const std::exception&) {  // the peer is ending as well
  }
}

}  // namespace gaudi::rdma_check
