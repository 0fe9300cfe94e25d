// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/per_process.hpp"
#include "device/device.hpp"
#include "device/open_failures.hpp"
#include "device/open_files.hpp"
#include "device/sysfs.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::device {
namespace {

using base::error;
using base::result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The devices open in this process, by PCI address: the driver lets each be opened once.
struct registry {
  base::mutex mutex;  // held while one is opened, so that a second opener finds it
  std::map<std::string, std::weak_ptr<device>> devices GAUDI_GUARDED_BY(mutex);

  std::shared_ptr<device> find(const std::string& bus_id) GAUDI_REQUIRES(mutex) {
    const auto at = devices.find(bus_id);
    auto known = at == devices.end() ? nullptr : at->second.lock();
    return known && known->lost() == 0 ? known : nullptr;
  }
};

registry& opened() {
  return base::per_process<registry>::get();
}

/// The real machine's names only count for a real library.
std::optional<sysfs> machine(const hl::thunk& thunk) {
  return thunk.simulated().empty() ? std::optional<sysfs>(sysfs()) : std::nullopt;
}

result<std::string> bus_id_of_control(const hl::thunk& thunk, const result<int>& control) {
  if (!control) return control.failure();
  auto id = thunk.bus_id(*control);
  thunk.close(*control);
  return id;
}

result<std::string> find_module(const hl::thunk& thunk, std::uint32_t module_id) {
  const auto direct = thunk.open_control_by_module_id(module_id);
  if (direct || direct.code() != -FI_ENOSYS) return bus_id_of_control(thunk, direct);
  // A library without that function: look at each device.
  const auto count = thunk.device_count();
  if (!count) return count.failure();
  for (int index = 0; index < static_cast<int>(*count); ++index) {
    const auto control = thunk.open_control(index);
    if (!control) continue;
    const auto info = thunk.hardware(*control);
    auto id = bus_id_of_control(thunk, control);
    if (info && info->module_id == module_id) return id;
  }
  return error{-FI_ENODEV};
}

/// The PCI address of what was asked for; empty: the first free one.
struct bus_id_lookup {
  const hl::thunk& thunk;

  result<std::string> operator()(const device_spec::first_free&) const { return std::string(); }
  result<std::string> operator()(const device_spec::by_bus_id& which) const { return which.value; }
  result<std::string> operator()(const device_spec::by_index& which) const {
    const auto names = machine(thunk);
    if (auto id = names ? names->bus_id_of_index(which.value) : std::nullopt) return *id;
    return bus_id_of_control(thunk, thunk.open_control(which.value));
  }
  result<std::string> operator()(const device_spec::by_module& which) const {
    const auto names = machine(thunk);
    if (auto id = names ? names->bus_id_of_module(which.value) : std::nullopt) return *id;
    return find_module(thunk, which.value);
  }
};

/// How often the device has been opened until now; 0: the library does not tell.
std::uint64_t openings_of(const hl::thunk& thunk, int fd) noexcept {
  const auto count = thunk.openings(fd);
  return count ? *count : 0;
}

/// What the application has opened, and the driver would let nobody open again. Empty: any that is
/// not known here. What came by fork is the parent's.
std::optional<open_file> file_of_application(const hl::thunk& thunk, const std::string& bus_id)
    GAUDI_REQUIRES(opened().mutex) {
  for (open_file& one : gaudis_open_here(thunk, machine(thunk))) {
    const bool is_wanted = bus_id.empty() ? !opened().devices.contains(one.bus_id) ||
                                                opened().devices.at(one.bus_id).expired()
                                          : one.bus_id == bus_id;
    if (is_wanted && !opening::used_after_fork(one.bus_id, openings_of(thunk, one.fd.get())))
      return std::move(one);
  }
  return {};
}

/// How long the next attempt waits, while the device is in reset: open(2) says EAGAIN then, and the
/// library does not try again.
class reset_wait {
 public:
  explicit reset_wait(milliseconds timeout) : timeout_(timeout) {}

  /// Waits for the next attempt. False: there is no time left for one.
  bool pause() {
    const auto now = steady_clock::now();
    if (now >= deadline_) return false;
    if (!std::exchange(told_, true))
      GAUDI_INFO(CORE, "Gaudi is in reset; trying again for up to %lld ms\n",
                 static_cast<long long>(timeout_.count()));
    std::this_thread::sleep_for(std::min(next_, std::chrono::ceil<milliseconds>(deadline_ - now)));
    next_ = std::min(next_ * 2, milliseconds{500});
    return true;
  }

