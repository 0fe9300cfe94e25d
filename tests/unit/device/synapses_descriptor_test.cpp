// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A descriptor that the application hands over in a process that uses Synapse.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hl/synapse.hpp"
#include "many_devices.hpp"

namespace gaudi::device {
namespace {

/// Has the stand-in for libSynapse acquire a device; its own descriptor, or -1. A process that has
/// loaded it uses Synapse for good.
int acquired_by_synapse(std::uint32_t module_id) {
  void* const library = dlopen(GAUDI_SYNAPSE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return -1;
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "synInitialize"));
  const auto acquire = reinterpret_cast<int (*)(std::uint32_t*, std::uint32_t)>(
      dlsym(library, "synDeviceAcquireByModuleId"));
  std::uint32_t id = 0;
  if (initialize() != 0 || acquire(&id, module_id) != 0) return -1;
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

}  // namespace
}  // namespace gaudi::device
