// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer_engine.hpp"

namespace gaudi::proto {

transfer_engine::transfer_engine(const endpoint_settings& config, const parts& with)
    : planner(config, with.copies),
      slots(with.core, config, with.connections, with.channel, planner),
      flush(config.flush, config.rails, with.devices, with.transport, with.channel),
      rail_choice(config.rails, config.rma_order, config.clock, with.paths),
      fences(with.core, with.transport, rail_choice),
      completion(table, with.channel, slots, flush, fences),
      immediate(with.transport, with.copies),
      direct(with.core, rail_choice.threshold(),
             {with.connections, with.transport, with.channel, flush, with.paths}),
      cooperative(with.connections, with.channel, table, completion, immediate, with.paths),
      rail_making(config.rails, !with.core.over_rdma(), config.clock,
                  {with.connections, with.channel, rail_choice, fences, with.paths, with.reports}),
      rail_names(config.rails, {with.connections, with.channel, table, with.keys, flush, fences}),
      mover(with.core, config,
            {with.connections, with.transport, with.receives, with.copies, with.channel, with.paths,
             table, completion, flush, planner, slots, immediate, cooperative, direct, rail_choice,
             rail_names, fences}),
      rails(
          {with.connections, with.transport, mover, rail_choice, rail_making, fences, with.paths}),
      sessions(
          {with.connections, with.transport, with.channel, mover, direct, completion, with.paths}),
      links({with.connections, with.transport, rail_choice, table, direct, config.rails.streams,
             session_routes(&config.rails)},
            config.limits, config.rails.home_pause, config.clock),
      dmabufs(config, with.connections, with.channel, table, mover),
      source(with.core, config, dmabufs.exporter),
      sink(with.core, config, with.devices, with.channel, completion, slots, cooperative, mover,
           dmabufs.importer, table.records(), with.paths),
      packets({with.connections, with.channel, table, completion, cooperative, rail_names, mover,
               dmabufs.exporter, dmabufs.importer, sink}) {}

void transfer_engine::connection_down(connection& c, int error) {
  mover.connection_down(c);
  completion.connection_down(c, error);
}

void transfer_engine::close() noexcept {
  table.destroy_all();
  mover.free_buffers();
  slots.free_buffers();
  fences.close();
}

}  // namespace gaudi::proto
