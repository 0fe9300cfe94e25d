// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace gaudi::perf {

inline void must(long ret, const char* what) {
  if (ret >= 0) return;
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-ret)));
  std::exit(1);
}

struct closer {
  template <class Fid>
  void operator()(Fid* f) const {
    fi_close(&f->fid);
  }
};
template <class Fid>
using owned = std::unique_ptr<Fid, closer>;

struct info_freer {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using owned_info = std::unique_ptr<fi_info, info_freer>;

/// An enabled endpoint with a queue and an address vector of its own.
struct endpoint_set {
  owned<fid_cq> cq;
  owned<fid_av> av;
  owned<fid_ep> ep;
};

/// An RDM endpoint of one provider, ready for tagged messages from host memory; with `hmem`, a
/// domain that takes device memory; `more` is offered besides (FI_RMA). Ends the program with a
/// message when something fails.
struct rdm {
  explicit rdm(const char* provider, bool hmem = false, std::uint64_t more = 0,
               fi_progress progress = FI_PROGRESS_MANUAL) {
    owned_info hints(fi_allocinfo());
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED | more | (hmem ? FI_HMEM : 0);
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (hmem ? FI_MR_HMEM : 0);
    hints->domain_attr->data_progress = hints->domain_attr->control_progress = progress;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    fi_info* found = nullptr;
    must(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    info.reset(found);
    fid_fabric* f = nullptr;
    must(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
    fabric.reset(f);
    fid_domain* d = nullptr;
    must(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
    domain.reset(d);
  }

  void open_endpoint() {
    endpoint_set own = open_another();
    cq = std::move(own.cq);
    av = std::move(own.av);
    ep = std::move(own.ep);
  }
  [[nodiscard]] endpoint_set open_another() const {
    endpoint_set own;
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    fid_cq* c = nullptr;
    must(fi_cq_open(domain.get(), &cq_attr, &c, nullptr), "fi_cq_open");
    own.cq.reset(c);
    fi_av_attr av_attr{};
    fid_av* a = nullptr;
    must(fi_av_open(domain.get(), &av_attr, &a, nullptr), "fi_av_open");
    own.av.reset(a);
    fid_ep* e = nullptr;
    must(fi_endpoint(domain.get(), info.get(), &e, nullptr), "fi_endpoint");
    own.ep.reset(e);
    must(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_ep_bind(e, &a->fid, 0), "fi_ep_bind");
    must(fi_enable(e), "fi_enable");
    return own;
  }

  owned_info info;
  owned<fid_fabric> fabric;
  owned<fid_domain> domain;
  owned<fid_cq> cq;
  owned<fid_av> av;
  owned<fid_ep> ep;
};

}  // namespace gaudi::perf
