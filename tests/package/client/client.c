/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opens a domain on a Gaudi with installed files alone, copies a word through its memory and says
 * the device's name. */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_gaudi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int ret, const char* what) {
  if (ret) {
    fprintf(stderr, "%s: %s\n", what, fi_strerror(-ret));
    exit(1);
  }
}

static struct fid_domain* open_domain(void) {
  struct fi_info *hints = fi_allocinfo(), *info;
  struct fid_fabric* fabric;
  struct fid_domain* domain;

  hints->caps = FI_MSG | FI_HMEM;
  hints->domain_attr->mr_mode = FI_MR_HMEM;
  hints->fabric_attr->prov_name = strdup("gaudi");
  must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
  must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
  must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
  fi_freeinfo(info);
  fi_freeinfo(hints);
  return domain;
}

int main(void) {
  struct fid_domain* domain = open_domain();
  struct fi_gaudi_device_attr attr;
  struct fi_gaudi_ops* ops;
  char sent[] = "through a Gaudi", received[sizeof sent] = "";
  uint64_t addr;

  must(fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, (void**)&ops, NULL), "fi_open_ops");
  must(ops->alloc(domain, 4096, &addr), "alloc");
  must(ops->copy(domain, addr, (uint64_t)(uintptr_t)sent, sizeof sent, FI_GAUDI_HOST_TO_DEVICE),
       "copy in");
  must(ops->copy(domain, (uint64_t)(uintptr_t)received, addr, sizeof sent, FI_GAUDI_DEVICE_TO_HOST),
       "copy out");
  must(ops->query_device(domain, &attr), "query_device");
  if (strcmp(sent, received) != 0) return 1;
  printf("%s\n", attr.name);
  return 0;
}
