// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether staged data would arrive sooner if it were compressed: what a core compresses and expands
// of chunks as they are staged, and what that makes of wires of 1, 10 and 25 Gb/s.
//   perf_compression [MEGABYTES]     a table; times are of one core's own clock
#include <lz4.h>
#include <time.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bytes = std::vector<char>;

// FI_GAUDI_STAGING_CHUNK
constexpr std::size_t chunk = 524288;

/// Bytes of the original a second, of one core.
struct speed {
  double compress, expand, ratio;
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

bytes random_bytes(std::size_t count) {
  std::mt19937_64 random(1);
  bytes data(count);
  for (std::size_t at = 0; at < count; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(&data[at], &word, sizeof word);
  }
  return data;
}

// As weights, activations and gradients are: normally distributed, and cut to the upper half of
// a float.
bytes bf16_numbers(std::size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> value(0, 0.02F);
  bytes data(count);
  for (std::size_t at = 0; at < count; at += 2) {
    const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value(random)) >> 16);
    std::memcpy(&data[at], &half, sizeof half);
  }
  return data;
}

// Signs and exponents, which are alike, apart from the rest, chunk by chunk. The time that this
// takes is not counted: a kernel on the device might do it.
bytes in_planes(const bytes& data) {
  bytes planes(data.size());
  for (std::size_t start = 0; start < data.size(); start += chunk)
    for (std::size_t i = 0; i < chunk / 2; ++i) {
      planes[start + i] = data[start + 2 * i + 1];
      planes[start + chunk / 2 + i] = data[start + 2 * i];
    }
  return planes;
}

struct zstd {
  zstd() : packer(ZSTD_createCCtx()), unpacker(ZSTD_createDCtx()) {}
  ~zstd() {
    ZSTD_freeCCtx(packer);
    ZSTD_freeDCtx(unpacker);
  }
  zstd(const zstd&) = delete;
  zstd& operator=(const zstd&) = delete;
  static std::size_t bound() { return ZSTD_compressBound(chunk); }
  std::size_t pack(char* to, const char* from) const {
    return ZSTD_compressCCtx(packer, to, bound(), from, chunk, 1);
  }
  std::size_t unpack(char* to, const char* from, std::size_t size) const {
    return ZSTD_decompressDCtx(unpacker, to, chunk, from, size);
  }
  ZSTD_CCtx* packer;
  ZSTD_DCtx* unpacker;
};

struct lz4 {
  static std::size_t bound() { return static_cast<std::size_t>(LZ4_compressBound(chunk)); }
  static std::size_t pack(char* to, const char* from) {
    return static_cast<std::size_t>(
        LZ4_compress_default(from, to, static_cast<int>(chunk), static_cast<int>(bound())));
  }
  static std::size_t unpack(char* to, const char* from, std::size_t size) {
    return static_cast<std::size_t>(
        LZ4_decompress_safe(from, to, static_cast<int>(size), static_cast<int>(chunk)));
  }
};

template <class Codec>
speed measure(const Codec& codec, const bytes& data) {
  bytes packed(Codec::bound());
  bytes again(chunk);
  double packing = 0;
  double unpacking = 0;
  std::size_t left = 0;
  for (std::size_t at = 0; at < data.size(); at += chunk) {
    const double start = cpu_seconds();
    const std::size_t size = codec.pack(packed.data(), &data[at]);
    const double middle = cpu_seconds();
    if (codec.unpack(again.data(), packed.data(), size) != chunk ||
        std::memcmp(again.data(), &data[at], chunk) != 0)
      throw std::runtime_error("not what was compressed");
    packing += middle - start;
    left += size;
    const double before = cpu_seconds();
    codec.unpack(again.data(), packed.data(), size);
    unpacking += cpu_seconds() - before;
  }
  const auto all = static_cast<double>(data.size());
  return {all / packing, all / unpacking, all / static_cast<double>(left)};
}

// Of a stream whose chunks are compressed, sent and expanded at the same time: the slowest decides.
double rate_over(double wire, const speed& s) {
  return std::min({wire * s.ratio, s.compress, s.expand});
}

void print(const std::string& codec, const std::string& data, const speed& s) {
  std::printf("%-5s %-12s %5.2f %9.2f %9.2f", codec.c_str(), data.c_str(), s.ratio,
              s.compress / 1e9, s.expand / 1e9);
  for (const double gigabits : {1.0, 10.0, 25.0}) {
    const double wire = gigabits / 8 * 1e9;
    std::printf("   %5.2f (%4.2f)", rate_over(wire, s) / 1e9, rate_over(wire, s) / wire);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const std::size_t size = std::max<std::size_t>(1, megabytes * 1'000'000 / chunk) * chunk;
  const bytes numbers = bf16_numbers(size);
  const std::pair<const char*, bytes> kinds[] = {
      {"bf16", numbers}, {"bf16 planes", in_planes(numbers)}, {"random", random_bytes(size)}};
  std::printf("zstd %s level 1, lz4 %s, chunks of %zu KiB, one core; GB/s of the original\n",
              ZSTD_versionString(), LZ4_versionString(), chunk / 1024);
  std::printf("%-5s %-12s %5s %9s %9s   %12s   %12s   %12s\n", "", "data", "ratio", "compress",
              "expand", "at 1 Gb/s", "at 10 Gb/s", "at 25 Gb/s");
  for (const auto& [name, data] : kinds) {
    print("zstd", name, measure(zstd(), data));
    print("lz4", name, measure(lz4(), data));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "perf_compression: %s\n", error.what());
  return 1;
}