 private:
  const milliseconds timeout_;
  const steady_clock::time_point deadline_ = steady_clock::now() + timeout_;
  milliseconds next_{10};
  bool told_ = false;
};

int index_of(const hl::thunk& thunk, const std::string& bus_id) {
  const auto names = machine(thunk);
  if (const auto index = names ? names->index_of_bus_id(bus_id) : std::nullopt) return *index;
  const auto index = thunk.device_index(bus_id);
  return index ? *index : -1;
}

result<const generation_traits*> recognise(const hl::thunk& thunk, int fd,
                                           const std::string& bus_id) {
  const auto id = thunk.device_id(fd);
  const generation_traits* traits = id ? generation_of(*id) : nullptr;
  if (traits == nullptr) {
    GAUDI_WARN(CORE, "device %s is not a Gaudi (PCI device id 0x%04x).\n", bus_id.c_str(),
               id ? *id : 0);
    return error{-FI_EINVAL};
  }
  return traits;
}

const char* whose(const hl::synapse* synapse) noexcept {
  return synapse ? "Synapse's" : "the application's";
}

/// That the descriptor is of, or null.
std::shared_ptr<const hl::synapse> synapse_with(int fd) {
  auto used = hl::synapse::find();
  const auto held = used ? (*used)->device_fd() : result<int>(used.failure());
  return held && *held == fd ? *std::move(used) : nullptr;
}

}  // namespace

std::string bus_id_of_fd(const hl::thunk& thunk, int fd) {
  const auto names = machine(thunk);
  if (auto id = names ? names->bus_id_of_fd(fd) : std::nullopt) return *id;
  auto id = thunk.bus_id(fd);
  return id ? *std::move(id) : "(PCI address unknown)";
}

result<std::shared_ptr<device>> device::make(std::shared_ptr<const hl::thunk> thunk,
                                             hl::device_fd fd,
                                             std::shared_ptr<const hl::synapse> synapse) {
  const std::string bus_id = bus_id_of_fd(*thunk, fd.get());
  const auto traits = recognise(*thunk, fd.get(), bus_id);
  if (!traits) return traits.failure();
  if (!fd.is_owned() && opening::used_after_fork(bus_id, openings_of(*thunk, fd.get())))
    return refuse_parents(bus_id);
  const auto info = thunk->hardware(fd.get());
  if (!info) return refuse("device " + bus_id, info.code(), {});
  device_attributes facts{.generation = (*traits)->number,
                          .name = thunk->simulated().empty() ? (*traits)->name : thunk->simulated(),
                          .bus_id = bus_id,
                          .index = index_of(*thunk, bus_id),
                          .module_id = info->module_id,
                          .simulated = !thunk->simulated().empty(),
                          .owned = fd.is_owned(),
                          .hbm_size = info->dram_size};
  GAUDI_INFO(CORE, "using %s at %s, %llu MiB of HBM, %s\n", facts.name.c_str(), bus_id.c_str(),
             static_cast<unsigned long long>(facts.hbm_size >> 20),
             facts.owned ? "opened here" : whose(synapse.get()));
  auto made = std::make_shared<device>(passkey{}, std::move(thunk), std::move(fd),
                                       std::move(synapse), **traits, std::move(facts), *info);
  opened().devices[bus_id] = made;
  return made;
}

// The registry's mutex keeps two threads from opening one device. Nobody waits for a reset under
// it: other devices are opened meanwhile.
device::attempt device::try_to_open(const std::shared_ptr<const hl::thunk>& thunk,
                                    const std::string& bus_id) {
  const base::scoped_lock lock(opened().mutex);
  if (auto known = opened().find(bus_id)) return {known};
  if (auto file = file_of_application(*thunk, bus_id))
    return {make(thunk, hl::device_fd::duplicate(std::move(file->fd)), nullptr)};
  const auto fd = thunk->open(bus_id.empty() ? nullptr : bus_id.c_str());
  if (!fd) return {fd.failure(), true};
  return {make(thunk, hl::device_fd::owned(thunk, *fd), nullptr)};
}

result<std::shared_ptr<device>> device::open(std::shared_ptr<const hl::thunk> thunk,
                                             const device_spec& which, milliseconds reset_timeout) {
  return hl::or_no_memory([&]() -> result<std::shared_ptr<device>> {
    const auto bus_id = std::visit(bus_id_lookup{*thunk}, which.choice);
    if (!bus_id) return refuse(which.describe(), bus_id.code(), reset_timeout);
    reset_wait wait(reset_timeout);
    attempt last = try_to_open(thunk, *bus_id);
    while (last.refused && last.found.code() == -FI_EAGAIN && wait.pause())
      last = try_to_open(thunk, *bus_id);
    if (last.refused) return refuse(which.describe(), last.found.code(), reset_timeout);
    if (last.found) (*last.found)->follow_application();
    return last.found;
  });
}

result<std::shared_ptr<device>> device::adopt(std::shared_ptr<const hl::thunk> thunk, int fd) {
  return hl::or_no_memory([&]() -> result<std::shared_ptr<device>> {
    auto found = [&]() -> result<std::shared_ptr<device>> {
      const base::scoped_lock lock(opened().mutex);
      if (is_control_node(machine(*thunk), fd)) return refuse_control(fd);
      if (auto known = opened().find(bus_id_of_fd(*thunk, fd))) return known;
      base::scoped_fd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!own) return error{-errno};
      auto made = make(thunk, hl::device_fd::duplicate(std::move(own)), synapse_with(fd));
      if (made) (*made)->is_handed_over_ = true;
      return made;
    }();
    if (found) (*found)->follow_application();
    return found;
  });
}

