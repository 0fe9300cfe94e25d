// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/msg_endpoint_tables.hpp"

#include "fi/common/forward.hpp"
#include "fi/msg/msg_endpoint.hpp"
#include "fi/msg/msg_traffic.hpp"

namespace gaudi::fi {
namespace {

template <auto Entry>
constexpr auto ep = forward<msg_endpoint, &fid_ep::ops, Entry>;
template <auto Entry>
constexpr auto cm = forward_deferred<msg_endpoint, &fid_ep::cm, Entry>;
template <auto Entry>
constexpr auto msg = forward<msg_endpoint, &fid_ep::msg, Entry>;
template <auto Entry>
constexpr auto msg_counted = forward_and_count<msg_endpoint, &fid_ep::msg, Entry>;
template <auto Entry>
constexpr auto rma = forward<msg_endpoint, &fid_ep::rma, Entry>;
template <auto Entry>
constexpr auto rma_counted = forward_and_count<msg_endpoint, &fid_ep::rma, Entry>;
template <auto Entry>
constexpr auto tagged = forward<msg_endpoint, &fid_ep::tagged, Entry>;
template <auto Entry>
constexpr auto tagged_counted = forward_and_count<msg_endpoint, &fid_ep::tagged, Entry>;
template <auto Entry>
constexpr auto atomic = forward<msg_endpoint, &fid_ep::atomic, Entry>;

}  // namespace

padded<fi_ops_ep> msg_ep_ops{{.size = sizeof(fi_ops_ep),
                              .cancel = ep<&fi_ops_ep::cancel>,
                              .getopt = ep<&fi_ops_ep::getopt>,
                              .setopt = ep<&fi_ops_ep::setopt>,
                              .tx_ctx = not_supported,
                              .rx_ctx = not_supported,
                              .rx_size_left = ep<&fi_ops_ep::rx_size_left>,
                              .tx_size_left = ep<&fi_ops_ep::tx_size_left>}};

fi_ops_cm msg_ep_cm_ops{.size = sizeof(fi_ops_cm),
                        .setname = cm<&fi_ops_cm::setname>,
                        .getname = cm<&fi_ops_cm::getname>,
                        .getpeer = cm<&fi_ops_cm::getpeer>,
                        .connect = cm<&fi_ops_cm::connect>,
                        .listen = not_supported,
                        .accept = cm<&fi_ops_cm::accept>,
                        .reject = not_supported,
                        .shutdown = cm<&fi_ops_cm::shutdown>,
                        .join = not_supported};

fi_ops_msg msg_ep_msg_ops{.size = sizeof(fi_ops_msg),
                          .recv = msg<&fi_ops_msg::recv>,
                          .recvv = msg<&fi_ops_msg::recvv>,
                          .recvmsg = msg<&fi_ops_msg::recvmsg>,
                          .send = msg_counted<&fi_ops_msg::send>,
                          .sendv = msg_counted<&fi_ops_msg::sendv>,
                          .sendmsg = msg_counted<&fi_ops_msg::sendmsg>,
                          .inject = msg<&fi_ops_msg::inject>,
                          .senddata = msg_counted<&fi_ops_msg::senddata>,
                          .injectdata = msg<&fi_ops_msg::injectdata>};

fi_ops_rma msg_ep_rma_ops{.size = sizeof(fi_ops_rma),
                          .read = rma_counted<&fi_ops_rma::read>,
                          .readv = rma_counted<&fi_ops_rma::readv>,
                          .readmsg = rma_counted<&fi_ops_rma::readmsg>,
                          .write = rma_counted<&fi_ops_rma::write>,
                          .writev = rma_counted<&fi_ops_rma::writev>,
                          .writemsg = rma_counted<&fi_ops_rma::writemsg>,
                          .inject = rma<&fi_ops_rma::inject>,
                          .writedata = rma_counted<&fi_ops_rma::writedata>,
                          .injectdata = rma<&fi_ops_rma::injectdata>};

fi_ops_tagged msg_ep_tagged_ops{.size = sizeof(fi_ops_tagged),
                                .recv = tagged<&fi_ops_tagged::recv>,
                                .recvv = tagged<&fi_ops_tagged::recvv>,
                                .recvmsg = tagged<&fi_ops_tagged::recvmsg>,
                                .send = tagged_counted<&fi_ops_tagged::send>,
                                .sendv = tagged_counted<&fi_ops_tagged::sendv>,
                                .sendmsg = tagged_counted<&fi_ops_tagged::sendmsg>,
                                .inject = tagged<&fi_ops_tagged::inject>,
                                .senddata = tagged_counted<&fi_ops_tagged::senddata>,
                                .injectdata = tagged<&fi_ops_tagged::injectdata>};

fi_ops_atomic msg_ep_atomic_ops{.size = sizeof(fi_ops_atomic),
                                .write = atomic<&fi_ops_atomic::write>,
                                .writev = atomic<&fi_ops_atomic::writev>,
                                .writemsg = atomic<&fi_ops_atomic::writemsg>,
                                .inject = atomic<&fi_ops_atomic::inject>,
                                .readwrite = atomic<&fi_ops_atomic::readwrite>,
                                .readwritev = atomic<&fi_ops_atomic::readwritev>,
                                .readwritemsg = atomic<&fi_ops_atomic::readwritemsg>,
                                .compwrite = atomic<&fi_ops_atomic::compwrite>,
                                .compwritev = atomic<&fi_ops_atomic::compwritev>,
                                .compwritemsg = atomic<&fi_ops_atomic::compwritemsg>,
                                .writevalid = atomic<&fi_ops_atomic::writevalid>,
                                .readwritevalid = atomic<&fi_ops_atomic::readwritevalid>,
                                .compwritevalid = atomic<&fi_ops_atomic::compwritevalid>};

}  // namespace gaudi::fi
