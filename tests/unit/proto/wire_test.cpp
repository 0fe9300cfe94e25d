// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The bytes on the wire are a promise to other releases: what changes here changes wire::version.
#include "proto/wire/wire.hpp"

#include <gtest/gtest.h>

namespace gaudi::proto::wire {
namespace {

TEST(wire, every_field_is_where_version_17_has_it) {
  ASSERT_EQ(version, 17);
  EXPECT_EQ(offsetof(header, flags), 1U);
  EXPECT_EQ(offsetof(header, data_credits), 2U);
  EXPECT_EQ(offsetof(header, control_credits), 3U);
  EXPECT_EQ(offsetof(header, connection), 4U);
  EXPECT_EQ(offsetof(header, number), 8U);
  EXPECT_EQ(offsetof(header, received), 12U);
  EXPECT_EQ(sizeof(header), 16U);
  EXPECT_EQ(offsetof(eager_fields, tag), 16U);
  EXPECT_EQ(offsetof(eager_fields, data), 24U);
  EXPECT_EQ(offsetof(eager_fields, operation), 32U);
  EXPECT_EQ(offsetof(rts_fields, segment_count), 16U);
  EXPECT_EQ(offsetof(rts_fields, segments), 24U);
  EXPECT_EQ(sizeof(rts_fields), 24 + max_segments * 24);
  EXPECT_EQ(offsetof(rma_fields, address), 24U);
  EXPECT_EQ(offsetof(rma_fields, data), 48U);
  EXPECT_EQ(sizeof(rma_fields), 56U);
  EXPECT_EQ(offsetof(atomic_fields, address), 24U);
  EXPECT_EQ(offsetof(atomic_fields, count), 40U);
  EXPECT_EQ(offsetof(atomic_fields, group), 46U);
  EXPECT_EQ(sizeof(atomic_fields), 48U);
  EXPECT_EQ(offsetof(fin_fields, status), 24U);
  EXPECT_EQ(sizeof(fin_fields), 32U);
  EXPECT_EQ(offsetof(cts_fields, segments), 48U);
  EXPECT_EQ(sizeof(cts_fields), 48 + max_slots * 24);
  EXPECT_EQ(offsetof(chunk_fields, length), 32U);
  EXPECT_EQ(sizeof(chunk_fields), 40U);
  EXPECT_EQ(offsetof(credit_fields, count), 16U);
  EXPECT_EQ(sizeof(credit_fields), 24U);
  EXPECT_EQ(sizeof(event_fields), 40U);
  EXPECT_EQ(offsetof(dmabuf_ask_fields, segment), 32U);
  EXPECT_EQ(offsetof(dmabuf_fields, allocation), 24U);
  EXPECT_EQ(offsetof(dmabuf_fields, address), 48U);
  EXPECT_EQ(offsetof(dmabuf_fields, status), 56U);
  EXPECT_EQ(sizeof(allocation_fields), 24U);
  EXPECT_EQ(offsetof(copy_assist_fields, piece), 40U);
  EXPECT_EQ(offsetof(copy_assist_fields, number), 48U);
  EXPECT_EQ(sizeof(copy_assist_fields), 56U);
  EXPECT_EQ(offsetof(rail_fields, number), 16U);
  EXPECT_EQ(sizeof(rail_fields), 24U);
  EXPECT_EQ(offsetof(rail_names_fields, count), 16U);
  EXPECT_EQ(offsetof(rail_names_fields, places), 24U);
  EXPECT_EQ(offsetof(rail_place, nic), 20U);
  EXPECT_EQ(offsetof(rail_place, fence_address), 24U);
  EXPECT_EQ(offsetof(rail_place, fence_key), 32U);
  EXPECT_EQ(offsetof(rail_ask_fields, of), 24U);
  EXPECT_EQ(offsetof(rail_ask_fields, key), 40U);
  EXPECT_EQ(offsetof(rail_ask_fields, nic), 56U);
  EXPECT_EQ(sizeof(rail_ask_fields), 64U);
  EXPECT_EQ(offsetof(rail_keys_fields, count), 28U);
  EXPECT_EQ(offsetof(rail_keys_fields, nic), 24U);
  EXPECT_EQ(offsetof(rail_keys_fields, keys), 32U);
  EXPECT_EQ(offsetof(rail_name, port), 2U);
  EXPECT_EQ(offsetof(rail_name, address), 4U);
  EXPECT_EQ(offsetof(hello, version), 4U);
  EXPECT_EQ(offsetof(hello, reason), 6U);
  EXPECT_EQ(offsetof(hello, instance), 16U);
  EXPECT_EQ(offsetof(hello, flags), 7U);
  EXPECT_EQ(offsetof(hello, address), 32U);
  EXPECT_EQ(offsetof(hello, host), 48U);
  // verbs' FI_OPT_CM_DATA_SIZE is 55.
  EXPECT_LE(sizeof(hello), 55U);
}

// In the fields that a new session has for its windows.
TEST(wire, a_hello_names_the_session_that_it_resumes) {
  hello h{};
  set_resumed(h, 0x89abcdef);
  EXPECT_EQ(resumed(h), 0x89abcdefU);
  EXPECT_EQ(h.data_window, 0xcdefU);
  EXPECT_EQ(h.control_window, 0x89abU);
}

TEST(wire, a_hello_names_the_way_that_a_session_goes_on) {
  hello h{};
  set_way(h, 5, 7);
  EXPECT_EQ(route_of(h), 5U);
  EXPECT_EQ(nic_of(h), 7U);
  h.host = 0xfffffff8;  // more than there are
  EXPECT_EQ(route_of(h), 0U);
  EXPECT_EQ(nic_of(h), 0U);
}

TEST(wire, a_short_message_carries_only_the_fields_that_it_uses) {
  EXPECT_EQ(eager_size(0), 24U);
  EXPECT_EQ(eager_size(tagged), 24U);
  EXPECT_EQ(eager_size(cq_data), 32U);
  EXPECT_EQ(eager_size(tagged | cq_data), 32U);
  EXPECT_EQ(eager_size(want_fin), 40U);
  EXPECT_EQ(eager_size(want_fin | cq_data), 40U);
}

TEST(wire, what_answers_is_control_and_what_asks_is_data) {
  for (const kind k : {kind::eager, kind::rts, kind::write, kind::write_rts, kind::read})
    EXPECT_FALSE(is_control(k)) << static_cast<int>(k);
  for (const kind k :
       {kind::read_reply, kind::read_rts, kind::cts, kind::chunk, kind::slot_credit, kind::fin,
        kind::event, kind::flush, kind::ask_dmabuf, kind::dmabuf, kind::dmabuf_revoke,
        kind::copy_assist, kind::ask_rails, kind::rail_names, kind::rail_lost, kind::rail_closed,
        kind::ask_rail_keys, kind::rail_keys, kind::credit})
    EXPECT_TRUE(is_control(k)) << static_cast<int>(k);
}

TEST(wire, what_is_only_a_header_takes_no_credit) {
  for (const kind k : {kind::credit, kind::close_request, kind::close_accept, kind::close_refuse,
                       kind::credit_recall, kind::credit_release})
    EXPECT_FALSE(takes_credit(k)) << static_cast<int>(k);
  for (const kind k : {kind::eager, kind::atomic, kind::read_reply, kind::copy_assist,
                       kind::rail_closed, kind::rail_keys})
    EXPECT_TRUE(takes_credit(k)) << static_cast<int>(k);
}

// All that is not bulk data fits the smallest buffer that a hello may announce.
TEST(wire, every_packet_without_payload_fits_the_least_message) {
  EXPECT_LE(sizeof(eager_fields) + sizeof(rts_fields), min_message);
  EXPECT_LE(sizeof(rma_fields) + sizeof(rts_fields), min_message);
  EXPECT_LE(sizeof(fin_fields) + sizeof(rts_fields), min_message);
  EXPECT_LE(sizeof(cts_fields), min_message);
}

}  // namespace
}  // namespace gaudi::proto::wire
