// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whom a look at a completion queue progresses.
#include "fi/rdm/endpoint_rota.hpp"

#include "fi/rdm/cq.hpp"
#include "opened.hpp"

namespace gaudi::fi {
namespace {

using test::endpoint_set;
using test::opened;

class polled : public testing::Test {
 protected:
  [[nodiscard]] domain& parent() const { return domain::of(o.domain.get()); }
  [[nodiscard]] unsigned rounds() const {
    const base::scoped_domain_lock lock(parent().lock());
    return parent().endpoints().rounds();
  }
  static bool has_entry(const endpoint_set& e) {
    cq& own = cq::of(e.cq.get());
    const base::scoped_domain_lock lock(own.parent().lock());
    return !own.entries().empty();
  }
  static void look_at(const endpoint_set& e) { fi_cq_read(e.cq.get(), nullptr, 0); }

  opened o;
  endpoint_set a{o};
  endpoint_set b{o};
};

TEST_F(polled, queues_progress_all_endpoints_now_and_then) {
  const unsigned before = rounds();
  for (int i = 0; i < 40; ++i) look_at(a);
  EXPECT_EQ(rounds(), before + 10);
}

TEST_F(polled, counters_progress_all_endpoints_each_time) {
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(o.domain.get(), nullptr, &counter, nullptr), 0);
  const core::unique_fid<fid_cntr> owner(counter);
  const unsigned before = rounds();
  for (int i = 0; i < 10; ++i) fi_cntr_read(counter);
  EXPECT_EQ(rounds(), before + 10);
}

// An application that waits at one queue for what another endpoint of its own has to do.
TEST_F(polled, at_one_queue_another_endpoint_gets_its_message) {
  const fi_addr_t to_b = a.meet(b);
  char sent = 'x';
  char room = ' ';
  ASSERT_EQ(fi_recv(b.ep.get(), &room, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  ASSERT_EQ(test::retry(a.cq.get(),
                        [&] { return fi_send(a.ep.get(), &sent, 1, nullptr, to_b, nullptr); }),
            0);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!has_entry(b) && std::chrono::steady_clock::now() < give_up) look_at(a);
  EXPECT_EQ(room, 'x');
}

// It would be one that is gone.
TEST_F(polled, queue_has_no_endpoint_any_more_that_is_closed) {
  const auto queue = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  for (int i = 0; i < 3; ++i) {
    const auto av = o.open_av();
    const auto ep = o.open_ep();
    ASSERT_EQ(fi_ep_bind(ep.get(), &queue->fid, FI_TRANSMIT | FI_RECV), 0);
    ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
    ASSERT_EQ(fi_enable(ep.get()), 0);
  }
  fi_cq_entry entry{};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(fi_cq_read(queue.get(), &entry, 1), -FI_EAGAIN);
}

}  // namespace
}  // namespace gaudi::fi
