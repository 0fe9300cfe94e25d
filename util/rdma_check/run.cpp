// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "control.hpp"
#include "report.hpp"
#include "session.hpp"

namespace gaudi::rdma_check {
namespace {

using std::chrono::milliseconds;

// Of the conversation between the two programs.
constexpr int protocol_version = 2;

/// The connections to the peer.
struct meeting {
  std::unique_ptr<control> words;
  connection data;
};

/// What each side tells the other of itself before the first step.
struct introduction {
  side shown;
  peer_memory place;
};

void to_json(nlohmann::json& j, const introduction& i) {
  j = {{"side", i.shown},
       {"address", i.place.address},
       {"length", i.place.length},
       {"rkey", i.place.rkey},
       {"on_device", i.place.on_device}};
}

void from_json(const nlohmann::json& j, introduction& i) {
  j.at("side").get_to(i.shown);
  j.at("address").get_to(i.place.address);
  j.at("length").get_to(i.place.length);
  j.at("rkey").get_to(i.place.rkey);
  j.at("on_device").get_to(i.place.on_device);
}

// Over and over for the whole time-out, because the server may not have started yet.
std::unique_ptr<control> call_server(const options& chosen) {
  const auto end = std::chrono::steady_clock::now() + chosen.timeout;
  for (;;) {
    auto words = std::make_unique<control>(
        connection::towards(chosen.server, chosen.port, chosen.bind), chosen.timeout);
    if (words->link().connect(purpose::control, chosen.timeout)) return words;
    if (std::chrono::steady_clock::now() > end)
      throw failure(exit_code::no_connection,
                    fmt::format("{} port {} refuses: is a gaudi_rdma_check waiting there?",
                                chosen.server, chosen.port));
    std::this_thread::sleep_for(milliseconds{100});
  }
}

meeting meet_as_client(const options& chosen) {
  auto words = call_server(chosen);
  auto data = connection::towards(chosen.server, chosen.port, chosen.bind);
  if (!data.connect(purpose::data, chosen.timeout))
    throw failure(exit_code::no_connection, "the server refuses the connection for data");
  return {std::move(words), std::move(data)};
}

meeting meet_as_server(const options& chosen) {
  const listener ear(chosen.bind, chosen.port);
  if (!chosen.json) fmt::print("waiting for a client on port {}\n", chosen.port);
  std::fflush(stdout);
  auto words = std::make_unique<control>(ear.take(purpose::control, std::nullopt), chosen.timeout);
  words->link().accept(chosen.timeout);
  auto data = ear.take(purpose::data, chosen.timeout);
  data.accept(chosen.timeout);
  return {std::move(words), std::move(data)};
}

// The client decides, the server follows.
plan agree(control& words, const options& chosen) {
  if (chosen.client()) {
    words.send({{"protocol", protocol_version}, {"plan", chosen.work}});
    return chosen.work;
  }
  const auto request = words.receive("the client's request");
  if (!request.is_object() || request.value("protocol", 0) != protocol_version)
    throw failure(exit_code::no_connection, "client and server are of different releases");
  return request.at("plan").get<plan>();
}

side own_side(const meeting& with, const gaudi_device* gaudi) {
  return {.memory = gaudi != nullptr ? "device" : "host",
          .device = gaudi != nullptr ? gaudi->name() : "",
          .nic = with.data.nic()};
}

row row_of(const step& s, const measured& m, const outcome& o) {
  const char* way = s.data_from_client() ? "->" : "<-";
  return {.operation = name_of(s.op),
          .pair = fmt::format("{} {} {}", o.client.memory, way, o.server.memory),
          .size = s.size,
          .iterations = s.iterations,
          .latency = common::summarise(m.latencies),
          .megabytes_per_second =
              m.stream > 0 ? static_cast<double>(s.size * s.iterations) / m.stream : 0,
          .difference = m.difference,
          .flushes = m.flushes};
}

// The figures are of the side that drove, a difference is of either, flushes are of both. Both get
// the same row.
row settle(control& words, const step& s, const row& own, bool client) {
  if (!client) {
    words.send(own);
    return words.receive_as<row>("the client's row");
  }
  const row others = words.receive_as<row>("the server's row");
  row settled = s.client_drives ? own : others;
  settled.difference = own.difference.empty() ? others.difference : own.difference;
  settled.flushes = own.flushes + others.flushes;
  words.send(settled);
  return settled;
}

void check_out_of_range(session& moving, control& words, outcome& o, bool client) {
  o.out_of_range = true;
  if (client) o.out_of_range_fault = moving.write_out_of_range();
  if (client)
    words.send(o.out_of_range_fault);
  else
    o.out_of_range_fault = words.receive_as<std::string>("the write out of range");
}

outcome work(meeting& with, const options& chosen, const gaudi_device* gaudi) {
  control& words = *with.words;
  const bool client = chosen.client();
  const plan wanted = agree(words, chosen);
  memory own(with.data.pd(), gaudi, 2 * capacity_of(wanted));
  const side shown = own_side(with, gaudi);
  words.send(introduction{shown, {own.address(), own.length(), own.rkey(), own.on_device()}});
  const auto peer = words.receive_as<introduction>("the peer's memory");
  outcome o;
  o.client = client ? shown : peer.shown;
  o.server = client ? peer.shown : shown;
  if (!chosen.json) print_head(o);

  session moving(words, with.data, own, peer.place, client, chosen.timeout);
  for (const step& s : steps_of(wanted)) {
    o.rows.push_back(settle(words, s, row_of(s, moving.run(s), o), client));
    if (!chosen.json) print_row(o.rows.back());
  }
  if (wanted.out_of_range) check_out_of_range(moving, words, o, client);
  return o;
}

// The memory has been given back by now, first the registration; the connections go with `with`.
void part(meeting& with) {
  with.words->flush();
  with.data.disconnect();
  with.words->link().disconnect();
}

outcome work_and_part(meeting& with, const options& chosen, const gaudi_device* gaudi) {
  try {
    outcome o = work(with, chosen, gaudi);
    part(with);
    return o;
  } catch (const peer_failure&) {
    throw;
  } catch (const failure& why) {
    with.words->abort(why);
    throw;
  } catch (const std::exception& why) {
    with.words->abort(failure(exit_code::operation_failed, why.what()));
    throw;
  }
}

exit_code code_of(const outcome& o) {
  if (!o.contents_right()) return exit_code::contents_differ;
  return o.out_of_range_fault.empty() ? exit_code::verified : exit_code::operation_failed;
}

}  // namespace

exit_code run(const options& chosen) {
  require_rdma_device();
  std::optional<gaudi_device> gaudi;
  if (chosen.device) gaudi = gaudi_device::open(chosen.gaudi);
  meeting with = chosen.client() ? meet_as_client(chosen) : meet_as_server(chosen);
  const outcome o = work_and_part(with, chosen, gaudi ? &*gaudi : nullptr);
  (chosen.json ? print_json : print_end)(o);
  return code_of(o);
}

}  // namespace gaudi::rdma_check
