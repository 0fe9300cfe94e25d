// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which way the bytes of a rendezvous go, for all that the choice can depend on.
#include "proto/transfer/path_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gaudi::proto {
namespace {

using base::path_reason;

/// All that there can be.
std::vector<path_facts> all_facts() {
  std::vector<path_facts> all;
  for (const source_offer offer :
       {source_offer::nothing, source_offer::keys, source_offer::allocations}) {
    for (unsigned bits = 0; bits < 1U << 8; ++bits) {
      const auto is = [&](unsigned at) { return (bits >> at & 1U) != 0; };
      all.push_back({.offer = offer,
                     .one_device = is(0),
                     .imports = is(1),
                     .source_is_kept = is(2),
                     .core_reads_badly = is(3),
                     .sink_on_device = is(4),
                     .sink_is_reached = is(5),
                     .sink_is_kept = is(6),
                     .staging_is_chosen = is(7)});
    }
  }
  return all;
}

TEST(path_choice, is_always_made_and_always_has_a_reason) {
  for (const path_facts& f : all_facts()) {
    for (const path_choice& chosen : {choose_path(f), choose_path_of_source(f)}) {
      EXPECT_NE(chosen.path, transfer_path::undecided);
      EXPECT_NE(chosen.reason, path_reason::undecided);
      EXPECT_FALSE(base::text_of(chosen.reason).empty());
    }
  }
}

TEST(path_choice, takes_from_the_source_only_what_it_offers) {
  for (const path_facts& f : all_facts()) {
    const transfer_path path = choose_path(f).path;
    if (path == transfer_path::read) {
      EXPECT_EQ(f.offer, source_offer::keys);
    }
    if (path == transfer_path::dmabuf) {
      EXPECT_EQ(f.offer, source_offer::allocations);
    }
    if (path == transfer_path::engine) {
      EXPECT_NE(f.offer, source_offer::nothing);
    }
  }
}

TEST(path_choice, lets_nobody_reach_what_is_kept) {
  for (const path_facts& f : all_facts()) {
    const transfer_path path = choose_path(f).path;
    if (path == transfer_path::read) {
      EXPECT_FALSE(f.source_is_kept);
      EXPECT_FALSE(f.core_reads_badly);
    }
    if (path != transfer_path::write) continue;
    EXPECT_FALSE(f.sink_on_device ? !f.sink_is_reached || f.staging_is_chosen : f.sink_is_kept);
  }
}

TEST(path_choice, stages_only_where_the_source_cannot_write) {
  for (const path_facts& f : all_facts()) {
    const path_choice chosen = choose_path(f);
    if (chosen.path != transfer_path::slots) continue;
    EXPECT_TRUE(f.sink_on_device ? f.staging_is_chosen || !f.sink_is_reached : f.sink_is_kept);
    const path_reason why = !f.sink_on_device     ? path_reason::sink_is_kept
                            : f.staging_is_chosen ? path_reason::staging_is_chosen
                                                  : path_reason::device_is_not_reached;
    EXPECT_EQ(chosen.reason, why);
  }
}

TEST(path_choice, takes_the_shortest) {
  const path_facts readable{.offer = source_offer::keys, .one_device = true};
  EXPECT_EQ(choose_path(readable), (path_choice{transfer_path::engine, path_reason::one_device}));
  const path_facts named{.offer = source_offer::allocations, .imports = true};
  EXPECT_EQ(choose_path(named),
            (path_choice{transfer_path::dmabuf, path_reason::source_passes_dmabuf}));
  EXPECT_EQ(choose_path({.offer = source_offer::keys}),
            (path_choice{transfer_path::read, path_reason::source_can_be_read}));
}

TEST(path_choice, has_data_written_that_it_cannot_fetch_and_says_why) {
  EXPECT_EQ(choose_path({}),
            (path_choice{transfer_path::write, path_reason::source_asks_to_write}));
  EXPECT_EQ(choose_path({.offer = source_offer::keys, .source_is_kept = true}),
            (path_choice{transfer_path::write, path_reason::source_is_kept}));
  EXPECT_EQ(choose_path({.offer = source_offer::keys, .core_reads_badly = true}),
            (path_choice{transfer_path::write, path_reason::core_reads_badly}));
  EXPECT_EQ(choose_path({.offer = source_offer::allocations}),
            (path_choice{transfer_path::write, path_reason::no_import}));
  EXPECT_EQ(choose_path_of_source({.offer = source_offer::allocations, .imports = true}),
            (path_choice{transfer_path::write, path_reason::no_import}))
      << "the import was tried";
}

TEST(asking_to_write, is_for_what_is_not_read_unless_the_user_chooses) {
  using base::rendezvous_choice;
  for (const bool on_device : {false, true}) {
    EXPECT_FALSE(asks_to_write(rendezvous_choice::automatic, on_device, true));
    EXPECT_TRUE(asks_to_write(rendezvous_choice::automatic, on_device, false));
    for (const bool read_here : {false, true}) {
      EXPECT_TRUE(asks_to_write(rendezvous_choice::write, on_device, read_here));
      EXPECT_EQ(asks_to_write(rendezvous_choice::staged, on_device, read_here), on_device);
    }
  }
}

}  // namespace
}  // namespace gaudi::proto
