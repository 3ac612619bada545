// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/message/message.hpp>

namespace raytrain::testing {

/// Messages of every kind that workers send, with no field at its default but where it is left out on purpose.
[[nodiscard]] inline auto worker_messages() -> std::vector<WorkerMessage> {
  Report report;
  report.rank = Rank{3};
  report.training_iteration = 12;
  report.time_this_iter_s = 0.25;
  report.time_waiting_s = 0.125;
  report.time_total_s = 3.5;
  report.timestamp_ns = 1'700'000'000'123'456'789;
  report.metrics = {{"loss", 0.1},
                    {"epoch", std::int64_t{-2}},
                    {"done", true},
                    {"host",
                     "n\xC3\xB6"
                     "de"}};
  Report with_checkpoint = report;
  with_checkpoint.checkpoint = CheckpointOrdinal{5};
  with_checkpoint.hands_over = true;
  with_checkpoint.replaces = CheckpointOrdinal{4};
  with_checkpoint.metrics.set("infinite", std::numeric_limits<double>::infinity());

  CheckpointRef reference;
  reference.rank = Rank{1};
  reference.checkpoint = CheckpointOrdinal{5};
  reference.files = {{"model.pt", 940'000, "00112233445566778899aabbccddeeff"}, {"rank_0001/rng", 8, "ff"}};
  reference.metadata = {{"epoch", "4"}, {"model", "mlp"}};
  reference.batch_sizes = {{"train", 64}};
  reference.positions = {{"train", {2, 640}}};
  reference.orders = {{"train", "shuffled"}};

  auto full_disk =
      ErrorInfo{Errc::io, "staging", "no space left", "make room"}.with_origin(Rank{1}, std::string{"zero\0byte", 9});
  CheckpointRef unwritten;
  unwritten.checkpoint = CheckpointOrdinal{6};
  unwritten.failure = full_disk;
  Finished of_second_attempt{Rank{1}, false};
  of_second_attempt.attempt = Attempt{2};
  Finished spent{Rank{1}, true};
  spent.process_is_spent = true;
  Silent silent{Rank{1}, std::chrono::milliseconds{1500}};
  silent.waits = true;
  silent.doing = "it computes";
  Failed lost{ErrorInfo{Errc::worker_failed, "", "process 12 is lost"}.with_origin(Rank{3}, "node-7")};
  lost.process_is_spent = true;

  return {Started{Rank{2}, "node-7", 4711, "10.0.0.7"},
          report,
          with_checkpoint,
          reference,
          CheckpointRef{},
          unwritten,
          Progress{Rank{1}, 640, 60'000, "epoch 3"},
          Warning{Rank{0}, "reference BLAS"},
          Failed{std::move(full_disk)},
          Failed{},
          Finished{Rank{1}, true},
          of_second_attempt,
          spent,
          lost,
          StopRequest{Rank{2}, 1},
          silent,
          Preempted{Rank{2}, Attempt{3}},
          PrintedLine{Rank{0}, "epoch 3"}};
}

/// Messages of every kind that a controller sends, likewise.
[[nodiscard]] inline auto controller_messages() -> std::vector<ControllerMessage> {
  auto const out_of_range = ErrorInfo{Errc::exception, "", "out of range"}.with_origin(Rank{1}, "node-7");
  Ended ended;
  ended.thrown = ErrorInfo{Errc::worker_failed, "training 'fashion'", "rank 1: out of range", "start it again"};
  ended.failures = {out_of_range, ErrorInfo{}};
  ended.state = 6;
  ended.metrics = {{"loss", 0.5}};
  ended.path = "/runs/fashion";
  ended.error = "rank 1: out of range";
  ended.checkpoints = {CheckpointNumber{4}};
  ended.warnings = {"reference BLAS"};
  ended.nothing_left = true;
  ended.timings = {0.5, 1.5, 2.5};
  ended.attempts = {
      {.attempt = Attempt{1}, .world_size = WorldSize{4}, .first_iteration = 3, .last_iteration = 9, .total_s = 1.5},
      {.attempt = Attempt{2},
       .lost_reports = 4,
       .lost_s = 0.25,
       .next_world_size = WorldSize{3},
       .lost_hosts = {"node7"}}};
  ended.attempts[0].failures = {out_of_range};
  ended.attempts[1].preemptions = {out_of_range};
  ended.metadata = {{"note", "second try"}};
  ended.world_size = WorldSize{4};
  ended.has_lost_ranks = true;
  ended.is_shortened = true;

  return {Stop{true},
          Stop{true, Attempt{2}},
          Stop{false, Attempt{2}, true},
          CheckpointSettled{CheckpointOrdinal{5}, CheckpointNumber{8}},
          CheckpointSettled{CheckpointOrdinal{6}, {}},
          Begin{"fashion",
                "/runs/fashion",
                "fashion 2026-01-02T03:04:05Z 01234567",
                3,
                "0badcafe",
                "2026-01-02T03:04:05Z",
                CheckpointNumber{4},
                {"loss", "epoch"},
                {{"note", "second try"}},
                CheckpointOrdinal{7},
                WorldSize{3},
                {{"the seed", "7"}, {"the backend", "'mpi'"}},
                "/proc/12/fd/3",
                5,
                Attempt{2},
                {Rank{1}, Rank{4}},
                1.5},
          Begin{},
          RankReturned{Rank{1}, 7},

          ended,
          Ended{},
          LeftBehind{{Rank{0}, Rank{3}}, "rank 3 does not return"}};
}

}  // namespace raytrain::testing
