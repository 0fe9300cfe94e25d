// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace hlsim {

/// Makes the folder that HLSIM_SYSFS names, once in a process, what /sys is on a server with these
/// devices (reference, section 8): their nodes, and two sockets with a PCIe switch for every two
/// devices. Nothing without that variable. One line on stderr where it cannot be made.
void show_sysfs_tree();

}  // namespace hlsim
