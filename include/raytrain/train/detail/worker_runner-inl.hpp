// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/hang_watch.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/worker_runner.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE ChildEnd::~ChildEnd() {
  if (!link_.is_forked()) return;
  write_stderr(
      "raytrain: a process that was forked in the training function has come out of it, and ends; end it there, by "
      "_exit()\n");
  ::_exit(EXIT_FAILURE);
}

inline auto made_collective(Worker const& worker) -> std::unique_ptr<Collective> {
  auto collective = worker.make_collective();
  if (collective != nullptr) return collective;
  throw Error{Errc::invalid_config, "ScalingConfig::collectives",
              fmt::format("made no collective for rank {}", worker.link.placement().world_rank.value),
              "make one for each rank"};
}

RAYTRAIN_INLINE void run_worker(Worker worker, std::shared_ptr<RunShared const> const& run,
                                std::function<bool(WorkerSetup)> const& training) noexcept {
  auto& link = worker.link;
  auto const group = worker.group;
  auto const rank = link.placement().world_rank;
  auto const host = this_host();
  std::stop_callback const on_stop{link.stop_token(), [&] { group->request_stop(); }};
  std::stop_callback const on_abort{link.aborted(), [&] { group->abort(); }};
  link.send(Started{rank, host.hostname, host.pid, host.node_ip});
  auto const send_finished = [&](bool stopped) {
    Finished finished{rank, stopped};
    auto const calls = group->calls_made();
    finished.operations = calls.operations;
    finished.calls_digest = calls.digest;
    finished.process_is_spent = group->has_pending();
    link.send(std::move(finished));
  };
  try {
    auto const stopped = [&] {
      HangWatch::Watched const watched{run->hang_watch, link};
      return training(WorkerSetup{link, run, group, made_collective(worker)});
    }();
    send_finished(stopped);
  } catch (Stopped const&) {
    send_finished(true);
  } catch (...) {
    Failed failed{current_error().with_origin(rank, host.hostname)};
    failed.process_is_spent = group->has_pending();
    link.send(std::move(failed));
  }
}

}  // namespace raytrain::detail
