// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Devices of a process that uses Synapse: a descriptor that is handed over, one that is attached.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hl/synapse.hpp"
#include "many_devices.hpp"

namespace gaudi::device {
namespace {

/// A function of the stand-in for libSynapse. A process that has loaded it uses Synapse for good.
template <class Call>
Call of_synapse(const char* name) {
  static void* const library = dlopen(GAUDI_SYNAPSE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) ::_exit(99);
  return reinterpret_cast<Call>(dlsym(library, name));
}

/// Has it acquire a device; its own descriptor, or -1.
int acquired_by_synapse(std::uint32_t module_id) {
  const auto initialize = of_synapse<int (*)()>("synInitialize");
  const auto acquire =
      of_synapse<int (*)(std::uint32_t*, std::uint32_t)>("synDeviceAcquireByModuleId");
  std::uint32_t id = 0;
  static const int initialized = initialize();
  if (initialized != 0 || acquire(&id, module_id) != 0) return -1;
  const auto used = hl::synapse::find();
  const auto fd = used ? (*used)->device_fd() : base::result<int>(used.failure());
  return fd ? *fd : -1;
}

TEST_F(many_devices, one_that_is_handed_over_is_synapses_if_its_descriptor_is) {
  const auto library = all_.library(GAUDI_HLSIM);
  ASSERT_TRUE(library);
  const pid_t child = ::fork();
  if (child == 0) {
    const int synapses = acquired_by_synapse(2);
    const auto another = (*library)->open("0000:1c:00.0");
    if (synapses < 0 || !another) ::_exit(2);
    const auto of_synapse = device::adopt(*library, synapses);
    const auto of_application = device::adopt(*library, *another);
    if (!of_synapse || !of_application) ::_exit(3);
    ::_exit((*of_synapse)->synapse() != nullptr && (*of_application)->synapse() == nullptr ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

// By the first address of such memory that nobody is known to hold.
TEST_F(many_devices, one_that_synapse_lost_is_attached_when_it_has_acquired_it_again) {
  const auto how = listing("");
  ASSERT_TRUE(all_.library(GAUDI_HLSIM));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr std::uint64_t nobodys = 0x1001ffff00000000;
    const device_registry::user uses(all_, how);
    if (acquired_by_synapse(2) < 0) ::_exit(2);
    static_cast<void>(all_.find_or_attach(nobodys));
    const auto first = all_.opened();
    if (!first) ::_exit(3);
    first->lose(-FI_EIO, "of the test");
    of_synapse<int (*)(std::uint32_t)>("synDeviceRelease")(0);
    if (acquired_by_synapse(2) < 0) ::_exit(4);
    static_cast<void>(all_.find_or_attach(nobodys));
    const auto now = all_.opened();
    ::_exit(now != first && now->lost() == 0 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace gaudi::device
