// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/copy_overrides.hpp"
#include "base/result.hpp"

namespace gaudi::base {

/// Which libfabric provider carries the bytes (FI_GAUDI_CORE).
enum class core_choice { automatic, verbs, tcp };

/// Whether the NIC may read and write device memory itself (FI_GAUDI_DMABUF).
enum class dmabuf_choice {
  automatic,  // where it can; else the data is staged through host memory
  on,         // or the registration fails
  off,
};

/// How long messages move (FI_GAUDI_RNDV).
enum class rendezvous_choice {
  automatic,  // reads where it can, else writes
  read,       // the receiver reads from the sender's memory, where the NIC can
  write,      // the sender writes to the receiver's memory
  staged,     // device memory through host buffers, whatever the NIC can
};

/// How data that a NIC wrote to device memory is flushed before its completion (FI_GAUDI_FLUSH).
enum class flush_choice {
  automatic,  // read, else driver, else not at all after a warning
  read,       // by a read of the NIC
  driver,     // by the Gaudi's driver
  off,
};

/// Whether peers on this host share memory (FI_GAUDI_IPC).
enum class ipc_choice {
  automatic,  // where both ends can; else the core carries everything
  off,
};

/// One FI_GAUDI_* parameter as the user sees it. A number is a decimal count with an optional
/// suffix K, M or G (powers of 1024) and must lie in [min, max]; a text has max == 0.
struct param_spec {
  const char* name;          ///< as libfabric takes it: "eager_size" is FI_GAUDI_EAGER_SIZE
  const char* default_text;  ///< "" for an optional text
  std::uint64_t min;
  std::uint64_t max;
  const char* help;  ///< one line, shown by `fi_info -g gaudi`
};

/// Order of `param_table`.
enum class param : std::size_t {
  core,
  nic,
  hlthunk,
  device,
  eager_size,
  staging_chunk,
  staging_depth,
  rx_buffers,
  unexpected_limit,
  connect_timeout,
  reconnect_timeout,
  link_timeout,
  max_connections,
  rails,
  rail_chunk,
  device_timeout,
  copy_timeout,
  copy_table,
  dmabuf,
  rndv,
  flush,
  ipc,
  mr_cache_max_count,
  mr_cache_max_size,
  mr_cache_imported,
  mr_window,
  tcp_hmem,
  counters,
  count_,
};

/// Every parameter of the provider: the one place that names, defaults and limits come from.
inline constexpr std::array<param_spec, static_cast<std::size_t>(param::count_)> param_table{{
    {"core", "auto", 0, 0,
     "core provider that carries the data: auto (verbs if an RDMA device exists, else tcp), verbs "
     "or tcp"},
    {"nic", "", 0, 0,
     "NICs to use, in order of preference: names of RDMA devices (of interfaces, with core tcp), "
     "comma-separated; empty: all, nearest to the Gaudi first"},
    {"hlthunk", "", 0, 0,
     "path of libhl-thunk.so; empty: the installed library, by its soname or in the vendor's "
     "folder"},
    {"device", "", 0, 0,
     "Gaudis to use, the default one first: device index (0), module id (module:3) or PCI address "
     "(0000:19:00.0), comma-separated, or all; empty: one that the application has open, else the "
     "first free one"},
    {"eager_size", "auto", 64, 1048576,
     "largest message in bytes that is sent eagerly, larger ones use a rendezvous; auto: 16K over "
     "RDMA, where the NIC moves the rest, and 64K over tcp, but 32K to a peer on this host that "
     "can read the sender's memory"},
    {"staging_chunk", "524288", 4096, 67108864,
     "maximum bytes of one copy between device and host memory when data is staged"},
    {"staging_depth", "8", 2, 256, "maximum number of staging chunks of one transfer in flight"},
    {"rx_buffers", "256", 8, 65536, "receive buffers of an endpoint, shared by all its peers"},
    {"unexpected_limit", "67108864", 65536, 1ULL << 40,
     "bytes of unexpected messages that an endpoint keeps before it stops their senders"},
    {"connect_timeout", "600", 0, 86400,
     "seconds after which a peer that has not answered a connection request is given up; 0: never"},
    {"reconnect_timeout", "10", 0, 86400,
     "seconds that operations wait for a connection which was lost to be made again, with nothing "
     "lost; 0: they fail with it"},
    {"link_timeout", "1000", 0, 600000,
     "milliseconds without a sign of the peer's NIC after which a connection over RDMA counts as "
     "lost, and is made again; over tcp: of a silent peer that something waits for, until it is "
     "sent a packet, as only of those the kernel learns whether they arrive, and, where there is "
     "another link (FI_GAUDI_RAILS), of a peer's kernel that acknowledges nothing; 0: when the own "
     "NIC says so, which can take half a minute, and over tcp when the kernel does, which can take "
     "a quarter of an hour"},
    {"max_connections", "1024", 0, 1048576,
     "connections of an endpoint beyond which it closes those that were not used for the longest; "
     "they are made again when they are needed; 0: no limit"},
    {"rails", "1", 0, 0,
     "connections that the RMA of long transfers to a peer is shared out over: a number up to 8, "
     "or names, comma-separated, one rail over each: of interfaces (core tcp), or of RDMA devices "
     "(core verbs); auto: over verbs all RDMA devices, or those of FI_GAUDI_NIC, the nearest to "
     "the Gaudi first, over tcp one"},
    {"rail_chunk", "524288", 4096, 1073741824,
     "bytes that a rail gets at a time; transfers of less than two such pieces stay on one "
     "connection"},
    {"device_timeout", "15", 0, 3600, "seconds to wait for a device in reset"},
    {"copy_timeout", "60", 0, 86400,
     "seconds after which a device that has not completed a copy counts as lost; 0: when its "
     "driver reports it"},
    {"copy_table", "auto", 0, 0,
     "thresholds and chunk sizes of device copies: auto (measured on each device), off (built-in "
     "defaults) or fixed values, as in "
     "h2d:pin=64K,split=1M,chunk=256K,nic=16K;d2h:pin=off;d2d:split=4M"},
    {"dmabuf", "auto", 0, 0,
     "whether the NIC accesses device memory directly (core verbs): auto (if it can, else data is "
     "staged), on (else registration fails) or off"},
    {"rndv", "auto", 0, 0,
     "how long messages move: read (by the receiver), write (by the sender), staged (device memory "
     "through host memory) or auto (read: one message fewer)"},
    {"flush", "auto", 0, 0,
     "how data that a NIC wrote becomes visible in device memory before its completion: read (an "
     "RDMA read by the NIC), driver, off or auto (read, else driver)"},
    {"ipc", "auto", 0, 0,
     "whether peers on the same host use shared memory and cross-process copies: auto (if both "
     "can) or off (all data through the core)"},
    {"mr_cache_max_count", "1024", 0, 1048576,
     "idle registrations of device memory that a domain keeps for reuse; 0: none, each ends with "
     "its last user"},
    {"mr_cache_max_size", "256G", 0, 1ULL << 50,
     "bytes of device memory that idle registrations may cover in total"},
    {"mr_cache_imported", "off", 0, 0,
     "whether registrations of dma-bufs that the application supplies (FI_MR_DMABUF) are kept for "
     "reuse: off (closed with their last user, so that the owner can free the memory) or on"},
    {"mr_window", "4G", 0, 1ULL << 50,
     "bytes of a longer allocation of device memory that one registration covers, rounded up to a "
     "power of two; 0: always all of it"},
    {"tcp_hmem", "off", 0, 0,
     "whether the name ofi_gaudi offers FI_HMEM over tcp, where all device memory is staged: off "
     "or on (the name gaudi always offers it)"},
    {"counters", "on", 0, 0,
     "whether this user and root can read the process's counters (fi_gaudi_counters(7)): on or "
     "off"},
}};

/// The environment variable of a parameter: "FI_GAUDI_EAGER_SIZE".
std::string variable_name(const param_spec& spec);

/// FI_GAUDI_RAILS.
inline constexpr std::size_t max_rails = 8;
struct rail_choice {
  std::size_t count = 1;                ///< automatic: at most
  std::vector<std::string> interfaces;  ///< empty: only their number was given
  bool is_automatic = false;            ///< all NICs that there are
  std::size_t chunk = 0;                ///< bytes (FI_GAUDI_RAIL_CHUNK)
};

/// How long an endpoint waits for connections, and how many it has.
struct connection_limits {
  std::chrono::seconds connect_timeout{0};  ///< for a peer's answer; 0: as long as it takes
  /// For a connection that was lost to be made again; 0: not at all.
  std::chrono::seconds reconnect_timeout{0};
  /// Without a sign of the peer's NIC, until a connection counts as lost; 0: when ours says so.
  std::chrono::milliseconds link_timeout{0};
  std::size_t most = 0;  ///< while some are idle; 0: as many as there are peers
};

/// The parsed parameters. Immutable once parsed, so any thread may read them.
struct params {
  core_choice core = core_choice::automatic;
  std::vector<std::string> nics;  ///< as libfabric names the core's domains
  std::string hlthunk;
  std::string device;
  std::size_t eager_size = 0;        ///< bytes; 0: eager_size_over() chooses
  std::size_t staging_chunk = 0;     ///< bytes
  std::size_t staging_depth = 0;     ///< chunks
  std::size_t rx_buffers = 0;        ///< buffers per endpoint
  std::size_t unexpected_limit = 0;  ///< bytes per endpoint
  connection_limits limits{};
  rail_choice rails;
  std::chrono::seconds device_timeout{0};
  std::chrono::seconds copy_timeout{0};  ///< 0: none
  copy_overrides copy_table;
  dmabuf_choice dmabuf = dmabuf_choice::automatic;
  rendezvous_choice rndv = rendezvous_choice::automatic;
  flush_choice flush = flush_choice::automatic;
  ipc_choice ipc = ipc_choice::automatic;
  /// Registrations of device memory (FI_GAUDI_MR_*).
  struct {
    std::size_t max_count = 0;   ///< idle ones per domain
    std::uint64_t max_size = 0;  ///< bytes that these cover
    bool imported = false;       ///< dma-bufs of the application's, too
    std::uint64_t window = 0;    ///< bytes; 0: none
  } mr_cache;
  bool tcp_hmem = false;  ///< under the name ofi_gaudi
  bool counters = true;   ///< in a page that others can read

