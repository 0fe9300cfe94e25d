// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What connected endpoints (FI_EP_MSG) are made of, on loopback.
#pragma once

#include "opened.hpp"

namespace gaudi::fi::test {

inline core::unique_info connected_hints(std::uint64_t caps = FI_MSG | FI_RMA) {
  core::unique_info hints(fi_allocinfo());
  hints->mode = ~0ULL;
  hints->caps = caps;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = direct_mode;
  return hints;
}

inline core::unique_info find(const fi_info& hints, std::uint64_t flags = FI_SOURCE,
                              std::uint32_t version = FI_VERSION(1, 17)) {
  fi_info* found = nullptr;
  EXPECT_EQ(getinfo(version, "127.0.0.1", nullptr, flags, &hints, &found), 0);
  return core::unique_info(found);
}

inline unique_fid<fid_fabric> open_fabric(const fi_info& info) {
  fid_fabric* f = nullptr;
  EXPECT_EQ(fabric_open(info.fabric_attr, &f, nullptr), 0);
  return unique_fid<fid_fabric>(f);
}

inline unique_fid<fid_domain> open_domain(fid_fabric& f, fi_info& info) {
  fid_domain* d = nullptr;
  EXPECT_EQ(fi_domain(&f, &info, &d, nullptr), 0);
  return unique_fid<fid_domain>(d);
}

class opened_for_connections : public testing::Test {
 protected:
  core::unique_info info = find(*connected_hints());
  unique_fid<fid_fabric> fabric = open_fabric(*info);
  unique_fid<fid_domain> domain = open_domain(*fabric, *info);
};

}  // namespace gaudi::fi::test
