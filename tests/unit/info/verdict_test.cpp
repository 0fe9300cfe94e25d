// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verdict.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <set>

namespace gaudi::info {
namespace {

/// Two Gaudis and two NICs below different host bridges, nothing wrong, everything tried.
report good() {
  report r;
  r.software.provider_found = true;
  r.software.thunk = "installed";
  const auto at = [](const char* bridge, const char* function) {
    return topo::pci_place{{bridge, function}, 0};
  };
  r.devices = {{.index = 0,
                .name = "Gaudi2",
                .bus_id = "0000:19:00.0",
                .place = at("pci0000:15", "0000:19:00.0"),
                .state = "free"},
               {.index = 1,
                .name = "Gaudi2",
                .bus_id = "0000:9a:00.0",
                .place = at("pci0000:97", "0000:9a:00.0"),
                .state = "free"}};
  r.nics = {{.name = "mlx5_0",
             .driver = "",
             .link = "",
             .rate = "",
             .layer = "",
             .place = at("pci0000:15", "0000:1b:00.0"),
             .offered = true},
            {.name = "mlx5_1",
             .driver = "",
             .link = "",
             .rate = "",
             .layer = "",
             .place = at("pci0000:97", "0000:9c:00.0"),
             .offered = true}};
  r.probed = true;
  for (std::size_t device : {0, 1})
    for (std::size_t nic : {0, 1})
      r.probes.push_back({.device = device, .nic = nic, .zero_copy = true});
  return r;
}

void fail(probe_fact& p, int code) {
  p.zero_copy = false;
  p.code = code;
  p.why = reg::diagnose(code);
}

TEST(verdict, is_good_where_each_device_has_a_nic) {
  report r = good();
  EXPECT_EQ(judge(r).what, cause::none);
  EXPECT_EQ(judge(r).remedy, "");
  fail(r.probes[1], -EPERM);  // the far one
  EXPECT_EQ(judge(r).what, cause::none);
}

TEST(verdict, names_the_nearest_nic_of_a_device_that_has_none) {
  report r = good();
  fail(r.probes[2], -EPERM);
  fail(r.probes[3], -EINVAL);
  const auto v = judge(r);
  EXPECT_EQ(v.what, cause::small_bar);
  EXPECT_NE(v.finding.find("mlx5_1 cannot read and write the memory of Gaudi2 0000:9a:00.0"),
            std::string::npos)
      << v.finding;
  EXPECT_NE(v.remedy, "");
}

TEST(verdict, says_of_a_device_without_engine_that_nothing_is_staged) {
  report r = good();
  for (auto& p : r.probes) fail(p, -EPERM);
  EXPECT_EQ(judge(r).finding.find("staged"), std::string::npos);
  r.devices[0].copies = false;
  EXPECT_NE(judge(r).finding.find("It cannot be staged either"), std::string::npos);
}

TEST(verdict, has_an_exit_status_of_its_own_for_each_refusal) {
  std::set<int> seen;
  for (const int code : {FI_ENOSYS, FI_EOPNOTSUPP, EPERM, EINVAL, EMFILE, ENOMEM, EIO}) {
    report r = good();
    for (auto& p : r.probes) fail(p, -code);
    const auto v = judge(r);
    EXPECT_TRUE(seen.insert(static_cast<int>(v.what)).second) << code;
    EXPECT_GE(static_cast<int>(v.what), 40);
  }
  report r = good();
  for (auto& p : r.probes) {
    p.zero_copy = false;
    p.why = reg::diagnose_old_libfabric();
  }
  EXPECT_EQ(judge(r).what, cause::old_libfabric);
  for (auto& p : r.probes) p.why = reg::diagnose_no_export(-FI_EOPNOTSUPP);
  EXPECT_EQ(judge(r).what, cause::no_export);
}

TEST(verdict, names_what_a_machine_lacks_before_what_a_pair_lacks) {
  const auto with = [](auto change) {
    report r = good();
    for (auto& p : r.probes) fail(p, -EIO);
    change(r);
    const auto v = judge(r);
    EXPECT_NE(v.finding, "");
    EXPECT_NE(v.remedy, "");
    return v.what;
  };
  EXPECT_EQ(with([](report& r) { r.software.thunk.clear(); }), cause::no_library);
  EXPECT_EQ(with([](report& r) { r.devices.clear(); }), cause::no_device);
  EXPECT_EQ(with([](report& r) { r.nics.clear(); }), cause::no_rdma_device);
  EXPECT_EQ(with([](report& r) { r.software.provider_found = false; }), cause::provider_not_found);
  EXPECT_EQ(with([](report& r) {
              r.parameters = {{"FI_GAUDI_RNDV", "x", true, false}};
            }),
            cause::bad_parameter);
  EXPECT_EQ(with([](report& r) {
              for (auto& n : r.nics) n.offered = false;
            }),
            cause::nic_not_offered);
}

TEST(verdict, tells_why_a_device_was_not_probed) {
  const auto unopened = [](int code) {
    report r = good();
    r.probes.resize(2);
    r.unprobed = {{1, code}};
    return judge(r).what;
  };
  EXPECT_EQ(unopened(-FI_EBUSY), cause::device_busy);
  EXPECT_EQ(unopened(-FI_EAGAIN), cause::device_in_reset);
  EXPECT_EQ(unopened(-FI_ENODEV), cause::device_fails);
}

}  // namespace
}  // namespace gaudi::info
