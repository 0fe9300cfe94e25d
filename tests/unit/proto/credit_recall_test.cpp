// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Credits that a peer does not use, asked for and given up: both sides of the packets.
#include "hostile_peer.hpp"

namespace gaudi::proto {
namespace {

using test::greeting;
using test::raw_client;
using test::victim;

bool is_closed(victim& v, raw_client& client) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!client.shut && std::chrono::steady_clock::now() < give_up) {
    v.ep->progress();
    client.progress();
  }
  return client.shut;
}

void release(raw_client& client, const hello& theirs, std::uint32_t count) {
  wire::credit_fields fields{};
  fields.head = {wire::kind::credit_release, 0, 0, 0, theirs.connection};
  fields.count = count;
  ASSERT_TRUE(client.send(&fields, sizeof fields));
}

TEST(credit_recall, is_answered_with_all_but_a_few_which_are_left_to_send) {
  victim v;
  raw_client client;
  const hello ours = greeting(60031);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  client.listen(64);
  const wire::header ask{wire::kind::credit_recall, 0, 0, 0, theirs.connection};
  ASSERT_TRUE(client.send(&ask, sizeof ask));
  const auto given = client.hear<wire::credit_fields>(v, wire::kind::credit_release);
  EXPECT_EQ(given.count, ours.data_window - credit_pool::certain);
  const auto to = v.addresses.add(address_of(ours));
  ASSERT_TRUE(to);
  char byte = 0;
  const auto memory = local_memory::of_host(&byte, 1);
  unsigned sent = 0;
  while (sent < 64 && v.ep->send(memory, {.to = *to, .inject = true, .completion = {}}) == 0)
    ++sent;
  EXPECT_EQ(sent, credit_pool::certain);
}

TEST(credit_release, takes_away_what_it_gives_up) {
  victim v;
  raw_client client;
  const hello ours = greeting(60032);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  release(client, theirs, theirs.data_window);
  wire::eager_fields message{};
  message.head = {wire::kind::eager, 0, 0, 0, theirs.connection};
  ASSERT_TRUE(client.send(&message, wire::eager_size(0)));
  EXPECT_TRUE(is_closed(v, client)) << "it had none left";
}

TEST(credit_release, of_more_than_there_are_closes_the_connection) {
  victim v;
  raw_client client;
  const hello ours = greeting(60033);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  release(client, theirs, theirs.data_window + 1U);
  EXPECT_TRUE(is_closed(v, client));
}

}  // namespace
}  // namespace gaudi::proto
