// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What callers cannot mean is refused, and leaves what they gave as it was.
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <string>

#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

TEST(refusals, of_objects_without_a_place_for_them_or_without_attributes) {
  const opened o;
  fid_domain* const domain = o.domain.get();
  fi_cq_attr queue{};
  fid_cntr* counter = nullptr;
  fi_cntr_attr of_bytes{};
  of_bytes.events = static_cast<fi_cntr_events>(1);  // FI_CNTR_EVENTS_BYTES of libfabric 2
  EXPECT_EQ(fi_cq_open(domain, &queue, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_open(domain, nullptr, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_open(domain, &of_bytes, &counter, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_endpoint(domain, o.info.get(), nullptr, nullptr), -FI_EINVAL);
}

TEST(refusals, of_registrations_of_other_than_one_buffer) {
  const opened o;
  fid_domain* const domain = o.domain.get();
  char byte = 0;
  const iovec two[]{{&byte, 1}, {&byte, 1}};
  fid_mr* mr = nullptr;
  fi_mr_attr attr{};
  attr.access = FI_SEND;
  EXPECT_EQ(fi_mr_regattr(domain, &attr, 0, &mr), -FI_EINVAL) << "none";
  attr.iov_count = 1;
  EXPECT_EQ(fi_mr_regattr(domain, &attr, 0, &mr), -FI_EINVAL) << "not told which";
  attr.mr_iov = two;
  attr.iov_count = 2;
  EXPECT_EQ(fi_mr_regattr(domain, &attr, 0, &mr), -FI_EINVAL);
  attr.iov_count = 1;
  EXPECT_EQ(fi_mr_regattr(domain, &attr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regattr(domain, nullptr, 0, &mr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regv(domain, two, 2, FI_SEND, 0, 0, 0, &mr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regv(domain, nullptr, 1, FI_SEND, 0, 0, 0, &mr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regv(domain, two, 1, FI_SEND, 0, 0, 0, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(mr, nullptr);
}

TEST(refusals, of_options_of_another_level_or_without_a_value) {
  const opened o;
  const endpoint_set set(o);
  fid_t const ep = &set.ep->fid;
  std::size_t value = 3;
  std::size_t length = sizeof value;
  const int name = FI_OPT_MIN_MULTI_RECV;
  EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT + 1, name, &value, &length), -FI_ENOPROTOOPT);
  EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT + 1, name, &value, length), -FI_ENOPROTOOPT);
  EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, name, nullptr, &length), -FI_EINVAL);
  EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, name, &value, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT, name, nullptr, length), -FI_EINVAL);
  EXPECT_EQ(value, 3U);
}

TEST(refusals, of_flags_of_neither_or_both_directions) {
  const opened o;
  const endpoint_set set(o);
  for (std::uint64_t flags : {std::uint64_t{FI_COMPLETION}, std::uint64_t{FI_TRANSMIT | FI_RECV}}) {
    EXPECT_EQ(fi_control(&set.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
    EXPECT_EQ(fi_control(&set.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
  }
  std::uint64_t flags = FI_RECV | FI_COMPLETION;
  EXPECT_EQ(fi_control(&set.ep->fid, FI_SETOPSFLAG, &flags), 0);
  flags = FI_RECV;
  EXPECT_EQ(fi_control(&set.ep->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, FI_COMPLETION);
}

TEST(refusals, of_counters_for_nothing_or_of_another_domain) {
  const opened o;
  const opened elsewhere;
  const auto open_counter = [](const opened& in) {
    fid_cntr* counter = nullptr;
    EXPECT_EQ(fi_cntr_open(in.domain.get(), nullptr, &counter, nullptr), 0);
    return unique_fid<fid_cntr>(counter);
  };
  const auto own = open_counter(o);
  const auto foreign = open_counter(elsewhere);
  const auto ep = o.open_ep();
  EXPECT_EQ(fi_ep_bind(ep.get(), &own->fid, 0), -FI_EBADFLAGS);
  EXPECT_EQ(fi_ep_bind(ep.get(), &own->fid, FI_SEND | FI_FENCE), -FI_EBADFLAGS);
  EXPECT_EQ(fi_ep_bind(ep.get(), &foreign->fid, FI_SEND), -FI_EINVAL);
  EXPECT_EQ(fi_ep_bind(ep.get(), &own->fid, FI_SEND), 0);
}

TEST(refusals, of_questions_about_atomics_that_there_are_not) {
  const opened o(direct_mode, FI_VERSION(1, 17), FI_MSG | FI_ATOMIC);
  const auto ask = [&](fi_op op, std::uint64_t flags) {
    fi_atomic_attr attr{};
    return fi_query_atomic(o.domain.get(), FI_UINT64, op, &attr, flags);
  };
  EXPECT_EQ(fi_query_atomic(o.domain.get(), FI_UINT64, FI_SUM, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(ask(FI_SUM, FI_READ), -FI_EBADFLAGS);
  EXPECT_EQ(ask(FI_SUM, FI_TAGGED), -FI_EINVAL);
  EXPECT_EQ(ask(FI_SUM, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EINVAL);
  EXPECT_EQ(ask(FI_SUM, FI_COMPARE_ATOMIC), -FI_EOPNOTSUPP);
  EXPECT_EQ(ask(FI_CSWAP, 0), -FI_EOPNOTSUPP);
  EXPECT_EQ(ask(FI_SUM, FI_FETCH_ATOMIC), 0);
  EXPECT_EQ(ask(FI_CSWAP, FI_COMPARE_ATOMIC), 0);
}

TEST(texts_of_errors, fit_in_what_there_is_for_them) {
  const opened o;
  const auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  fid_eq* opened_events = nullptr;
  fi_eq_attr attr{};
  ASSERT_EQ(fi_eq_open(o.fabric.get(), &attr, &opened_events, nullptr), 0);
  const unique_fid<fid_eq> events(opened_events);
  const std::string whole = fi_strerror(FI_EINVAL);
  ASSERT_GT(whole.size(), 4U);
  char room[5]{'x', 'x', 'x', 'x', 'x'};
  EXPECT_EQ(fi_cq_strerror(cq.get(), FI_EINVAL, nullptr, room, sizeof room), whole);
  EXPECT_EQ(room, whole.substr(0, 4));
  EXPECT_EQ(fi_cq_strerror(cq.get(), FI_EINVAL, nullptr, nullptr, 5), whole);
  EXPECT_EQ(fi_cq_strerror(cq.get(), FI_EINVAL, nullptr, room, 0), whole);
  EXPECT_EQ(fi_eq_strerror(events.get(), FI_EINVAL, nullptr, room, sizeof room),
            whole.substr(0, 4));
  EXPECT_EQ(fi_eq_strerror(events.get(), FI_EINVAL, nullptr, nullptr, 5), whole);
  EXPECT_EQ(fi_eq_strerror(events.get(), FI_EINVAL, nullptr, room, 0), whole);
}

}  // namespace
}  // namespace gaudi::fi::test
