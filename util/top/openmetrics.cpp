// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "openmetrics.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/scoped_fd.hpp"
#include "latencies.hpp"

namespace gaudi::top {
namespace {

/// Of a label's value, and of a help text.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string labels_of(const process& p, const subject& s) {
  std::string labels = fmt::format("pid=\"{}\",command=\"{}\"", p.pid, escaped(p.counters.command));
  if (s.kind == block_kind::device)
    labels += fmt::format(",device=\"{}\",name=\"{}\",pci=\"{}\"", s.number, escaped(s.name),
                          escaped(s.detail));
  else
    labels += fmt::format(",nic=\"{}\",core=\"{}\"", escaped(s.name), escaped(s.detail));
  if (s.kind == block_kind::rail) labels += fmt::format(",rail=\"{}\"", s.number);
  return labels;
}

std::string_view kind_name(block_kind kind) {
  if (kind == block_kind::device) return "device";
  return kind == block_kind::rail ? "rail" : "domain";
}

void add_family(std::string& to, const std::vector<process>& processes, block_kind kind,
                const base::counters::value_name& value) {
  const bool grows = value.kind == base::counters::behaviour::grows;
  const std::string name = fmt::format("gaudi_fi_{}_{}", kind_name(kind), value.name);
  to += fmt::format("# TYPE {} {}\n# HELP {} {}\n", name, grows ? "counter" : "gauge", name,
                    escaped(value.help));
  for (const process& p : processes)
    for (const subject& s : p.counters.subjects)
      if (s.kind == kind)
        to += fmt::format("{}{}{{{}}} {}\n", name, grows ? "_total" : "", labels_of(p, s),
                          s.values[value.place]);
}

// Bounds of buckets that are written, as powers of 2 of a nanosecond: 128 ns to 17 s. They are the
// same at all times, as those who add them up need them; what is below is in the first.
constexpr std::size_t first_bound = 7;
constexpr std::size_t last_bound = 34;

void add_latencies(std::string& to, const std::vector<process>& processes) {
  constexpr std::string_view name = "gaudi_fi_domain_latency_seconds";
  to += fmt::format(
      "# TYPE {0} histogram\n# UNIT {0} seconds\n# HELP {0} time that operations took, of "
      "one in 61\n",
      name);
  for (const process& p : processes)
    for (const subject& s : p.counters.subjects) {
      if (s.kind != block_kind::latency) continue;
      const histogram times = histogram_of(s.values);
      if (count_of(times) == 0) continue;
      const std::string labels =
          fmt::format("{},operation=\"{}\"", labels_of(p, s), operation_name(s.number));
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i <= last_bound; ++i) {
        sum += times.buckets[i];
        if (i >= first_bound)
          to += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                            static_cast<double>(histogram::bound_of(i)) / 1e9, sum);
      }
      to += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_count{{{1}}} {2}\n", name, labels,
                        count_of(times));
      to += fmt::format("{}_sum{{{}}} {}\n", name, labels, static_cast<double>(times.sum) / 1e9);
    }
}

[[noreturn]] void fail(const std::string& path) {
  throw std::runtime_error(fmt::format("failed to write {}: {}", path, std::strerror(errno)));
}

void write_all(int fd, const std::string& contents, const std::string& path) {
  for (std::size_t at = 0; at < contents.size();) {
    const ssize_t written = ::write(fd, contents.data() + at, contents.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path);
    at += static_cast<std::size_t>(written);
  }
}

/// A file that is gone again unless it got its name.
class unnamed_file {
 public:
  explicit unnamed_file(const std::string& beside) : path_(beside + ".XXXXXX") {
    fd_.reset(::mkstemp(path_.data()));
    if (!fd_) fail(beside);
  }
  ~unnamed_file() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  unnamed_file(const unnamed_file&) = delete;
  unnamed_file& operator=(const unnamed_file&) = delete;

  void write(const std::string& contents) {
    write_all(fd_.get(), contents, path_);
    // node_exporter is another user.
    if (::fchmod(fd_.get(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH) != 0) fail(path_);
  }
  void become(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) fail(path);
    path_.clear();
  }

 private:
  std::string path_;
  base::scoped_fd fd_;
};

}  // namespace

std::string openmetrics_of(const std::vector<process>& processes) {
  std::string text;
  for (const block_kind kind : {block_kind::domain, block_kind::rail, block_kind::device})
    for (const auto& value : base::counters::values_of(kind))
      add_family(text, processes, kind, value);
  add_latencies(text, processes);
  return text + "# EOF\n";
}

void replace_file(const std::string& path, const std::string& contents) {
  unnamed_file file(path);
  file.write(contents);
  file.become(path);
}

}  // namespace gaudi::top
