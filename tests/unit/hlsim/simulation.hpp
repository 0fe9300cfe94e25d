// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hlsim.hpp"

namespace hlsim_test {

using environment = std::map<std::string, std::string>;

#if defined(__SANITIZE_THREAD__)
inline constexpr bool built_with_tsan = true;
#elif defined(__has_feature)
inline constexpr bool built_with_tsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool built_with_tsan = false;
#endif

inline constexpr uint64_t mib = 1 << 20;
inline constexpr uint64_t page = 768 * mib;

/// A folder for device files, gone with the object.
class scratch_folder {
 public:
  scratch_folder() {
    char name[] = "/dev/shm/hlsim-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~scratch_folder() { std::filesystem::remove_all(path_); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Runs `body` in a process of its own: the library reads its environment once per process. Gives
/// the pid; wait with `succeeded`.
inline pid_t start(const std::string& folder, const environment& env,
                   const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setenv("HLSIM_DIR", folder.c_str(), 1);
  for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
  body();
  std::exit(testing::Test::HasFailure() ? 1 : 0);  // not _exit: the leak check runs at exit
}

/// True when the process ended without a failed expectation.
inline bool succeeded(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// One process, one fresh set of devices.
inline void simulate(const environment& env, const std::function<void()>& body) {
  const scratch_folder folder;
  EXPECT_TRUE(succeeded(start(folder.path(), env, body)));
}

/// The engines of this process's devices begin nothing, until this goes or says so.
class engines_paused {
 public:
  engines_paused() {
    std::ofstream(file_) << "pause";
    // Their last look at the file may have been so long ago, and is the one that counts.
    ::usleep(2 * 1'000);
  }
  ~engines_paused() { resume(); }
  engines_paused(const engines_paused&) = delete;
  engines_paused& operator=(const engines_paused&) = delete;
  void resume() { std::filesystem::remove(file_); }

 private:
  const std::string file_ = std::string(std::getenv("HLSIM_DIR")) + "/fault";
};

/// An open device. Expectations fail when it cannot be opened.
class open_device {
 public:
  explicit open_device(const char* bus_id = nullptr)
      : fd_(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, bus_id)) {
    EXPECT_GE(fd_, 0) << std::strerror(errno);
  }
  ~open_device() {
    if (fd_ >= 0) hlthunk_close(fd_);
  }
  open_device(const open_device&) = delete;
  open_device& operator=(const open_device&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// Page-aligned host memory, mapped to a device for the object's lifetime.
class host_buffer {
 public:
  host_buffer(int device, size_t size) : device_(device), size_(size) {
    data_ = static_cast<char*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    va_ = hlthunk_host_memory_map(device, data_, 0, size);
    EXPECT_NE(va_, 0U) << std::strerror(errno);
  }
  ~host_buffer() {
    hlthunk_memory_unmap(device_, va_);
    ::munmap(data_, size_);
  }
  host_buffer(const host_buffer&) = delete;
  host_buffer& operator=(const host_buffer&) = delete;
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] uint64_t va() const { return va_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  int device_;
  size_t size_;
  char* data_;
  uint64_t va_;
};

struct lin_dma {
  uint32_t size;
  uint32_t control;
  uint64_t source;
  uint64_t destination;
};
inline constexpr uint32_t lin_dma_control = 9U << 24;
inline constexpr uint32_t memset_bit = 1U << 4;

/// A mapped command buffer that holds copies, and what hlthunk_command_submission says to it.
class command {
 public:
  command(int device, const std::vector<lin_dma>& packets)
      : device_(device), buffer_(device, 4096) {
    write(packets);
  }
  void write(const std::vector<lin_dma>& packets) {
    bytes_ = static_cast<uint32_t>(packets.size() * sizeof(lin_dma));
    std::memcpy(buffer_.data(), packets.data(), bytes_);
  }
  int submit(uint32_t queue, uint64_t& seq) {
    hl_cs_chunk chunk{};
    chunk.cb_handle = buffer_.va();
    chunk.queue_index = queue;
    chunk.cb_size = bytes_;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    const int rc = hlthunk_command_submission(device_, &in, &out);
    seq = out.seq;
    return rc;
  }

 private:
  int device_;
  host_buffer buffer_;
  uint32_t bytes_ = 0;
};

inline constexpr uint64_t long_enough_us = 20'000'000;

inline uint32_t wait_status(int device, uint64_t seq, uint64_t timeout_us = long_enough_us) {
  uint32_t status = HL_WAIT_CS_STATUS_BUSY;
  EXPECT_EQ(hlthunk_wait_for_cs(device, seq, timeout_us, &status), 0);
  return status;
}

/// One copy from begin to end; expectations fail when it does.
inline void copy(int device, uint64_t source, uint64_t destination, uint32_t size,
                 uint32_t queue = 0) {
  command c(device, {{size, lin_dma_control, source, destination}});
  uint64_t seq = 0;
  ASSERT_EQ(c.submit(queue, seq), 0);
  EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
}

/// One mapped page of HBM.
struct device_page {
  explicit device_page(int fd)
      : device(fd),
        handle(hlthunk_device_memory_alloc(fd, 1, 0, true, false)),
        va(hlthunk_device_memory_map(fd, handle, 0)) {
    EXPECT_NE(handle, 0U);
    EXPECT_NE(va, 0U);
  }
  int device;
  uint64_t handle, va;
};

}  // namespace hlsim_test
