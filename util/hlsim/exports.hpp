// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "hbm.hpp"
#include "model.hpp"
#include "shared_state.hpp"

// dma-buf exports: reference, section 3. An export must pin its mapping until the last reference to
// the dma-buf is gone, in whichever process, and nobody tells the exporter of that close. So each
// export is a file of its own that carries a flock: the kernel drops a flock exactly when the last
// dup of that open file description, mmaps and importers' references included, has gone.
//
// Without /dev/udmabuf the stand-in is a FIFO: like a dma-buf of the habanalabs driver it cannot be
// mmapped (ENODEV here, EINVAL there), so a consumer that tries to reach HBM by the CPU is noticed
// at once. A udmabuf can be; where /dev/fakegaudi exists (tests/vm) it is wrapped by one that
// cannot.

namespace hlsim {

/// Exports [offset, offset + size) of the mapping returned as `address` after the checks of section
/// 3.2. The fd, or -errno. The caller holds the state_lock.
int export_range(device_state& state, const hbm_store& hbm, uint64_t address, uint64_t size,
                 uint64_t offset);

/// Exports physical HBM [address, address + size) of a Gaudi1 after the checks of section 3.2.
/// Nothing keeps the memory from being used anew meanwhile, section 3.3. As above.
int export_physical(device_state& state, const model& m, const hbm_store& hbm, uint64_t address,
                    uint64_t size);

/// True while a dma-buf of the mapping returned as `key` is alive. Forgets those that are not. The
/// caller holds the state_lock.
bool is_exported(device_state& state, uint64_t key);

/// True while any dma-buf of this context is alive. The caller holds the state_lock.
bool has_exports(device_state& state);

}  // namespace hlsim
