// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "scal.hpp"
#include "synapse.hpp"

namespace gaudi::test {

/// An application that uses the stand-in for libSynapse: loaded, initialised, and with no device
/// until it acquires one. Throws where Synapse refuses what must go well.
class synapse_user {
 public:
  synapse_user() : library_(dlopen(GAUDI_SYNAPSE, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    must(of<decltype(synInitialize)>("synInitialize")(), "synInitialize");
  }
  ~synapse_user() { of<decltype(synDestroy)>("synDestroy")(); }
  synapse_user(const synapse_user&) = delete;
  synapse_user& operator=(const synapse_user&) = delete;

  synStatus acquire(std::uint32_t module) {
    return of<decltype(synDeviceAcquireByModuleId)>("synDeviceAcquireByModuleId")(&id_, module);
  }
  synStatus release() { return of<decltype(synDeviceRelease)>("synDeviceRelease")(id_); }

  std::uint64_t allocate(std::size_t size) {
    std::uint64_t address = 0;
    must(
        of<decltype(synDeviceMalloc)>("synDeviceMalloc")(id_, size, std::uint64_t{0}, 0U, &address),
        "synDeviceMalloc");
    return address;
  }
  void put(std::uint64_t address, const std::vector<std::byte>& bytes) {
    const host_range host(*this, bytes.data(), bytes.size());
    copy(reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(), address, HOST_TO_DRAM);
  }
  std::vector<std::byte> get(std::uint64_t address, std::size_t size) {
    std::vector<std::byte> bytes(size);
    const host_range host(*this, bytes.data(), size);
    copy(address, size, reinterpret_cast<std::uint64_t>(bytes.data()), DRAM_TO_HOST);
    return bytes;
  }
  /// SCAL's description of the pool that all is allocated from.
  scal_memory_pool_infoV2 pool() {
    scal_handle_t scal = nullptr;
    scal_pool_handle_t handle = nullptr;
    scal_memory_pool_infoV2 all{};
    if (of<decltype(scal_get_handle_from_fd)>("scal_get_handle_from_fd")(descriptor(), &scal) !=
            0 ||
        of<decltype(scal_get_pool_handle_by_name)>("scal_get_pool_handle_by_name")(
            scal, "global_hbm", &handle) != 0 ||
        of<decltype(scal_pool_get_infoV2)>("scal_pool_get_infoV2")(handle, &all) != 0)
      throw std::runtime_error("SCAL tells nothing of its pool");
    return all;
  }
  /// A function of libSynapse, or of the libraries that it is linked with. By dlsym: a program that
  /// is linked with libSynapse would always have it loaded.
  template <class Function>
  Function* of(const char* name) {
    const auto function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(name);
    return function;
  }
  /// Of the device, Synapse's own.
  int descriptor() { return info().fd; }
  /// Where the driver's mapping of HBM begins.
  std::uint64_t mapping() { return info().globalHbmBaseAddress; }

 private:
  class host_range {
   public:
    host_range(synapse_user& user, const void* at, std::size_t size) : user_(user), at_(at) {
      must(user_.of<decltype(synHostMap)>("synHostMap")(user_.id_, std::uint64_t{size}, at),
           "synHostMap");
    }
    ~host_range() { user_.of<decltype(synHostUnmap)>("synHostUnmap")(user_.id_, at_); }
    host_range(const host_range&) = delete;
    host_range& operator=(const host_range&) = delete;

   private:
    synapse_user& user_;
    const void* at_;
  };

  synDeviceInfoV2 info() {
    synDeviceInfoV2 all{};
    must(of<decltype(synDeviceGetInfoV2)>("synDeviceGetInfoV2")(id_, &all), "synDeviceGetInfoV2");
    return all;
  }
  static void must(synStatus status, const char* what) {
    if (status != synSuccess)
      throw std::runtime_error(what + (": status " + std::to_string(status)));
  }
  void copy(std::uint64_t from, std::uint64_t size, std::uint64_t to, synDmaDir direction) {
    synStreamHandle stream = nullptr;
    must(of<decltype(synStreamCreateGeneric)>("synStreamCreateGeneric")(&stream, id_, 0U),
         "stream");
    must(of<decltype(synMemCopyAsync)>("synMemCopyAsync")(stream, from, size, to, direction),
         "copy");
    must(of<decltype(synStreamSynchronize)>("synStreamSynchronize")(stream),
         "synStreamSynchronize");
    must(of<decltype(synStreamDestroy)>("synStreamDestroy")(stream), "synStreamDestroy");
  }

  void* library_;
  synDeviceId id_ = 0;
};

}  // namespace gaudi::test
