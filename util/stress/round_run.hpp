// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counter_books.hpp"
#include "counts.hpp"
#include "dice.hpp"
#include "image.hpp"
#include "loss_rules.hpp"
#include "multi_receives.hpp"
#include "station.hpp"
#include "ticket.hpp"

namespace gaudi::stress {

/// What a round is about, for one worker.
struct assignment {
  const settings& common;
  const round_plan& plan;
  const std::vector<introduction>& workers;
  unsigned self = 0;
  fault loss{};
  std::uint64_t last_loss = 0;  ///< the last round that had one
};

/// How a round ended elsewhere.
struct outcome {
  std::set<unsigned> lost;       ///< workers that are not there any more
  std::set<std::size_t> failed;  ///< operations
};

/// One round as one worker does it: prepare, start, finish, verify. In between, poll serves the
/// peers. Everything that was not to happen is a failure.
class round_run {
 public:
  round_run(station& own, const assignment& a);

  /// Has the memory be as the plan wants it.
  void prepare();

  /// Posts all operations and receives, and returns when the operations have ended. Of the one that
  /// is to be closed in this round it posts some and returns.
  void start();

  /// Returns when the device is lost, as the plan wants it.
  void wait_for_reset();

  /// Operations of this worker that failed.
  std::vector<std::size_t> failed() const;

  /// Returns when the receives have ended. Those that nothing can come for any more are cancelled.
  void finish(const outcome& elsewhere);

  void verify();

  /// Posts what is left to be, and takes an end, if there is one.
  void serve();

  const counts& counted() const { return counted_; }
  const traffic& moved() const { return moved_; }

 private:
  using state = ticket::state;
  enum class phase {
    preparing,
    started,
    finishing  ///< the operations of all workers have ended
  };

  const planned& operation_of(const ticket& t) const { return work_.plan.operations[t.number]; }
  static bool is_decoy(const ticket& t) { return t.kind == ticket::purpose::decoy; }
  static bool is_receive(const ticket& t) { return t.kind != ticket::purpose::operation; }
  std::uint64_t id_of(std::size_t number) const { return message_id(work_.plan, number); }
  request request_for(std::size_t number);
  std::size_t ranges_for(std::size_t number) const;
  local_memory local(const place& at);

  const place& place_of(const ticket& t) const;
  bool step();
  bool post_next();
  bool receive_next();
  bool peek_next();
  void end_peek(ticket& t, const completion& c);
  void take_found(ticket& t);
  void post_decoys();
  void cancel_some();
  template <class Predicate>
  void run_until(Predicate done);
  bool poll_once();
  void take_remote_data(const completion& c);
  void end_told(ticket& t, const completion& c);
  void end(ticket& t, const completion& c);
  void fail(ticket& t, int error);
  void end_received(const ticket& t);
  void require_told(const ticket& t, int error) const;
  bool all_received() const;
  bool are_counters_balanced();
  std::uint64_t ended() const {
    return counted_.completed + counted_.failed + data_.size() + buffers_.arrived();
  }
  std::string pending() const;
  std::string name_of(const ticket& t) const;

  bool is_uncertain(std::size_t number) const;
  void expect_all(image& bytes);
  void assign_untagged(image& bytes);
  using tickets = std::vector<const ticket*>;
  void assign_in_order(const tickets& receives, const std::vector<std::size_t>& messages,
                       image& bytes) const;
  void assign_any(const tickets& receives, const std::vector<std::size_t>& messages,
                  image& bytes) const;
  void compare(memory_kind kind, const image& bytes);

  station& own_;
  const assignment work_;
  const loss_rules rules_;
  dice dice_;
  std::array<std::optional<image>, kinds.size()> images_;
  std::vector<ticket> operations_;  // by number; those of others stay idle
  std::vector<ticket> receives_;
  std::deque<ticket> decoys_;
  std::deque<std::size_t> to_post_;
  std::deque<std::size_t> to_receive_;
  std::deque<std::size_t> to_find_;  // messages that a peek has to find before they are received
  multi_receives buffers_;
  counter_books books_;
  std::set<std::size_t> data_;  // operations of peers whose remote data has come
  std::size_t open_ = 0;        // operations
  phase phase_ = phase::preparing;
  outcome elsewhere_;
  counts counted_;
  traffic moved_;
};

}  // namespace gaudi::stress
