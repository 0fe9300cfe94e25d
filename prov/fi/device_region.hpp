// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "reg/dmabuf_registrar.hpp"
#include "reg/region.hpp"

namespace gaudi::fi {

/// Fills a region of device memory whose address, length and access are set: finds its allocation
/// on the device in use, pins that, and lets the NIC at it where it can; else, and with a registrar
/// that may do so, the region stays without (staged). Warns of what it refuses. 0 or an error. The
/// caller holds the registrar's lock.
int attach_device(reg::dmabuf_registrar& dmabufs, reg::region& r);

}  // namespace gaudi::fi