result<std::shared_ptr<device>> device::attach_synapse(std::shared_ptr<const hl::thunk> thunk,
                                                       std::shared_ptr<const hl::synapse> synapse) {
  return hl::or_no_memory([&]() -> result<std::shared_ptr<device>> {
    const base::scoped_lock lock(opened().mutex);
    const auto held = synapse->device_fd();
    if (!held) {
      GAUDI_WARN(CORE,
                 "this process uses libSynapse, which has no device yet: acquire one "
                 "(synDeviceAcquire) before device memory is used.\n");
      return held.failure();
    }
    if (auto known = opened().find(bus_id_of_fd(*thunk, *held))) return known;
    const auto pool = synapse->global_pool(*held);
    if (!pool) {
      GAUDI_WARN(CORE, "SCAL query failed for the device that Synapse has in this process: %s\n",
                 fi_strerror(-pool.code()));
      return pool.failure();
    }
    base::scoped_fd own(::fcntl(*held, F_DUPFD_CLOEXEC, 0));
    if (!own) return error{-errno};
    auto made =
        make(std::move(thunk), hl::device_fd::duplicate(std::move(own)), std::move(synapse));
    if (!made) return made;
    if (const auto rc = (*made)->adopt_pool(*pool); !rc) return rc.failure();
    return made;
  });
}

std::uint64_t device::openings() const noexcept {
  return openings_of(*thunk_, fd_.get());
}

// The descriptor that it was lost by may be open still, on a context that is dead or hangs.
bool device::is_reacquired(int fd, const std::string& bus_id) const {
  const auto status = thunk_->status(fd);
  if (!status || *status != hl::device_status::operational) return false;
  if (bus_id != attributes_.bus_id) return true;
  const auto now = thunk_->openings(fd);
  return !now || *now != openings_;
}

result<std::shared_ptr<device>> device::reopened_device(const device_spec& which) const {
  return hl::or_no_memory([&]() -> result<std::shared_ptr<device>> {
    if (!synapse_) return reopened_application_device(which);
    const auto held = synapse_->device_fd();
    if (!held || !is_reacquired(*held, bus_id_of_fd(*thunk_, *held))) return error{lost()};
    return attach_synapse(thunk_, synapse_);
  });
}

// It is not opened here, as the application could not open it any more.
result<std::shared_ptr<device>> device::reopened_application_device(
    const device_spec& which) const {
  auto found = [&]() -> result<std::shared_ptr<device>> {
    const base::scoped_lock lock(opened().mutex);
    const auto bus_id = std::visit(bus_id_lookup{*thunk_}, which.choice);
    auto file = bus_id ? file_of_application(*thunk_, *bus_id) : std::nullopt;
    if (!file || !is_reacquired(file->fd.get(), file->bus_id)) return error{lost()};
    return make(thunk_, hl::device_fd::duplicate(std::move(file->fd)), nullptr);
  }();
  if (found) (*found)->follow_application();
  return found;
}

// Once, and without a lock: what is mapped already is told at once.
void device::follow_application() {
  if (attributes_.owned) return;
  std::call_once(followed_, [this] { application_ = app_mappings::follow(*this); });
}

result<unsigned> count_devices(const hl::thunk& thunk) {
  return thunk.device_count();
}

// They need not be dense: a container may have some of the nodes only.
result<std::vector<int>> device_indices(const hl::thunk& thunk) {
  constexpr int max_minors = 256;  // HLTHUNK_MAX_MINOR
  const auto count = thunk.device_count();
  if (!count) return count.failure();
  return hl::or_no_memory([&]() -> result<std::vector<int>> {
    std::vector<int> found;
    for (int index = 0; index < max_minors && found.size() < *count; ++index) {
      const auto control = thunk.open_control(index);
      if (!control) continue;
      thunk.close(*control);
      found.push_back(index);
    }
    return found;
  });
}

result<int> device::index_named(const hl::thunk& thunk, const device_spec& which) {
  return hl::or_no_memory([&]() -> result<int> {
    const auto bus_id = std::visit(bus_id_lookup{thunk}, which.choice);
    if (!bus_id) return error{is_absent(bus_id.code()) ? -FI_ENODEV : bus_id.code()};
    if (bus_id->empty()) return error{-FI_EINVAL};
    if (const auto* by_index = std::get_if<device_spec::by_index>(&which.choice))
      return by_index->value;
    const int index = index_of(thunk, *bus_id);
    const bool is_checked = !std::holds_alternative<device_spec::by_bus_id>(which.choice);
    return index < 0 && !is_checked ? result<int>(error{-FI_ENODEV}) : result<int>(index);
  });
}

}  // namespace gaudi::device
