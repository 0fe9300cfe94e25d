// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "saved_run.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "common/failure.hpp"
#include "report.hpp"

namespace gaudi::perf {
namespace {

using common::failure;
using row = std::map<std::string, std::string>;

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().empty()) throw failure("no such file, or it is empty");
  return text.str();
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) found.push_back(field);
  return found;
}

std::vector<row> rows(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  const auto names = fields(line);
  std::vector<row> found;
  while (std::getline(in, line)) {
    const auto values = fields(line);
    row& one = found.emplace_back();
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) one[names[i]] = values[i];
  }
  return found;
}

measurement from_row(const row& values) {
  measurement m;
  m.size = std::stoull(values.at("size"));
  m.latency.median = std::stod(values.at("median_us"));
  m.megabytes_per_second = std::stod(values.at("MB_per_s"));
  return m;
}

plotted_run from_csv(const std::string& text) {
  plotted_run run;
  for (const row& values : rows(text)) {
    run.results.push_back(from_row(values));
    run.name = run_kind(values.at("op"), values.at("client_memory"), values.at("server_memory"));
  }
  return run;
}

plotted_run from_document(const std::string& text) {
  const auto document = nlohmann::json::parse(text);
  return {run_kind(document.at("plan").at("op"), document.at("client").at("memory"),
                   document.at("server").at("memory")),
          document.at("results").get<std::vector<measurement>>()};
}

}  // namespace

std::string run_kind(const std::string& operation, const std::string& client_memory,
                     const std::string& server_memory) {
  return fmt::format("{}, {} to {}", operation, client_memory, server_memory);
}

plotted_run read_run(const std::filesystem::path& file) {
  try {
    const std::string text = contents(file);
    plotted_run run = text.front() == '{' ? from_document(text) : from_csv(text);
    if (run.results.empty()) throw failure("it has no results");
    run.name = fmt::format("{}: {}", file.stem().string(), run.name);
    return run;
  } catch (const std::exception& error) {
    throw failure(fmt::format("--overlay: {} is not what --json or --csv printed ({})",
                              file.string(), error.what()));
  }
}

}  // namespace gaudi::perf
