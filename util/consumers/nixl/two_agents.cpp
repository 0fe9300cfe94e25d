// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two NIXL agents in two processes write to and read from each other's host and Gaudi memory, and
// compare every byte. Built beside NIXL, not by this tree: README.md says how.
// Usage: two_agents [host|device|second]; second: on the second of two Gaudis of each process.
#include <nixl.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_gaudi.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr std::size_t region_size = std::size_t{64} << 20;

using bytes = std::vector<std::uint8_t>;

void must(long code, const char* what) {
  if (code >= 0) return;
  std::fprintf(stderr, "[%d] %s: %ld\n", getpid(), what, code);
  _exit(1);
}

bytes pattern(std::uint32_t seed) {
  bytes all(region_size);
  for (auto& byte : all) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(seed >> 24);
  }
  return all;
}

/// A domain of the driver's own: device memory comes from it, as an application's comes from
/// Synapse.
class gaudi {
 public:
  explicit gaudi(int number) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA | FI_HMEM;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_HMEM | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("gaudi");
    must(fi_getinfo(FI_VERSION(1, 18), nullptr, nullptr, 0, hints, &info_), "fi_getinfo");
    fi_freeinfo(hints);
    must(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    must(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    must(fi_open_ops(&domain_->fid, FI_GAUDI_DOMAIN_OPS, 0, reinterpret_cast<void**>(&ops_),
                     nullptr),
         "fi_open_ops");
    if (number == 0) return;
    must(ops_->alloc(domain_, region_size, &decoy_), "alloc on the first device");
    must(ops_->select_device(domain_, number), "select_device");
  }
  gaudi(const gaudi&) = delete;
  gaudi& operator=(const gaudi&) = delete;
  ~gaudi() {
    if (decoy_) {
      must(ops_->select_device(domain_, 0), "select_device");
      free(decoy_);
    }
    must(fi_close(&domain_->fid), "closing the domain");
    must(fi_close(&fabric_->fid), "closing the fabric");
    fi_freeinfo(info_);
  }
  std::uint64_t alloc(std::size_t size) {
    std::uint64_t at = 0;
    must(ops_->alloc(domain_, size, &at), "alloc");
    return at;
  }
  void free(std::uint64_t at) { must(ops_->free(domain_, at), "free"); }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t size, fi_gaudi_copy_dir dir) {
    must(ops_->copy(domain_, to, from, size, dir), "copy");
  }

 private:
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fi_gaudi_ops* ops_ = nullptr;
  // Devices hand out the same addresses: who confuses them finds this.
  std::uint64_t decoy_ = 0;
};

/// A registered piece of host or Gaudi memory.
class region {
 public:
  region(gaudi* g, int number, nixl_mem_t kind, nixlAgent& agent, const nixl_opt_args_t& on)
      : gaudi_(g), agent_(agent), on_(on), descs_(kind) {
    if (kind == DRAM_SEG) host_.resize(region_size);
    at_ = kind == DRAM_SEG ? reinterpret_cast<std::uint64_t>(host_.data()) : g->alloc(region_size);
    descs_.addDesc(nixlBlobDesc(at_, region_size, kind == DRAM_SEG ? 0 : number, ""));
    must(agent_.registerMem(descs_, &on_), "registerMem");
  }
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  ~region() {
    must(agent_.deregisterMem(descs_, &on_), "deregisterMem");
    if (host_.empty()) gaudi_->free(at_);
  }
  [[nodiscard]] std::uint64_t at() const { return at_; }
  void put(const bytes& all) {
    const auto from = reinterpret_cast<std::uint64_t>(all.data());
    if (host_.empty()) return gaudi_->copy(at_, from, all.size(), FI_GAUDI_HOST_TO_DEVICE);
    host_ = all;
    // The pages may have moved no further than within the vector, whose place is registered.
    must(reinterpret_cast<std::uint64_t>(host_.data()) == at_ ? 0 : -1, "host memory has moved");
  }
  bytes get() {
    if (!host_.empty()) return host_;
    bytes all(region_size);
    gaudi_->copy(reinterpret_cast<std::uint64_t>(all.data()), at_, all.size(),
                 FI_GAUDI_DEVICE_TO_HOST);
    return all;
  }

