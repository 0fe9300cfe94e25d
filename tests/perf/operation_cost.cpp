// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Repeats one operation, for instruction_cost.py to count its instructions. Everything happens in
// one thread of one process, so that the count is nearly the same each time.
//   perf_operation_cost CASE PROVIDER COUNT
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;
using gaudi::perf::owned;
using gaudi::perf::owned_info;

constexpr std::size_t message_size = 64;  // bytes

/// Two connected endpoints (FI_EP_MSG) of one domain.
struct connected_pair {
  explicit connected_pair(const char* provider) {
    const owned_info hints(fi_allocinfo());
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    fi_info* found = nullptr;
    must(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &found),
         "fi_getinfo");
    info.reset(found);
    fid_fabric* f = nullptr;
    must(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
    fabric.reset(f);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* eq = nullptr;
    must(fi_eq_open(f, &eq_attr, &eq, nullptr), "fi_eq_open");
    events.reset(eq);
    fid_domain* d = nullptr;
    must(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
    domain.reset(d);
    connect();
  }

  void connect() {
    fid_pep* p = nullptr;
    must(fi_passive_ep(fabric.get(), info.get(), &p, nullptr), "fi_passive_ep");
    listener.reset(p);
    must(fi_pep_bind(p, &events->fid, 0), "fi_pep_bind");
    must(fi_listen(p), "fi_listen");
    std::array<std::byte, 64> name{};
    std::size_t length = name.size();
    must(fi_getname(&p->fid, name.data(), &length), "fi_getname");
    open_end(sender, *info);
    must(fi_connect(sender.ep.get(), name.data(), nullptr, 0), "fi_connect");
    const owned_info request(next_event(FI_CONNREQ).info);
    open_end(receiver, *request);
    must(fi_accept(receiver.ep.get(), nullptr, 0), "fi_accept");
    next_event(FI_CONNECTED);
    next_event(FI_CONNECTED);
  }

  struct end {
    owned<fid_cq> cq;
    owned<fid_ep> ep;
  };
  void open_end(end& e, fi_info& with) const {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_CONTEXT;
    fid_cq* cq = nullptr;
    must(fi_cq_open(domain.get(), &attr, &cq, nullptr), "fi_cq_open");
    e.cq.reset(cq);
    fid_ep* ep = nullptr;
    must(fi_endpoint(domain.get(), &with, &ep, nullptr), "fi_endpoint");
    e.ep.reset(ep);
    must(fi_ep_bind(ep, &events->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(ep), "fi_enable");
  }
  struct head {
    fid_t from;
    fi_info* info;
  };
  head next_event(std::uint32_t wanted) const {
    alignas(fi_eq_cm_entry) std::array<std::byte, 256> buffer{};
    std::uint32_t event = 0;
    must(fi_eq_sread(events.get(), &event, buffer.data(), buffer.size(), 10000, 0), "fi_eq_sread");
    must(event == wanted ? 0 : -FI_EOTHER, "connecting");
    const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer.data());
    return {entry->fid, entry->info};
  }

  owned_info info;
  owned<fid_fabric> fabric;
  owned<fid_eq> events;
  owned<fid_domain> domain;
  owned<fid_pep> listener;
  end sender;
  end receiver;
};

void wait_for(fid_cq* cq, fid_cq* other) {
  fi_cq_tagged_entry entry{};
  ssize_t ret;
  while ((ret = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) fi_cq_read(other, nullptr, 0);
  must(ret, "fi_cq_read");
}

using operation = std::function<void()>;

/// A send and its receive.
operation connected_message(connected_pair& pair) {
  return [&pair] {
    static std::array<std::byte, message_size> out{};
    static std::array<std::byte, message_size> in{};
    static fi_context2 contexts[2];
    must(fi_recv(pair.receiver.ep.get(), in.data(), in.size(), nullptr, 0, &contexts[0]),
         "fi_recv");
    must(fi_send(pair.sender.ep.get(), out.data(), out.size(), nullptr, 0, &contexts[1]),
         "fi_send");
    wait_for(pair.receiver.cq.get(), pair.sender.cq.get());
    wait_for(pair.sender.cq.get(), pair.receiver.cq.get());
  };
}

operation connected_write(connected_pair& pair, owned<fid_mr>& target) {
  static std::array<std::byte, message_size> in{};
  fid_mr* mr = nullptr;
  must(fi_mr_reg(pair.domain.get(), in.data(), in.size(), FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr),
       "fi_mr_reg");
  target.reset(mr);
  const bool by_address = pair.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
  const std::uint64_t address = by_address ? reinterpret_cast<std::uint64_t>(in.data()) : 0;
  return [&pair, mr, address] {
    static std::array<std::byte, message_size> out{};
    static fi_context2 context;
    must(fi_write(pair.sender.ep.get(), out.data(), out.size(), nullptr, 0, address, fi_mr_key(mr),
                  &context),
         "fi_write");
    wait_for(pair.sender.cq.get(), pair.receiver.cq.get());
  };
}

fi_addr_t own_address(gaudi::perf::rdm& self) {
  std::array<std::byte, 64> name{};
  std::size_t length = name.size();
  must(fi_getname(&self.ep->fid, name.data(), &length), "fi_getname");
  fi_addr_t to = 0;
  must(fi_av_insert(self.av.get(), name.data(), 1, &to, 0, nullptr) == 1 ? 0 : -FI_EINVAL,
       "fi_av_insert");
  return to;
}

/// A tagged send of an endpoint to itself, and its receive.
operation tagged_message(gaudi::perf::rdm& self) {
  const fi_addr_t to = own_address(self);
  return [&self, to] {
    static std::array<std::byte, message_size> out{};
    static std::array<std::byte, message_size> in{};
    static fi_context2 contexts[2];
    must(fi_trecv(self.ep.get(), in.data(), in.size(), nullptr, to, 3, 0, &contexts[0]),
         "fi_trecv");
    long ret;
    while ((ret = fi_tsend(self.ep.get(), out.data(), out.size(), nullptr, to, 3, &contexts[1])) ==
           -FI_EAGAIN)
      fi_cq_read(self.cq.get(), nullptr, 0);
    must(ret, "fi_tsend");
    wait_for(self.cq.get(), self.cq.get());
    wait_for(self.cq.get(), self.cq.get());
  };
}

/// A page of many, written by an endpoint to itself under a key of its NIC's.
class page_write {
 public:
  /// `length`: at most message_size. `flags`: for fi_writemsg, beside FI_COMPLETION.
  page_write(gaudi::perf::rdm& self, std::size_t length, std::uint64_t flags)
      : self_(self), length_(length), flags_(flags | FI_COMPLETION), to_(own_address(self)) {
    fid_mr* mr = nullptr;
    must(fi_mr_reg(self.domain.get(), memory_.data(), memory_.size(), FI_WRITE | FI_REMOTE_WRITE, 0,
                   0, 0, &mr, nullptr),
         "fi_mr_reg");
    mr_.reset(mr);
  }
  void post() {
    static fi_context2 context;
    const iovec here{memory_.data(), length_};
    const fi_rma_iov there{reinterpret_cast<std::uint64_t>(memory_.data()) + message_size, length_,
                           fi_mr_key(mr_.get())};
    void* desc = fi_mr_desc(mr_.get());
    fi_msg_rma message{};
    message.msg_iov = &here;
    message.desc = &desc;
    message.iov_count = 1;
    message.addr = to_;
    message.rma_iov = &there;
    message.rma_iov_count = 1;
    message.context = &context;
    long ret;
    while ((ret = fi_writemsg(self_.ep.get(), &message, flags_)) == -FI_EAGAIN)
      fi_cq_read(self_.cq.get(), nullptr, 0);
    must(ret, "fi_writemsg");
  }
  void finish() { wait_for(self_.cq.get(), self_.cq.get()); }

 private:
  gaudi::perf::rdm& self_;
  const std::size_t length_;
  const std::uint64_t flags_;
  fi_addr_t to_;
  std::array<std::byte, 2 * message_size> memory_{};
  owned<fid_mr> mr_;
};

}  // namespace

/// Callgrind counts from its start to its end.
extern "C" __attribute__((noinline)) void counted(const operation& once, int count) {
  for (int i = 0; i < count; ++i) once();
}

namespace {

void run(const operation& once, int count) {
  for (int warm = 0; warm < 200; ++warm) once();
  counted(once, count);
}

/// What it takes to post them, without their completions.
void run_posts(page_write& page, int count) {
  constexpr int batch = 100;
  const operation post = [&] { page.post(); };
  const operation finish = [&] { page.finish(); };
  for (int round = -2; round < count / batch; ++round) {
    if (round < 0) {
      for (int i = 0; i < batch; ++i) post();
    } else {
      counted(post, batch);
    }
    for (int i = 0; i < batch; ++i) finish();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s CASE PROVIDER COUNT, see instruction_limits.json\n", argv[0]);
    return 2;
  }
  const std::string name = argv[1];
  const int count = std::atoi(argv[3]);
  if (name == "tagged-message") {
    gaudi::perf::rdm self(argv[2]);
    self.open_endpoint();
    run(tagged_message(self), count);
  } else if (name == "rma-page" || name == "rma-page-post" || name == "rma-inject") {
    gaudi::perf::rdm self(argv[2], false, FI_RMA);
    self.open_endpoint();
    const bool injects = name == "rma-inject";
    page_write page(self, injects ? 8 : message_size, injects ? FI_INJECT : FI_MORE);
    if (name == "rma-page-post") {
      run_posts(page, count);
    } else {
      const operation once = [&] {
        page.post();
        page.finish();
      };
      run(once, count);
    }
  } else {
    connected_pair pair(argv[2]);
    owned<fid_mr> target;
    run(name == "connected-write" ? connected_write(pair, target) : connected_message(pair), count);
  }
}
