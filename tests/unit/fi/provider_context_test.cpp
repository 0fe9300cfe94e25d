// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is handed down is what the objects below a fabric use, in the process that it was opened in.
#include "fi/common/provider_context.hpp"

#include "fi/open_fabric.hpp"
#include "fi/rdm/domain.hpp"
#include "opened.hpp"

namespace gaudi::fi {
namespace {

struct own_context {
  const base::params params{};
  device::device_registry devices;
  const provider_context context{params, devices};
};

bool is_of_process(const provider_context& context) {
  return &context.devices == &device::device_registry::instance() &&
         &context.params == &base::params::get();
}

TEST(a_provider_context, of_fi_fabric_is_the_process_s) {
  fid_fabric* f = nullptr;
  ASSERT_EQ(fabric_open(nullptr, &f, nullptr), 0);
  const test::unique_fid<fid_fabric> closed_later(f);
  EXPECT_TRUE(is_of_process(fabric::of(f).context()));
}

TEST(a_provider_context, is_handed_from_the_fabric_to_its_domains) {
  own_context own;
  const test::opened o(test::direct_mode, FI_VERSION(1, 17), FI_MSG | FI_TAGGED, own.context);
  const domain& d = domain::of(o.domain.get());
  EXPECT_EQ(&d.context().devices, &own.devices);
  EXPECT_EQ(&d.context().params, &own.params);
  EXPECT_EQ(&d.devices(), &own.devices);
}

TEST(a_provider_context, is_in_a_child_of_fork_the_child_s) {
  own_context own;
  const fabric f(fabric_fid(FI_VERSION(1, 17), nullptr), own.context);
  EXPECT_EQ(&f.context().devices, &own.devices);
  const auto* const parents = &device::device_registry::instance();
  EXPECT_TRUE(test::holds_in_child(
      [&] { return is_of_process(f.context()) && &f.context().devices != parents; }));
  EXPECT_EQ(&f.context().devices, &own.devices) << "the parent's stays";
}

TEST(a_provider_context, numbers_the_devices_that_its_parameters_name) {
  base::params some;
  device::device_registry devices;
  const provider_context context{some, devices};
  some.device = "nonsense";
  EXPECT_EQ(context.count_devices().code(), -FI_EINVAL);
  EXPECT_EQ(context.device_at(0).code(), -FI_EINVAL);
  some.device = "0,1,2";
  EXPECT_EQ(*context.count_devices(), 3U);
  EXPECT_EQ(devices.count(), 3U);
}

}  // namespace
}  // namespace gaudi::fi