 private:
  gaudi* gaudi_;
  nixlAgent& agent_;
  nixl_opt_args_t on_;
  nixl_reg_dlist_t descs_;
  bytes host_;
  std::uint64_t at_ = 0;
};

/// The other process, through a socket.
class other {
 public:
  explicit other(int fd) : fd_(fd) {}
  std::string swap(const std::string& own) {
    const std::uint64_t size = own.size();
    must(write(fd_, &size, sizeof size) == sizeof size ? 0 : -1, "telling the other process");
    must(write(fd_, own.data(), size) == static_cast<ssize_t>(size) ? 0 : -1, "telling it more");
    std::uint64_t length = 0;
    read_all(&length, sizeof length);
    std::string theirs(length, '\0');
    read_all(theirs.data(), length);
    return theirs;
  }
  void barrier() { swap("."); }

 private:
  void read_all(void* to, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const auto got = read(fd_, static_cast<char*>(to) + done, size - done);
      must(got > 0 ? 0 : -1, "the other process has gone");
      done += static_cast<std::size_t>(got);
    }
  }
  int fd_;
};

struct shape {
  const char* name;
  std::size_t count;
  std::size_t size;
  std::size_t first;  // where it begins, so that it is not aligned
};

constexpr shape shapes[] = {
    {"8 B", 1, 8, 13},
    {"1 x 45056 B", 1, 45056, 4096},
    {"1 x 48 MiB", 1, std::size_t{48} << 20, 4097},
    {"1000 x 45056 B, scattered", 1000, 45056, 64},
    {"4000 x 16384 B, scattered", 4000, 16384, 0},
};

std::size_t local_page(const shape& s, std::size_t i) {
  return s.first + i * s.size;
}

// In another order than the local ones.
std::size_t remote_page(const shape& s, std::size_t i) {
  return s.first + (s.count - 1 - i) * s.size;
}

struct peer {
  const char* name;
  std::uint64_t at;
  nixl_mem_t kind;
  int number;  // of its Gaudi
};

nixlXferReqH* request(nixlAgent& agent, const nixl_opt_args_t& on, nixl_xfer_op_t op,
                      const shape& s, std::uint64_t own, nixl_mem_t kind, const peer& to) {
  nixl_xfer_dlist_t local(kind);
  nixl_xfer_dlist_t remote(to.kind);
  for (std::size_t i = 0; i < s.count; ++i) {
    local.addDesc(nixlBasicDesc(own + local_page(s, i), s.size, kind == DRAM_SEG ? 0 : to.number));
    remote.addDesc(
        nixlBasicDesc(to.at + remote_page(s, i), s.size, to.kind == DRAM_SEG ? 0 : to.number));
  }
  nixlXferReqH* made = nullptr;
  must(agent.createXferReq(op, local, remote, to.name, made, &on), "createXferReq");
  return made;
}

void transfer(nixlAgent& agent, nixlXferReqH* what) {
  nixl_status_t status = agent.postXferReq(what);
  while (status == NIXL_IN_PROG) status = agent.getXferStatus(what);
  must(status, "transfer");
  must(agent.releaseXferReq(what), "releaseXferReq");
}

// What the destination holds if every page went where it should and nothing else was touched.
bytes moved(bytes to, const bytes& from, const shape& s, bool write) {
  for (std::size_t i = 0; i < s.count; ++i) {
    const auto l = local_page(s, i);
    const auto r = remote_page(s, i);
    std::memcpy(&to[write ? r : l], &from[write ? l : r], s.size);
  }
  return to;
}

void expect_same(const bytes& is, const bytes& should, const std::string& what) {
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (is[i] == should[i]) continue;
    std::fprintf(stderr, "%s: byte %zu is %u, not %u\n", what.c_str(), i, is[i], should[i]);
    _exit(1);
  }
}

void await_notice(nixlAgent& agent, const std::string& from) {
  nixl_notifs_t notices;
  while (notices[from].empty()) must(agent.getNotifs(notices), "getNotifs");
  must(notices[from].front() == "done" ? 0 : -1, "the notification");
}

const char* name_of(nixl_mem_t kind) {
  return kind == DRAM_SEG ? "host" : "Gaudi";
}

struct side {
  int rank;
  nixlAgent& agent;
  nixl_opt_args_t on;
  other& process;
};

