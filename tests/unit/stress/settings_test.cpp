// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "settings.hpp"

#include <gtest/gtest.h>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

nlohmann::json some_settings() {
  settings s;
  s.seed = 7;
  s.max_size = 4096;
  s.operations = {operation::tsend, operation::compare};
  s.memory = memory_choice::host;
  return s;
}

TEST(settings, are_the_same_on_the_other_side) {
  const auto read = some_settings().get<settings>();
  EXPECT_EQ(nlohmann::json(read), some_settings());
  EXPECT_EQ(read.operations, (std::vector{operation::tsend, operation::compare}));
}

TEST(settings, keep_each_habit_by_itself) {
  for (bool settings::*habit :
       {&settings::cancel, &settings::reconnect, &settings::peek, &settings::claim,
        &settings::discard, &settings::multi_receive, &settings::counters}) {
    auto s = some_settings().get<settings>();
    EXPECT_TRUE(s.*habit);
    s.*habit = false;
    const nlohmann::json sent = s;
    EXPECT_NE(sent, some_settings());
    EXPECT_EQ(nlohmann::json(sent.get<settings>()), sent);
  }
}

TEST(settings, that_no_command_line_gives_are_refused) {
  const auto refuses = [](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = some_settings();
    changed[key] = value;
    EXPECT_THROW(changed.get<settings>(), common::failure) << key << ": " << value;
  };
  refuses("max_size", 0);
  refuses("max_size", max_max_size + 1);
  refuses("operations", nlohmann::json::array());
  refuses("operations", {"teleport"});
  refuses("memory", 3);
  refuses("timeout", 0);
  refuses("timeout", max_timeout + 1);
}

}  // namespace
}  // namespace gaudi::stress
