/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the fabtests of libfabric 2.1 name and the headers of 1.17 do not have yet, for the compiler only: they ask a
   1.17 for none of it, or have it answer that it does not know it. Values are those of 2.1's <rdma/fabric.h>,
   <rdma/fi_domain.h> and <rdma/fi_endpoint.h>. */
#ifndef GAUDI_FABTESTS_LIBFABRIC_1_17_H
#define GAUDI_FABTESTS_LIBFABRIC_1_17_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* The interface that the tests ask for. */
#define FT_FIVERSION FI_VERSION(1, 17)

struct fi_mr_dmabuf {
  int fd;
  uint64_t offset;
  size_t len;
  void *base_addr;
};

/* A union with it in struct fi_mr_attr; no 1.17 looks there. */
#define dmabuf mr_iov

#define FI_MR_DMABUF (1ULL << 40)
#define FI_PROGRESS_CONTROL_UNIFIED ((enum fi_progress)3)
#define FI_OPT_CUDA_API_PERMITTED 10
#define FI_OPT_MAX_MSG_SIZE 12
#define FI_OPT_INJECT_MSG_SIZE 16
#define FI_OPT_INJECT_RMA_SIZE 18

static inline int fi_hmem_ze_device(int driver_index, int device_index) {
  return driver_index << 16 | device_index;
}

#endif