// Rank 0 starts it; whoever has the destination compares.
void one(side& me, region& own, nixl_mem_t own_kind, const peer& to, nixl_xfer_op_t op,
         const shape& s) {
  const bool write = op == NIXL_WRITE;
  const std::string what = std::string(write ? "write " : "read ") + s.name + ", initiator in " +
                           name_of(me.rank == 0 ? own_kind : to.kind) + ", target in " +
                           name_of(me.rank == 0 ? to.kind : own_kind) + " memory";
  static const bytes initiators = pattern(1);
  static const bytes targets = pattern(2);
  own.put(me.rank == 0 ? initiators : targets);
  me.process.barrier();
  if (me.rank == 0) {
    me.on.notif = "done";
    transfer(me.agent, request(me.agent, me.on, op, s, own.at(), own_kind, to));
    expect_same(own.get(), write ? initiators : moved(initiators, targets, s, write), what);
  } else {
    await_notice(me.agent, to.name);
    expect_same(own.get(), write ? moved(targets, initiators, s, write) : targets, what);
  }
  me.process.barrier();
  if (me.rank == 0) std::printf("passed: %s\n", what.c_str());
}

void all_of(side& me, region& own, nixl_mem_t own_kind, const peer& to) {
  for (const auto op : {NIXL_WRITE, NIXL_READ}) {
    for (const auto& s : shapes) one(me, own, own_kind, to, op, s);
  }
}

void run(int rank, other process, bool device, int number) {
  const std::string names[] = {"left", "right"};
  const std::string& theirs = names[1 - rank];
  const std::string two = std::to_string(2 * rank) + "," + std::to_string(2 * rank + 1);
  setenv("FI_GAUDI_DEVICE", number == 0 ? std::to_string(rank).c_str() : two.c_str(), 1);
  std::unique_ptr<gaudi> g = device ? std::make_unique<gaudi>(number) : nullptr;
  nixlAgentConfig config;
  config.useProgThread = true;
  nixlAgent agent(names[rank], config);
  nixl_b_params_t params;
  nixl_mem_list_t kinds;
  must(agent.getPluginParams("LIBFABRIC", kinds, params), "getPluginParams");
  nixlBackendH* backend = nullptr;
  must(agent.createBackend("LIBFABRIC", params, backend), "createBackend");
  side me{rank, agent, {}, process};
  me.on.backends.push_back(backend);
  {
    region host(g.get(), 0, DRAM_SEG, agent, me.on);
    std::unique_ptr<region> hbm;
    if (device) hbm = std::make_unique<region>(g.get(), number, VRAM_SEG, agent, me.on);
    std::string metadata;
    must(agent.getLocalMD(metadata), "getLocalMD");
    std::string loaded;
    must(agent.loadRemoteMD(process.swap(metadata), loaded), "loadRemoteMD");
    must(loaded == theirs ? 0 : -1, "the name in the metadata");
    const auto address = [&](region& r) {
      return std::stoull(process.swap(std::to_string(r.at())));
    };
    const peer their_host{theirs.c_str(), address(host), DRAM_SEG, number};
    all_of(me, host, DRAM_SEG, their_host);
    if (device) {
      const peer their_hbm{theirs.c_str(), address(*hbm), VRAM_SEG, number};
      all_of(me, *hbm, VRAM_SEG, their_hbm);
      // The initiator's in one kind of memory and the target's in the other, both ways.
      all_of(me, rank == 0 ? host : *hbm, rank == 0 ? DRAM_SEG : VRAM_SEG,
             rank == 0 ? their_hbm : their_host);
      all_of(me, rank == 0 ? *hbm : host, rank == 0 ? VRAM_SEG : DRAM_SEG,
             rank == 0 ? their_host : their_hbm);
    }
    must(agent.invalidateRemoteMD(theirs), "invalidateRemoteMD");
    process.barrier();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string memory = argc > 1 ? argv[1] : "host";
  const bool second = memory == "second";
  const bool device = second || memory == "device";
  int fds[2];
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
  const pid_t child = fork();
  must(child, "fork");
  close(fds[child ? 1 : 0]);
  run(child ? 0 : 1, other(fds[child ? 0 : 1]), device, second ? 1 : 0);
  if (child == 0) return 0;
  int status = 0;
  must(waitpid(child, &status, 0), "waitpid");
  if (status == 0) std::puts("all passed");
  return status == 0 ? 0 : 1;
}