  /// Bytes of the largest message that is sent eagerly over such a core.
  [[nodiscard]] std::size_t eager_size_over(bool rdma) const noexcept {
    constexpr std::size_t over_rdma = 16384;  // the buffers for it are pinned
    constexpr std::size_t over_tcp = 65536;
    if (eager_size != 0) return eager_size;
    return rdma ? over_rdma : over_tcp;
  }

  /// Bytes of the longest message in host memory that goes through shared memory where the peer can
  /// read it in one copy instead. On an AMD EPYC with both processes on one chip 64 KiB took 9.8 us
  /// through it and 8.0 read by the peer, 32 KiB 5.2 and 6.2; a stream of 64 KiB between chips had
  /// 1.8 and 6 to 8 GB/s (gaudi_perf --op tagged, medians of 5 and more runs).
  [[nodiscard]] std::size_t max_by_ring() const noexcept {
    return eager_size != 0 ? SIZE_MAX : 32768;
  }

  /// Text that the user gave for a parameter's name, or nullptr for the default.
  using lookup = std::function<const char*(const char* name)>;

  /// Parses all parameters. A text that does not parse or is out of range gives one warning that
  /// names variable, text and allowed values, and -FI_EINVAL.
  static result<params> parse(const lookup& text_of);

  /// The process's parameters, parsed (and warned about) once, on first use. fi_getinfo refuses to
  /// list anything while they are invalid.
  static const result<params>& parsed();

  /// The process's parameters; the defaults where they are invalid, which only code that runs
  /// without a successful fi_getinfo can see.
  static const params& get();
};

/// Registers every parameter with libfabric for base::provider(), so that `fi_info -g gaudi` lists
/// it with default and explanation. Once, from fi_prov_ini.
void define_params();

}  // namespace gaudi::base
