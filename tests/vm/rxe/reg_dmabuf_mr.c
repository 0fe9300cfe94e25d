// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// LD_PRELOAD for the guest: rdma-core's user half of soft-RoCE does not offer dma-buf registration,
// so libibverbs refuses it without asking the kernel. This asks the kernel, by the function that
// libibverbs exports to the user halves of other devices.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

// rdma-core's private struct verbs_mr, of which ibv_dereg_mr needs the whole.
struct verbs_mr {
  struct ibv_mr mr;
  int type;
  int access;
};

// The last argument is newer than rdma-core 44, where it is ignored.
typedef int register_call(struct ibv_pd*, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, struct verbs_mr*, void* driver);

struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access) {
  register_call* call = (register_call*)dlsym(RTLD_DEFAULT, "ibv_cmd_reg_dmabuf_mr");
  struct verbs_mr* made = calloc(1, sizeof *made);
  const int error = !call  ? EOPNOTSUPP
                    : made ? call(pd, offset, length, iova, fd, access, made, NULL)
                           : ENOMEM;
  if (error) {
    free(made);
    errno = error;
    return NULL;
  }
  return &made->mr;
}
