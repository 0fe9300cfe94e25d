// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/id_table.hpp"
#include "base/object_pool.hpp"
#include "core/inner_domain.hpp"
#include "device/device_loss_epoch.hpp"
#include "proto/address_vector.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/connection_closer.hpp"
#include "proto/connection_manager.hpp"
#include "proto/device_copies.hpp"
#include "proto/early_sends.hpp"
#include "proto/endpoint_settings.hpp"
#include "proto/exported_dmabufs.hpp"
#include "proto/nic_copies.hpp"
#include "proto/operations.hpp"
#include "proto/path_counters.hpp"
#include "proto/pending_copies.hpp"
#include "proto/receive.hpp"
#include "proto/receive_buffers.hpp"
#include "proto/receive_context.hpp"
#include "proto/transfer.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {

/// The reliable datagram endpoint: messages, tagged messages and RMA over connections of the core
/// provider.
///
/// The life of a message: send.cpp puts it on the wire, packet_handlers.cpp takes it off,
/// receive.cpp matches it; what does not fit one message goes on in rendezvous.cpp, data_mover.cpp
/// moves its bytes, and rma.cpp does the one-sided operations with the same means. progress.cpp
/// drives all of it.
///
/// Not thread safe: the caller holds the domain lock for every call.
class endpoint final : private connection_observer,
                       private address_vector::listener,
                       private device_copies::observer,
                       private header_sender {
 public:
  using settings = endpoint_settings;

  endpoint(core::inner_domain& core, reg::key_table& keys, path_counters& paths, settings config);
  ~endpoint() override;
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  void use_addresses(address_vector& av);
  /// Where requests of peers report (FI_REMOTE_CQ_DATA of an RMA write), and receives that are
  /// shared. Null: nowhere. `selective`: only those posted with FI_COMPLETION.
  void use_receive_queue(completion_queue* queue, bool selective) noexcept {
    receive_queue_ = queue;
    receive_selective_ = selective;
  }
  void count_shared_receives(base::counter* counter) noexcept { receive_counter_ = counter; }

  /// Takes its messages to receives that other endpoints have a part in. Not after enable(); the
  /// context outlives the endpoint.
  void share_receives(receive_context& with);

  /// Count what peers read and write here (FI_RMA_EVENT). Null: not counted.
  void count_reads_of_peers(base::counter* counter) noexcept { peers_read_ = counter; }
  void count_writes_of_peers(base::counter* counter) noexcept { peers_wrote_ = counter; }

  /// Opens the core objects and listens. Before everything below; once, but for attempts that
  /// failed.
  using opening = endpoint_opening;
  base::result<void> enable(opening config);
  base::result<void> enable() { return enable({}); }
  [[nodiscard]] bool enabled() const noexcept { return core_queue_ != nullptr; }
  [[nodiscard]] const net_address& name() const noexcept { return connections_->name(); }

  // Each returns 0, -FI_EAGAIN (no connection or credit yet: progress, and try again), or an error.
  // Errors after that are reported by completion.
  int send(const local_memory& memory, const send_params& message);
  int receive(const local_memory& memory, const recv_params& params) {
    return receives_->receive(memory, params);
  }
  /// FI_MULTI_RECV, untagged only. -FI_EINVAL: not one buffer.
  int receive_many(const local_memory& memory, const recv_params& params) {
    return receives_->receive_many(memory, params);
  }
  int write(const local_memory& memory, const rma_access& access);
  int read(const local_memory& memory, const rma_access& access);
  int atomic(const atomic_access& access);
  /// Bytes of values that one atomic operation may have, with this FI_GAUDI_EAGER_SIZE.
  static std::size_t atomic_limit(std::size_t eager_size) noexcept;

  /// Whether nothing of this endpoint's is under way to or from the peer: what follows a fence may
  /// start (FI_FENCE). Progresses if not.
  bool is_quiet(fi_addr_t with);

  /// FI_PEEK with or without FI_CLAIM and FI_DISCARD: the result is a completion, FI_ENOMSG when
  /// nothing fits. -FI_EINVAL: a message is claimed under this context already.
  int peek(const recv_params& params, bool claim, bool discard) {
    progress();
    return receives_->peek(params, claim, discard);
  }
  /// Receives (or with `discard` drops) the message claimed under wanted.asked.context.
  int receive_claimed(const local_memory& memory, const recv_params& params, bool discard) {
    return receives_->receive_claimed(memory, params, discard);
  }

  /// Completes the posted receive of this context with FI_ECANCELED. -FI_ENOENT: none is posted.
  int cancel(void* context) { return receives_->cancel(context); }

  /// FI_OPT_MIN_MULTI_RECV, in bytes: for buffers posted from now on.
  [[nodiscard]] std::size_t min_multi_recv() const noexcept { return receives_->min_multi_recv(); }
  void set_min_multi_recv(std::size_t least) noexcept { receives_->set_min_multi_recv(least); }

  /// Ends what still uses the region, on behalf of peers: it is about to be deregistered. The
  /// application's own operations are its own affair (fi_mr(3)).
  void quiesce_region(const reg::region& r);

  /// Whether the peers have still to take what completed here, before shut_down(): what is on its
  /// way would be lost with the connection. Starts settings::linger at the first call, after which
  /// the answer is no. Progress and ask again; the domain lock may be left in between. The
  /// application starts nothing any more.
  [[nodiscard]] bool must_linger();

  /// Lingers, closes all connections and drops what is outstanding. Nothing else but the destructor
  /// may follow.
  void shut_down();

  /// Handles what has happened since the last call. Never blocks. Where memory is short, the
  /// operations that need some fail with FI_ENOMEM, or wait.
  void progress() noexcept;

  /// Something is under way that no file descriptor tells of: progress() must be called soon.
  [[nodiscard]] bool needs_polling() const noexcept;
  /// Progresses; whether a thread may sleep on wait_fds() after that. 0 or -FI_EAGAIN.
  int try_wait() noexcept;
  /// File descriptors of a waitable endpoint, readable when there is something to progress.
  [[nodiscard]] const std::vector<int>& wait_fds() const noexcept { return wait_fds_; }

 private:
  /// There was no memory for what was to be done, and nothing of it has been done.
  struct untouched : std::bad_alloc {};

  friend class receive_context;
  friend struct endpoint_audit;  // tests/sim

  // send.cpp
  [[nodiscard]] bool is_eager(const connection& c, const local_memory& memory,
                              const send_params& message) const noexcept;
  int send_early(const local_memory& memory, const send_params& message);
  void post_early(peer& p);
  void go_on_with_early();
  void go_on_with(connection& c);
  [[nodiscard]] bool early_wait_unnoticed() const noexcept;
  int send_eager(connection& c, const local_memory& memory, const send_params& message);
  int send_injected(connection& c, const local_memory& memory, const send_params& message);
  [[nodiscard]] int why_nothing_left() const noexcept;
  int send_buffered(connection& c, const local_memory& memory, const send_params& message,
                    bool gather);
  [[nodiscard]] bool can_gather(const local_memory& memory,
                                const send_params& message) const noexcept;
  void count_gathered(const local_memory& memory) noexcept;
  void count_eager(const connection& c, std::size_t length) noexcept;
  base::result<connection*> data_connection(fi_addr_t to);
  int submit_ordered(connection& c, buffer& b);
  void flush_ordered(connection& c);
  int post_message(connection& c, buffer& b);
  int load_payload(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                   std::size_t length);
  void message_sent(buffer& b, int error);
  void recycle(buffer& b);
  void fill_header(connection& c, wire::header& h, wire::kind what, std::uint8_t flags) noexcept;

  // shm_path.cpp
  void add_shm_channel(connection& c);
  int shm_send(connection& c, const local_memory& memory, const send_params& message);
  int shm_post(connection& c, buffer& b);
  bool shm_control(connection& c, const std::byte* bytes, std::size_t length);
  int shm_uncounted(connection& c, const wire::header& packet, std::size_t length);
  void commit(connection& c);
  void ring_doorbell(connection& c);
  void ring_doorbells();
  bool poll_shm();
  bool take_packet(connection& c);
  [[nodiscard]] bool nic_is_shorter(const connection& c, const local_memory& memory) const noexcept;
  [[nodiscard]] bool reaches(const transfer& t, std::uint64_t local,
                             std::uint64_t remote) const noexcept;
  [[nodiscard]] static int copy_once(const transfer& t, void* bytes, std::size_t length,
                                     std::uint64_t remote) noexcept;
  [[nodiscard]] int shm_copy(transfer& t, posted_op& w, void* bytes, std::size_t length,
                             std::uint64_t remote);
  static void disable_cma(connection& c, int why) noexcept;
  void end_local_copies();
  [[nodiscard]] bool is_copied_by_engine(const connection& c, const wire::rts_fields& source,
                                         bool by_allocation,
                                         const local_memory& sink) const noexcept;
  [[nodiscard]] bool shm_may_sleep() const noexcept;

  // cooperative_copy.cpp
  void request_assist(connection& c, const wire::rts_fields& rts, transfer& t);
  void copy_cooperatively(transfer& t);
  void copy_alone(transfer& t);
  [[nodiscard]] static bool helper_is_through(transfer& t) noexcept;
  static void end_cooperative_copy(transfer& t) noexcept;
  static void outlive_connection(transfer& t) noexcept;
  void await_helpers();
  void start_assist(connection& c, const wire::copy_assist_fields& request);
  void help_peers();
  bool help_peer(pending_assist& h);

  // dmabuf_exchange.cpp
  bool name_for_peer(const connection& c, const local_memory& memory, wire::rts_fields& rts) const;
  [[nodiscard]] bool may_import(const connection& c, const local_memory& memory) const noexcept;
  void start_import(connection& c, const wire::rts_fields& rts, transfer& t);
  void continue_import(connection& c, transfer& t);
  void ask_for_dmabuf(connection& c, const transfer& t);
  void export_to_peer(connection& c, const wire::dmabuf_ask_fields& request);
  int send_dmabuf(connection& c, const transfer& t, std::uint32_t segment,
                  wire::dmabuf_fields& fields);
  void import_from_peer(connection& c, const wire::dmabuf_fields& sent);
  base::result<reg::import_cache::handle> import(const connection& c,
                                                 const wire::dmabuf_fields& sent, int fd);
  void fall_back_to_staging(connection& c, transfer& t, int why);
  int read_by_nic(transfer& t, posted_op& w, void* bytes, void* descriptor, std::size_t length,
                  const wire::segment& from);
  void tell_of_freed();
  void forget_freed(const connection& c, const wire::allocation_fields& told);

  // control.cpp
  template <class Fields>
  void send_control(connection& c, wire::kind what, std::uint8_t flags, Fields& fields,
                    std::size_t length) {
    fields.head = {what, flags, 0, 0, c.remote_id};
    queue_control(c, reinterpret_cast<const std::byte*>(&fields), length);
  }
  void queue_control(connection& c, const std::byte* bytes, std::size_t length);
  void queue_control_buffer(connection& c, buffer& b);
  void queue_answer(connection& c, buffer& b);
  void flush_control(connection& c);
  bool try_control(connection& c, const std::byte* bytes, std::size_t length);
  int send_header(connection& c, wire::kind what) override;
  int send_header_by_core(connection& c, wire::kind what);
  int send_uncounted(connection& c, const wire::header& packet, std::size_t length);
  int uncounted_by_core(connection& c, const wire::header& packet, std::size_t length);
  void recall_credits();
  void release_credits(connection& c);
  void send_fin(connection& c, std::uint64_t operation, int status, std::uint8_t flags = 0);
  void return_credits(connection& c);
  void let_control_wait(connection& c);

  // packet_handlers.cpp
  void receive_completed(buffer& b, std::size_t length, int error);
  void packet_arrived(connection& c, buffer& b, std::size_t length);
  bool dispatch(connection& c, buffer& b, std::size_t length);
  bool handle_message(connection& c, buffer& b, std::size_t length, bool rendezvous);
  bool handle_write(connection& c, buffer& b, std::size_t length, bool rendezvous);
  void handle_read(connection& c, buffer& b, std::size_t length);
  bool handle_read_reply(connection& c, buffer& b, std::size_t length, bool rendezvous);
  void handle_cts(connection& c, buffer& b, std::size_t length);
  void handle_chunk(connection& c, buffer& b, std::size_t length);
  void handle_slot_credit(connection& c, buffer& b, std::size_t length);
  void handle_fin(connection& c, buffer& b, std::size_t length);
  void handle_event(connection& c, buffer& b, std::size_t length);
  void handle_flush(connection& c, buffer& b, std::size_t length);
  void handle_copy_assist(connection& c, buffer& b, std::size_t length);
  void handle_credit_release(connection& c, buffer& b, std::size_t length);
  void handle_closing(connection& c, const buffer& b);
  void handle_dmabuf_packet(connection& c, buffer& b, std::size_t length);
  void malformed(connection& c, const char* what);
  void overrun(connection& c);
  bool dispatch_or_end(connection& c, buffer& b, std::size_t length);
  void done_with(connection& c, buffer& b, bool free);
  void postpone(connection& c, buffer& b, std::size_t length) noexcept;
  void retry_postponed();
  void drop_postponed(connection& c);
  void consume(connection& c) noexcept;
  void consumed_data(connection& c);

  // receive.cpp
  base::result<std::uint32_t> source_of(const recv_params& params);
  bool queue_unexpected(connection& c, buffer& b, const message_info& m, const std::byte* payload);
  void discard_message(unexpected& m);
  void deliver_unexpected(unexpected& m, const completion_spec& completion,
                          const local_memory& memory);
  bool deliver(connection* c, const message_info& m, const std::byte* payload, buffer* holder,
               const completion_spec& completion, const local_memory& memory);
  void forget(unexpected& m);
  void withhold_credit(connection& c, std::uint32_t& kind) noexcept;
  [[nodiscard]] bool reports_are_behind() const noexcept;
  void return_withheld();
  [[nodiscard]] completion_spec reported_here(completion_spec completion) const noexcept;
  std::uint32_t number_of(const net_address& name) override { return receives_->number_of(name); }
  void forget_number_of(const net_address& name) noexcept override {
    receives_->forget_number_of(name);
  }

  // multi_receive.cpp
  bool deliver_into_many(connection& c, const message_info& m, const std::byte* payload,
                         buffer& holder, posted_receive& r);

  // rendezvous.cpp
  transfer* new_transfer(connection* c, const local_memory& memory,
                         const completion_spec& completion);
  void free_transfer(transfer& t);
  void complete(transfer& t, int status);
  void try_retire(transfer& t);
  int send_rendezvous(connection& c, const local_memory& memory, const send_params& message);
  [[nodiscard]] bool wants_cts(const local_memory& memory) const noexcept;
  int offer(transfer& t, wire::rts_fields& rts, std::uint8_t& flags) noexcept;
  int expose(transfer& t, wire::rts_fields& rts, std::uint64_t access);
  void start_sink(connection& c, const wire::rts_fields& rts, std::uint8_t flags, transfer& t);
  void ask_to_write(connection& c, transfer& t);
  void send_cts(connection& c, const transfer& t, wire::cts_fields& g, std::uint8_t flags);

  // slots.cpp
  void grant_slots(transfer& t);
  void hand_out_slots(const shared_slots* of);
  bool grant_more(transfer& t);
  void fill_from_slot(transfer& t, buffer& slot, const wire::chunk_fields& chunk);
  void slot_emptied(transfer& t, buffer& slot, int error);
  void reuse_slot(transfer& t, buffer& slot);
  void take_slots_back(transfer& t);

  // data_mover.cpp
  enum class issue_result {
    issued,
    waiting,   // for something that is under way
    no_room,   // in the core or in the engine
    no_chunk,  // of the peer's quota
  };
  void progress_transfer(transfer& t);
  void stall(transfer& t) noexcept;
  [[nodiscard]] bool core_takes(const transfer& t, const local_memory::place& place,
                                std::size_t length) const noexcept;
  void note_remainder(transfer& t) noexcept;
  issue_result issue_direct(transfer& t, const local_memory::place& place, std::size_t limit);
  void count_piece(transfer& t, const local_memory::place& place, bool local, std::size_t length);
  issue_result no_chunk_for(transfer& t);
  issue_result issue_by_engine(transfer& t, const local_memory::place& place, std::size_t length);
  issue_result issue_staged(transfer& t, std::size_t limit);
  int post_rma(transfer& t, posted_op& w, void* bytes, std::size_t length, void* descriptor,
               std::size_t offset, std::uint32_t slot);
  void piece_completed(rma_op& piece, int error);
  void chunk_completed(buffer& b, int error);
  void copied(buffer& b) noexcept override;
  void all_copied(buffer& b);
  void chunk_loaded(transfer& t, buffer& b, int error);
  void send_chunk(const transfer& t, const buffer& b);
  bool copy_out(transfer& t, buffer* holder, const std::byte* payload);
  void piece_finished(transfer& t, std::size_t length, int error);

  // device_loss.cpp
  void end_lost();
  void end_by_loss(transfer& t);

  // pipeline_params.cpp
  const transfer::pipeline_params& pipeline_params_of(transfer& t);
  copy::copy_row row_for(const transfer& t);

  // flush.cpp
  int flush_local(const transfer& t);
  [[nodiscard]] bool can_flush_by_fin(const transfer& t) const noexcept;
  bool flush_by_fin(transfer& t);
  void fin_has_flushed(std::uint32_t operation, int error);
  int flush_at(std::uint64_t address);
  [[nodiscard]] bool wants_remote_flush(const transfer& t) const noexcept;
  void ask_to_flush(const transfer& t);
  void answer_flush(connection& c, const wire::event_fields& request);

  // rma.cpp
  [[nodiscard]] bool is_direct(const connection& c, std::uint64_t key) const noexcept;
  void keep_order(transfer& t) noexcept;
  int access_directly(connection& c, const local_memory& memory, const rma_access& access,
                      transfer_strategy way);
  [[nodiscard]] buffer* acquire_chunk(const connection& c) noexcept;
  int inject_write(connection& c, const local_memory& memory, const rma_access& access);
  bool serve_read(connection& c, const wire::rma_fields& request, const reg::region& source);
  int write_by_message(connection& c, const local_memory& memory, const rma_access& access);
  int read_by_message(connection& c, const local_memory& memory, const rma_access& access);

  // atomic.cpp
  int request_atomic(connection& c, const atomic_access& access);
  void handle_atomic(connection& c, buffer& b, std::size_t length);
  bool carry_out(connection& c, const wire::atomic_fields& request, const reg::region& target,
                 const std::byte* payload);
  void count_atomic(const reg::region& target, atomic_math::call group, fi_op op, int ret) noexcept;

  // goodbye.cpp
  bool has_left(connection& c);
  [[nodiscard]] bool owes_goodbye(const connection& c) const noexcept;
  int say_goodbye(connection& c);

  // progress.cpp
  void make_room_for_connections();
  void memory_is_short() noexcept;
  void go_on_with_waiting();
  bool poll_shm_first();
  std::size_t handle_completions(std::size_t most);
  void handle_core_error();
  base::result<void> open_core(opening config);
  void free_transfers();
  void completed(posted_op& w, std::size_t length, int error);
  void completed_or_end(posted_op& w, std::size_t length, int error) noexcept;
  /// What is done for one peer ends with its connection where there is no memory for it, and goes
  /// on for the others.
  template <class Call>
  void on_behalf_of(connection* c, Call&& call) noexcept try {
    call();
  } catch (const std::bad_alloc&) {
    if (c) connections_->fail_soon(*c, FI_ENOMEM);
  }
  void retry_stalled();
  [[nodiscard]] bool must_retry(const transfer& t) const noexcept;
  [[nodiscard]] bool must_flush(std::uint32_t id) const noexcept;
  [[nodiscard]] bool waits_unnoticed() const noexcept;
  void flush_waiting();
  void fail_posted(connection& c, int error);
  void fail_queued(connection& c, int error);
  void fail_transfers(connection& c, int error);
  void forget_rendezvous_of(connection& c);
  void post_receives(connection& c);
  void post_waiting_receives();
  [[nodiscard]] bool can_post_receives() const noexcept {
    return !receives_waiting_.empty() && receive_buffers_->has_room();
  }
  void connection_opened(connection& c) override;
  void connection_up(connection& c) override;
  void connections_ending() override;
  void connection_down(connection& c, int error) override;
  void list_posted(connection& c, posted_op& w) noexcept;
  [[nodiscard]] bool core_has_room() const noexcept { return at_core_ < core_operations_; }
  void added(fi_addr_t index, const net_address& address) override;
  void removed(fi_addr_t index, const net_address& address) override;

  peer* peer_at(fi_addr_t address);

  core::inner_domain& core_;
  reg::key_table& keys_;
  path_counters& paths_;
  const settings config_;
  const std::size_t message_limit_;  // bytes of the largest message, header included
  std::size_t core_inject_ = 0;
  std::size_t core_length_ = 0;   // bytes that one operation of the core may have
  std::size_t inline_limit_ = 0;  // up to here the core reads what it sends with the CPU

  address_vector* addresses_ = nullptr;
  completion_queue* receive_queue_ = nullptr;
  base::counter* receive_counter_ = nullptr;
  bool receive_selective_ = false;
  base::counter* peers_read_ = nullptr;
  base::counter* peers_wrote_ = nullptr;
  std::vector<peer*> peers_by_address_;
  early_sends early_;

  core::unique_fid<fid_cq> core_queue_;
  // A NIC's queue does not grow, and what it has no room for is lost.
  std::size_t core_operations_ = 0;
  std::size_t at_core_ = 0;  // of them, without receives
  std::vector<int> wait_fds_;

  // Memory that the core or a device may still use outlives the connections, which are declared
  // below.
  std::unique_ptr<receive_buffers> receive_buffers_;
  std::unique_ptr<buffer_pool> send_buffers_;
  // For our side of a transfer, given to peers until they are done, and for injected writes.
  std::unique_ptr<staging_pool> chunks_;
  std::unique_ptr<staging_pool> slots_;
  std::unique_ptr<staging_pool> injected_;
  base::object_pool<transfer> transfer_pool_;
  base::object_pool<rma_op> piece_pool_;
  std::unique_ptr<receive_context> own_receives_;  // null where they are shared
  receive_context* receives_;
  base::id_table<transfer> transfers_;
  unexpected_budget unexpected_;
  std::vector<std::uint32_t> withholding_;  // connections by id, with connection::withheld
  std::size_t held_buffers_ = 0;

  device_copies copies_;
  nic_copies nic_copies_;
  std::uint64_t losses_seen_ = device::device_loss_epoch::count();

  stalled_list stalled_;  // could not hand out more: no chunk, no room in core or device
  for_peer_list for_peers_;
  std::size_t tried_in_vain_ = 0;               // of them, since one got on or a chunk came back
  std::vector<buffer*> write_backlog_;          // loaded chunks that the core had no room for
  std::vector<transfer*> grant_queue_;          // sinks that want more staging slots
  std::vector<std::uint32_t> control_waiting_;  // connections by id
  std::vector<std::uint32_t> ordered_waiting_;
  std::vector<std::uint32_t> receives_waiting_;
  unsigned quiet_looks_ = 0;                     // at shared memory, since it brought something
  unsigned core_waits_ = 0;                      // looks there since the last one at the core
  std::vector<connection*> shm_connections_;     // to peers on this host
  std::vector<std::uint32_t> doorbells_;         // connections whose peer has to be woken
  std::vector<local_copy> local_copies_;         // made, and not told yet
  std::vector<pending_assist> pending_assists_;  // copies of peers, the oldest first
  exported_dmabufs exported_;
  std::optional<base::clock::time_point> linger_until_;
  bool told_of_memory_ = false;
  bool any_postponed_ = false;  // connection::postponed
  bool any_waiting_ = false;    // any_postponed_, or early_ or closer_ is not empty

  std::unique_ptr<connection_manager> connections_;
  connection_closer closer_;
};

}  // namespace gaudi::proto
