// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include "fi/tables.hpp"

namespace gaudi::fi {

/// The C side of fi::av: tables whose functions catch what must not leave the library.
extern fi_ops av_fid_ops;
extern padded<fi_ops_av> av_ops;

}  // namespace gaudi::fi
