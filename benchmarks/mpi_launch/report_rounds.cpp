// SPDX-License-Identifier: Apache-2.0
// A training in which all ranks report once a round: the processor time that rank 0 spends outside its worker's thread,
// and what goes over the lines between ranks. Started by mpirun. Arguments: rounds, idle milliseconds, folder of the
// run. Prints one JSON object; a report that is lost or overtaken ends it with status 1.
#include <time.h>

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/trainer.hpp>

#include "sample.hpp"
#include "sent_bytes.hpp"

namespace {

using namespace raytrain;

auto processor_ns(clockid_t clock) -> std::int64_t {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Of all threads of this process but the calling one.
auto others_ns() -> std::int64_t {
  return processor_ns(CLOCK_PROCESS_CPUTIME_ID) - processor_ns(CLOCK_THREAD_CPUTIME_ID);
}

/// Sees every report, on rank 0.
class Watcher final : public Callback {
 public:
  void on_report(Report const& report, Metrics const&) override {
    if (metrics_cast<Sample>(report.metrics).step != next_[report.rank]++) throw std::runtime_error{"out of order"};
    seen_.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] auto critical() const noexcept -> bool override { return true; }

  [[nodiscard]] auto seen() const noexcept -> std::int64_t { return seen_.load(std::memory_order_acquire); }

 private:
  std::map<Rank, std::int64_t> next_;
  std::atomic<std::int64_t> seen_{0};
};

/// What one rank finds.
struct Figures {
  double controller_us = 0;  ///< A round.
  std::uint64_t report_bytes = 0;
  std::uint64_t idle_bytes = 0;
};

constexpr std::int64_t warm_up = 5;

void rounds(MpiContext& ctx, std::int64_t& step, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    ctx.report(Sample{step++, 0.5, 0.9});
    ctx.barrier();
  }
}

/// Until the controller has handled what all ranks have reported so far.
void wait_handled(MpiContext& ctx, Watcher const& watcher, std::int64_t step) {
  auto const all = static_cast<std::int64_t>(ctx.world_size().value) * step;
  while (ctx.world_rank() == Rank{0} && watcher.seen() < all && !ctx.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  ctx.barrier();
}

void train(MpiContext& ctx, Watcher const& watcher, Figures& figures, std::int64_t count,
           std::chrono::milliseconds idle) {
  std::int64_t step = 0;
  rounds(ctx, step, warm_up);
  wait_handled(ctx, watcher, step);

  auto const before = sent_bytes();
  auto const before_ns = others_ns();
  rounds(ctx, step, count);
  wait_handled(ctx, watcher, step);
  figures.controller_us = static_cast<double>(others_ns() - before_ns) / 1e3 / static_cast<double>(count);
  auto const after = sent_bytes();
  std::this_thread::sleep_for(idle);
  figures.report_bytes = after - before;
  figures.idle_bytes = sent_bytes() - after;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: report_rounds ROUNDS IDLE_MS FOLDER"};
  std::int64_t const count = std::atoi(argv[1]);
  std::chrono::milliseconds const idle{std::atoi(argv[2])};
  auto const watcher = std::make_shared<Watcher>();
  Figures figures;
  Trainer<MpiBackend> trainer{[&](MpiContext& ctx) { train(ctx, *watcher, figures, count, idle); },
                              {.run = {.name = "report_rounds", .storage_path = argv[3]}, .callbacks = {watcher}}};
  auto const result = trainer.fit();

  // By MPI itself, since the training is over.
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto const sent = sent_bytes();
  std::array<std::uint64_t, 3> up{};
  if (rank != 0) up = {figures.report_bytes, figures.idle_bytes, sent};
  std::array<std::uint64_t, 3> all{};
  MPI_Reduce(up.data(), all.data(), static_cast<int>(all.size()), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank != 0) return 0;
  auto const reports = count + warm_up;
  if (result.state != RunState::finished || watcher->seen() != size * reports) {
    throw std::runtime_error{"reports are missing"};
  }
  auto const each = [&](std::uint64_t bytes) { return static_cast<double>(bytes) / (size - 1); };
  std::printf(
      "{\"ranks\": %d, \"reports\": %lld, \"controller_us\": %.3f, \"report_bytes\": %.3f, \"idle_bytes\": %.1f, "
      "\"up_bytes\": %.1f, \"down_bytes\": %.1f}\n",
      size, static_cast<long long>(reports), figures.controller_us, each(all[0]) / static_cast<double>(count),
      each(all[1]), each(all[2]), each(sent));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "report_rounds: %s\n", error.what());
  return 1;
}
