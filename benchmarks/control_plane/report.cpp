// SPDX-License-Identifier: Apache-2.0
// What report() costs a worker while the controller is busy, and how long a report takes to a callback when the
// controller sleeps. Arguments: bursts of reports, single reports, folder for the runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

namespace {

using raytrain::testing::MinimalBackend;

constexpr int burst = 400;  // fits into the line to the controller, so that no report waits for room in it

struct Sample {
  std::int64_t number = 0;
  std::int64_t sent_ns = 0;
  double loss = 0;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(number), CEREAL_NVP(sent_ns), CEREAL_NVP(loss));
  }
};

auto now_ns() -> std::int64_t {
  return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

void spin_for(std::chrono::nanoseconds time) {
  for (auto const end = now_ns() + time.count(); now_ns() < end;) {
  }
}

/// Sees every report: how long it took, and that none is missing and none overtook another.
class Watcher final : public raytrain::Callback {
 public:
  void on_report(raytrain::Report const& report, raytrain::Metrics const&) override {
    auto const sample = raytrain::metrics_cast<Sample>(report.metrics);
    latencies_ns_.push_back(static_cast<double>(now_ns() - sample.sent_ns));
    if (sample.number != next_[report.rank]++) in_order_ = false;
    seen_.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] auto critical() const noexcept -> bool override { return true; }

  [[nodiscard]] auto seen() const noexcept -> std::int64_t { return seen_.load(std::memory_order_acquire); }

  /// Errors: when a report was lost or came out of order.
  [[nodiscard]] auto take_latencies(std::int64_t expected) -> std::vector<double> {
    if (!in_order_ || seen() != expected) {
      throw std::runtime_error{"of " + std::to_string(expected) + " reports " + std::to_string(seen()) + " came, " +
                               (in_order_ ? "in order" : "out of order")};
    }
    return std::move(latencies_ns_);
  }

 private:
  std::vector<double> latencies_ns_;
  std::map<raytrain::Rank, std::int64_t> next_;
  bool in_order_ = true;
  std::atomic<std::int64_t> seen_{0};
};

auto percentile(std::vector<double>& values, double share) -> double {
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class Train>
void fit(std::string const& folder, int workers, std::shared_ptr<Watcher> const& watcher, Train const& train) {
  raytrain::Trainer<MinimalBackend> trainer{
      train,
      {.scaling = {.num_workers = workers},
       .run = {.name = "report", .storage_path = folder, .resume = raytrain::Resume::fresh},
       .callbacks = {watcher}}};
  auto const result = trainer.fit();
  if (static_cast<std::int64_t>(result.all_reports().size()) != watcher->seen()) {
    throw std::runtime_error{"the result holds another number of reports than the callback saw"};
  }
}

/// Nanoseconds of each report() in bursts that keep the controller at work; all workers' together.
auto cost_of_report(int bursts, int workers, std::string const& folder) -> std::vector<double> {
  auto const watcher = std::make_shared<Watcher>();
  std::vector<std::vector<double>> costs(static_cast<std::size_t>(workers));
  fit(folder, workers, watcher, [&](raytrain::TrainContext& ctx) {
    auto& mine = costs[ctx.world_rank().value];
    mine.reserve(static_cast<std::size_t>(bursts * burst));
    std::int64_t number = 0;
    for (int i = 0; i < bursts; ++i) {
      for (int k = 0; k < burst; ++k) {
        auto const start = now_ns();
        ctx.report(Sample{number++, start, 0.5});
        if (k > 0) mine.push_back(static_cast<double>(now_ns() - start));  // the first one wakes the controller
      }
      auto const all = std::int64_t{burst} * workers * (i + 1);
      while (watcher->seen() < all) std::this_thread::yield();
      ctx.barrier();
    }
  });
  (void)watcher->take_latencies(std::int64_t{burst} * bursts * workers);
  for (std::size_t rank = 1; rank < costs.size(); ++rank) {
    costs[0].insert(costs[0].end(), costs[rank].begin(), costs[rank].end());
  }
  return std::move(costs[0]);
}

/// Nanoseconds from report() to on_report when the controller had time to go to sleep.
auto latency_to_sleeping_controller(int reports, std::string const& folder) -> std::vector<double> {
  auto const watcher = std::make_shared<Watcher>();
  fit(folder, 1, watcher, [&](raytrain::TrainContext& ctx) {
    for (std::int64_t number = 0; number < reports; ++number) {
      spin_for(std::chrono::milliseconds{1});
      ctx.report(Sample{number, now_ns(), 0.5});
    }
  });
  return watcher->take_latencies(reports);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: report BURSTS SINGLE FOLDER"};
  auto const bursts = std::atoi(argv[1]);
  auto one = cost_of_report(bursts, 1, argv[3]);
  auto two = cost_of_report(bursts, 2, argv[3]);
  auto latency = latency_to_sleeping_controller(std::atoi(argv[2]), argv[3]);
  std::printf(
      "{\"one_worker_p50_us\": %.3f, \"one_worker_p99_us\": %.3f, \"two_workers_p50_us\": %.3f, "
      "\"two_workers_p99_us\": %.3f, \"latency_p50_us\": %.2f, \"latency_p99_us\": %.2f}\n",
      percentile(one, 0.5) / 1e3, percentile(one, 0.99) / 1e3, percentile(two, 0.5) / 1e3, percentile(two, 0.99) / 1e3,
      percentile(latency, 0.5) / 1e3, percentile(latency, 0.99) / 1e3);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "report: %s\n", error.what());
  return 1;
}
