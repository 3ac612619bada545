// SPDX-License-Identifier: Apache-2.0
// What the program says to whoever runs it, by TrainContext::print and by warnings.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/callback/progress_bar.hpp>

#include "../support/text_files.hpp"
#include "minimal_run.hpp"

namespace {

/// What comes in, in order.
struct Lines : Callback {
  explicit Lines(bool shows) : shows_{shows} {}
  void on_report(Report const& report, Metrics const&) override {
    if (report.rank == Rank{0}) all.push_back("report " + std::to_string(report.training_iteration));
  }
  auto on_print(std::string_view line) -> bool override {
    all.emplace_back(line);
    return shows_;
  }
  auto on_warning(std::string_view text) -> bool override {
    all.emplace_back(text);
    return shows_;
  }
  std::vector<std::string> all;

 private:
  bool shows_;
};

/// What comes out on `stream` meanwhile.
auto output_of(std::FILE* stream, std::function<void()> const& function) -> std::string {
  TemporaryFolder const folder;
  auto const path = folder.path() / "output";
  auto const descriptor = ::fileno(stream);
  std::fflush(stream);
  auto const before = ::dup(descriptor);
  auto const file = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  ::dup2(file, descriptor);
  ::close(file);
  function();
  std::fflush(stream);
  ::dup2(before, descriptor);
  ::close(before);
  return read_text(path);
}

auto stdout_of(std::function<void()> const& function) -> std::string { return output_of(stdout, function); }

void print_and_report(TrainContext& ctx) {
  for (auto epoch = 0; epoch < 3; ++epoch) {
    ctx.print("epoch {} of rank {}, {:.2f}", epoch, ctx.world_rank().value, 0.125);
    ctx.report(Epoch{epoch, 0});
  }
}

auto run_with(Callbacks callbacks, std::function<void(TrainContext&)> const& train, int max_failures = 0) -> Result {
  TemporaryFolder const folder;
  return MinimalTrainer{train,
                        {.scaling = {.num_workers = 2},
                         .run = {.name = "run",
                                 .storage_path = folder.path(),
                                 .failure = {.max_failures = max_failures, .backoff = std::chrono::milliseconds{0}}},
                         .callbacks = std::move(callbacks)}}
      .fit();
}

}  // namespace

TEST_CASE("rank 0's lines come in order with its reports, and those of other ranks do not come") {
  auto const lines = std::make_shared<Lines>(true);
  std::string const out = stdout_of([&] { run_with({lines}, print_and_report); });
  CHECK(lines->all == std::vector<std::string>{"epoch 0 of rank 0, 0.12", "report 1", "epoch 1 of rank 0, 0.12",
                                               "report 2", "epoch 2 of rank 0, 0.12", "report 3"});
  CHECK(out.empty());
}

TEST_CASE("a line goes to stdout where no callback shows it, and nowhere else") {
  auto const expected = "epoch 0 of rank 0, 0.12\nepoch 1 of rank 0, 0.12\nepoch 2 of rank 0, 0.12\n";
  CHECK(stdout_of([] { run_with({}, print_and_report); }) == expected);
  CHECK(stdout_of([] { run_with({std::make_shared<Lines>(false)}, print_and_report); }) == expected);
  auto const both = [] { run_with({std::make_shared<Lines>(true), std::make_shared<Lines>(false)}, print_and_report); };
  CHECK(stdout_of(both).empty());
}

TEST_CASE("a warning goes to stderr where no callback shows it, and nowhere else") {
  auto const run_that_warns = [](Callbacks callbacks) {
    return [=] {
      run_with(callbacks, [](TrainContext& ctx) {
        if (ctx.world_rank() == Rank{0}) ctx.warn("the disk is slow");
        ctx.report(Epoch{});
      });
    };
  };
  std::string const expected = "raytrain: warning: the disk is slow\n";
  CHECK(output_of(stderr, run_that_warns({})) == expected);
  CHECK(output_of(stderr, run_that_warns({std::make_shared<Lines>(false)})) == expected);
  CHECK(output_of(stderr, run_that_warns({std::make_shared<Lines>(true), std::make_shared<Lines>(false)})).empty());
  CHECK(output_of(stdout, run_that_warns({})).empty());
}

TEST_CASE("of any number of warnings stderr has the first ones, as a result does") {
  Result result;
  auto const out = output_of(stderr, [&] {
    result = run_with({}, [](TrainContext& ctx) {
      for (int i = 0; i < 6000; ++i) ctx.warn("careful");
    });
  });
  CHECK(std::ranges::count(out, '\n') == 10'000);
  REQUIRE(result.warnings.size() == 10'001);
  CHECK(result.warnings.back() == "and 2000 more warnings");
}

TEST_CASE("above a progress bar a line is whole, and the bar is drawn again below it") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "out";
  auto* const file = std::fopen(path.c_str(), "w");
  auto const bar = std::make_shared<ProgressBar>(ProgressBarOptions{.out = file, .terminal = true});
  CHECK(stdout_of([&] {
          run_with({bar}, [](TrainContext& ctx) {
            if (ctx.world_rank() == Rank{0}) ctx.progress(10, 10, "half way");
            ctx.print("a line");
            ctx.report(Epoch{});
          });
        }).empty());
  std::fclose(file);
  auto const written = read_text(path);
  auto const line = written.find("\r\x1b[Ka line\n");
  REQUIRE(line != std::string::npos);
  CHECK(written.find("half way", line) != std::string::npos);
}

TEST_CASE("what was printed before a failure comes, and no warning is made of it") {
  auto const lines = std::make_shared<Lines>(true);
  auto const result = run_with(
      {lines},
      [](TrainContext& ctx) {
        ctx.print("attempt {}", ctx.attempt().value);
        ctx.barrier();
        if (ctx.attempt() == Attempt{1}) throw std::runtime_error{"once"};
        ctx.report(Epoch{});
      },
      1);
  CHECK(lines->all == std::vector<std::string>{"attempt 1", "attempt 2", "report 1"});
  CHECK(result.warnings.empty());
}

TEST_CASE("a callback that throws at a line is warned of, and the line goes to stdout") {
  struct Throws : Callback {
    auto on_print(std::string_view) -> bool override { throw std::runtime_error{"no paper"}; }
  };
  Result result;
  auto const out = stdout_of([&] {
    result = run_with({std::make_shared<Throws>()}, [](TrainContext& ctx) {
      ctx.print("a line");
      ctx.report(Epoch{});
    });
  });
  CHECK(out == "a line\n");
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], "on_print: ");
  contains(result.warnings[0], "no paper");
}
