// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/tables.hpp"

namespace gaudi::fi {

fi_ops_collective no_collectives{.size = sizeof(fi_ops_collective),
                                 .barrier = not_supported,
                                 .broadcast = not_supported,
                                 .alltoall = not_supported,
                                 .allreduce = not_supported,
                                 .allgather = not_supported,
                                 .reduce_scatter = not_supported,
                                 .reduce = not_supported,
                                 .scatter = not_supported,
                                 .gather = not_supported,
                                 .msg = not_supported,
                                 .barrier2 = not_supported};

}  // namespace gaudi::fi
