// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace vm_test {

template <auto Close>
struct closed_by {
  template <class T>
  void operator()(T* object) const {
    EXPECT_EQ(Close(object), 0);
  }
};
using mr_ptr = std::unique_ptr<ibv_mr, closed_by<&ibv_dereg_mr>>;

inline constexpr int all_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

/// A range that a work request names.
struct place {
  uint64_t address;
  uint32_t key;
};

/// Two queue pairs of the machine's first RDMA device, connected to each other. One asks, the other
/// one answers: an error of the one that answers must not end what the one that asks was told.
class loopback {
 public:
  loopback() {
    connect(*asking_, answering_->qp_num);
    connect(*answering_, asking_->qp_num);
  }

  [[nodiscard]] mr_ptr register_host(void* data, size_t size) const {
    return mr_ptr(ibv_reg_mr(domain_.get(), data, size, all_access));
  }
  /// The whole dma-buf, known by `address`.
  [[nodiscard]] mr_ptr register_dmabuf(int fd, size_t size, uint64_t address) const {
    return mr_ptr(ibv_reg_dmabuf_mr(domain_.get(), 0, size, address, fd, all_access));
  }

  /// Carries out IBV_WR_RDMA_WRITE or IBV_WR_RDMA_READ; how it ended.
  [[nodiscard]] ibv_wc_status transfer(ibv_wr_opcode what, place local, place remote,
                                       uint32_t size) const {
    ibv_sge piece{local.address, size, local.key};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = what;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = remote.address;
    request.wr.rdma.rkey = remote.key;
    EXPECT_EQ(ibv_post_send(asking_.get(), &request, &bad), 0);
    ibv_wc done{};
    while (ibv_poll_cq(queue_.get(), 1, &done) == 0) {
    }
    return done.status;
  }

 private:
  static ibv_context* open_first() {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = list && list[0] ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    return context;
  }

  ibv_qp* make_pair() const {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.cap = {.max_send_wr = 4,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    return ibv_create_qp(domain_.get(), &wanted);
  }

  // That of the IPv4 address: the other ones are of no network that a packet could come back on.
  [[nodiscard]] ibv_global_route route() const {
    const std::array<uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    ibv_global_route found{};
    ibv_gid gid{};
    for (uint8_t i = 0; ibv_query_gid(context_.get(), 1, i, &gid) == 0; ++i) {
      if (!std::equal(mapped.begin(), mapped.end(), gid.raw)) continue;
      found.dgid = gid;
      found.sgid_index = i;
      break;
    }
    return found;
  }

  static void change(ibv_qp& pair, ibv_qp_attr attributes, ibv_qp_state state, int mask) {
    attributes.qp_state = state;
    ASSERT_EQ(ibv_modify_qp(&pair, &attributes, mask | IBV_QP_STATE), 0);
  }

  void connect(ibv_qp& pair, uint32_t other) const {
    ibv_qp_attr a{};
    a.port_num = 1;
    a.qp_access_flags = all_access;
    change(pair, a, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = other;
    a.max_dest_rd_atomic = a.max_rd_atomic = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh = route();
    a.ah_attr.grh.hop_limit = 1;
    change(pair, a, IBV_QPS_RTR,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    change(pair, a, IBV_QPS_RTS,
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
  }

  std::unique_ptr<ibv_context, closed_by<&ibv_close_device>> context_{open_first()};
  std::unique_ptr<ibv_pd, closed_by<&ibv_dealloc_pd>> domain_{ibv_alloc_pd(context_.get())};
  std::unique_ptr<ibv_cq, closed_by<&ibv_destroy_cq>> queue_{
      ibv_create_cq(context_.get(), 8, nullptr, nullptr, 0)};
  std::unique_ptr<ibv_qp, closed_by<&ibv_destroy_qp>> asking_{make_pair()};
  std::unique_ptr<ibv_qp, closed_by<&ibv_destroy_qp>> answering_{make_pair()};
};

}  // namespace vm_test
