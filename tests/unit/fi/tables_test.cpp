// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/tables.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "fi/open_fabric.hpp"
#include "fi/rdm/endpoint_atomic.hpp"
#include "opened.hpp"

namespace {

using namespace gaudi::fi;

/// Every entry behind .size is a pointer; libfabric's wrappers call most of them unchecked.
template <class Table>
void expect_complete(const Table& table) {
  EXPECT_EQ(table.size, sizeof(Table));
  for (std::size_t at = sizeof(table.size); at < sizeof(Table); at += sizeof(void*)) {
    void* entry = nullptr;
    std::memcpy(&entry, reinterpret_cast<const char*>(&table) + at, sizeof(entry));
    EXPECT_NE(entry, nullptr) << "entry at byte " << at;
  }
}

TEST(tables, are_complete) {
  expect_complete(endpoint_atomic_ops);
  expect_complete(no_collectives);
  fid_fabric* f = nullptr;
  ASSERT_EQ(fabric_open(nullptr, &f, nullptr), 0);
  expect_complete(*f->ops);
  expect_complete(*f->fid.ops);
  fid_eq* eq = nullptr;
  ASSERT_EQ(fi_eq_open(f, nullptr, &eq, nullptr), 0);
  expect_complete(*eq->ops);
  expect_complete(*eq->fid.ops);
  EXPECT_EQ(fi_close(&eq->fid), 0);
  EXPECT_EQ(fi_close(&f->fid), 0);
}

TEST(tables, of_what_a_domain_opens_are_complete) {
  const test::opened o;
  const test::endpoint_set e(o);
  expect_complete(*o.domain->ops);
  expect_complete(*o.domain->fid.ops);
  expect_complete(*o.domain->mr);
  expect_complete(*e.av->ops);
  expect_complete(*e.av->fid.ops);
  expect_complete(*e.cq->ops);
  expect_complete(*e.cq->fid.ops);
  expect_complete(*e.ep->ops);
  expect_complete(*e.ep->fid.ops);
  expect_complete(*e.ep->cm);
  expect_complete(*e.ep->msg);
  expect_complete(*e.ep->tagged);
  expect_complete(*e.ep->rma);
  expect_complete(*e.ep->atomic);
}

/// libfabric 2.7's wrappers of entries that it appends to a table call them as
/// `table->export_xpu(fid, flags, export)`, without a look at its size.
template <class Fid>
void expect_room_behind(const Fid* object) {
  using export_xpu = int (*)(const Fid*, std::uint64_t, void*);
  export_xpu appended = nullptr;
  std::memcpy(&appended, object->ops + 1, sizeof appended);
  ASSERT_NE(appended, nullptr);
  EXPECT_EQ(appended(object, 0, nullptr), -FI_ENOSYS);
}

TEST(tables, refuse_what_nobody_named) {
  fi_ops_cq few{};
  few.size = sizeof few;
  few.strerror = [](fid_cq*, int, const void*, char*, std::size_t) { return "named"; };
  const padded<fi_ops_cq> all(few);
  EXPECT_EQ(all.size, sizeof few);
  EXPECT_STREQ(all.strerror(nullptr, 0, nullptr, nullptr, 0), "named");
  EXPECT_EQ(all.signal(nullptr), -FI_ENOSYS);
  expect_complete<fi_ops_cq>(all);
}

TEST(tables, have_room_for_entries_that_later_releases_append) {
  const test::opened o;
  const test::endpoint_set e(o);
  expect_room_behind(o.domain.get());
  expect_room_behind(e.ep.get());
  expect_room_behind(e.cq.get());
  expect_room_behind(e.av.get());
  fi_cntr_attr attr{};
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(o.domain.get(), &attr, &counter, nullptr), 0);
  expect_room_behind(counter);
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST(not_supported, converts_to_any_signature) {
  int (*as_int)(fid*, int, void*) = not_supported;
  ssize_t (*as_ssize)(fid_ep*) = not_supported;
  std::uint64_t (*as_count)(fid_cntr*) = not_supported;
  const char* (*as_text)(fid_cq*, int) = not_supported;
  EXPECT_EQ(as_int(nullptr, 0, nullptr), -FI_ENOSYS);
  EXPECT_EQ(as_ssize(nullptr), -FI_ENOSYS);
  EXPECT_EQ(as_count(nullptr), 0U);
  EXPECT_EQ(as_text(nullptr, 0), nullptr);
}

TEST(fabric, stays_open_for_its_event_queues) {
  fi_fabric_attr attr{};
  attr.api_version = FI_VERSION(1, 5);
  fid_fabric* f = nullptr;
  int context = 0;
  ASSERT_EQ(fabric_open(&attr, &f, &context), 0);
  EXPECT_EQ(f->fid.context, &context);
  EXPECT_EQ(f->api_version, FI_VERSION(1, 5));
  fid_eq* eq = nullptr;
  ASSERT_EQ(fi_eq_open(f, nullptr, &eq, nullptr), 0);
  EXPECT_EQ(fi_close(&f->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&eq->fid), 0);
  EXPECT_EQ(fi_close(&f->fid), 0);
}

TEST(fabric, may_wait_only_where_nothing_is_ready) {
  fid_fabric* f = nullptr;
  ASSERT_EQ(fabric_open(nullptr, &f, nullptr), 0);
  fi_eq_attr attr{};
  attr.flags = FI_WRITE;
  attr.wait_obj = FI_WAIT_FD;
  fid_eq* eq = nullptr;
  ASSERT_EQ(fi_eq_open(f, &attr, &eq, nullptr), 0);
  fid* fids[] = {&eq->fid};
  EXPECT_EQ(fi_trywait(f, fids, 0), 0);
  EXPECT_EQ(fi_trywait(f, fids, 1), 0);
  const fi_eq_entry entry{};
  ASSERT_GT(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), 0);
  EXPECT_EQ(fi_trywait(f, fids, 1), -FI_EAGAIN);
  EXPECT_EQ(fi_close(&eq->fid), 0);
  EXPECT_EQ(fi_close(&f->fid), 0);
}

}  // namespace
