// SPDX-License-Identifier: Apache-2.0
// How runs end that go wrong: never with a hang, never as a success, and never without the cause.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/run_record.hpp>

#include "../support/child_process.hpp"
#include "../support/text_files.hpp"
#include "minimal_run.hpp"

namespace {

auto config_in(TemporaryFolder const& folder) -> MinimalConfig {
  return {.scaling = {.num_workers = 2},
          .run = {.name = "r", .storage_path = folder.path(), .stop_grace = std::chrono::milliseconds{1}}};
}

void ask_whether_to_stop(TrainContext& ctx) {
  while (!ctx.stop_requested()) std::this_thread::yield();
}

// A callback that cannot be told, and one that keeps what it is told.
struct Deaf : Callback {
  auto on_warning(std::string_view) -> bool override { throw std::runtime_error{"no terminal"}; }
};
struct Listener : Callback {
  void on_start(RunInfo const& info) override {
    if (stops_at_start) info.request_stop();
  }
  auto on_warning(std::string_view text) -> bool override {
    heard.emplace_back(text);
    return true;
  }
  void on_finish(Result const&) override { finished = true; }
  bool stops_at_start = false;
  bool finished = false;
  std::vector<std::string> heard;
};
struct Refusing : Callback {
  void on_start(RunInfo const&) override { throw std::runtime_error{"no server"}; }
  [[nodiscard]] auto critical() const noexcept -> bool override { return true; }
};

}  // namespace

TEST_CASE("workers that ask whether to stop, without any collective, are told when the grace is over") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{0}) std::raise(SIGTERM);
                           ask_whether_to_stop(ctx);
                         },
                         config_in(folder)};
  CHECK(trainer.fit().state == RunState::aborted);
}

TEST_CASE("workers that ask whether to stop, without any collective, are told that another one has failed") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{1}) throw std::runtime_error{"the cause"};
                           ask_whether_to_stop(ctx);
                         },
                         config_in(folder)};
  contains(message_of([&] { trainer.fit(); }), "the cause");
}

TEST_CASE("a run whose workers wait in vain for another one ends after its limit and names that one") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.collective_timeout = std::chrono::milliseconds{50};
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{1}) return ask_whether_to_stop(ctx);
                           ctx.barrier();
                         },
                         std::move(config)};
  contains(message_of([&] { trainer.fit(); }), "barrier() on rank 0: rank 1 has not come within 50 ms");
}

TEST_CASE("with CheckpointMode::sync a checkpoint that one rank alone reports is an error, not a hang") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{0}) ctx.report(Epoch{}, draft("x"));
                           float value = 0;
                           ctx.collective().all_reduce(std::span{&value, 1}, ReduceOp::sum);
                         },
                         config};
  contains(message_of([&] { trainer.fit(); }), "call report with a checkpoint equally often on every rank");
}

TEST_CASE("a record that cannot be written at the end hides no cause, and callbacks see the end") {
  TemporaryFolder const folder;
  auto const listener = std::make_shared<Listener>();
  auto config = config_in(folder);
  config.callbacks = {listener};
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.barrier();
                           if (ctx.world_rank() == Rank{0}) return;
                           std::filesystem::remove_all(ctx.run_path());
                           throw std::runtime_error{"the cause"};
                         },
                         config};
  auto const text = message_of([&] { trainer.fit(); });
  contains(text, "the cause");
  contains(text, "its folder was moved, removed or replaced");
  CHECK(listener->finished);
}

TEST_CASE("a run whose record cannot be written at the end has not succeeded") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.barrier();
                           if (ctx.world_rank() == Rank{0}) std::filesystem::remove_all(ctx.run_path());
                         },
                         config_in(folder)};
  CHECK_THROWS_AS(trainer.fit(), TrainingFailed);
}

TEST_CASE("a training function that swallows the stop has not finished") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{0}) std::raise(SIGTERM);
                           try {
                             while (true) ctx.barrier();
                           } catch (std::exception const&) {
                           }
                         },
                         config_in(folder)};
  CHECK(trainer.fit().state == RunState::aborted);
}

TEST_CASE("reports from before are kept when the record was lost and the run goes on") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(3), config_in(folder)}.fit();
  std::filesystem::remove(folder.path() / "r/run.json");
  auto const result = MinimalTrainer{epochs_up_to(3), config_in(folder)}.fit();
  CHECK(result.all_reports().size() == 6);
  CHECK(result.metrics.number("epoch") == 2);
}

TEST_CASE("a line of progress.jsonl with numbers that no report has is left out") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(1), config_in(folder)}.fit();
  auto const path = folder.path() / "r/progress.jsonl";
  std::string line;
  std::getline(std::ifstream{path} >> std::ws, line);
  for (std::string const name : {"world_rank", "training_iteration", "timestamp"}) {
    auto const begin = line.find("\"" + name + "\": ") + name.size() + 4;
    auto changed = line;
    changed.replace(begin, line.find_first_of(",}", begin) - begin, "9.5e18");
    std::ofstream{path, std::ios::app} << changed << "\n";
  }
  CHECK(Result::from_path(folder.path() / "r").all_reports().size() == 2);
}

TEST_CASE("reports that are gone from progress.jsonl are told of, and a line that a crash cut short is not") {
  TemporaryFolder const folder;
  auto const progress = folder.path() / "r/progress.jsonl";
  auto const warnings_with = [&](std::string const& text) {
    std::ofstream{progress} << text;
    return MinimalTrainer{epochs_up_to(1), config_in(folder)}.fit().warnings;
  };
  MinimalTrainer{epochs_up_to(1), config_in(folder)}.fit();
  std::ostringstream whole;
  whole << std::ifstream{progress}.rdbuf();
  CHECK(warnings_with(whole.str() + "{\"epoch\": 1, \"lo").empty());
  auto warnings = warnings_with("");
  REQUIRE(warnings.size() == 1);
  contains(warnings[0], "Result::history is incomplete: in " + progress.string() +
                            " are 0 of the 2 reports until the checkpoint; it was removed or changed");
  auto const first_line = whole.str().substr(0, whole.str().find('\n') + 1);
  warnings = warnings_with(first_line);  // of one rank, whichever came first
  REQUIRE(warnings.size() == 1);
  contains(warnings[0], " are 1 of the 2 reports until the checkpoint; it was removed or changed");
  warnings = warnings_with("{\"epoch\": 0, \"loss\"; 1.0}\n" + whole.str() + "\x01\n");
  REQUIRE(warnings.size() == 1);
  contains(warnings[0], " are 2 damaged lines; it was");
  std::filesystem::remove(progress);
  REQUIRE(::mkfifo(progress.c_str(), 0666) == 0);
  contains(message_of([&] { MinimalTrainer{epochs_up_to(1), config_in(folder)}.fit(); }), "it is not a regular file");
}

TEST_CASE("a state is copied once the one before is written, so that one copy is held") {
  TemporaryFolder const folder;
  std::weak_ptr<Bytes const> before;
  auto held = 0;
  auto const large = [&](CheckpointDraft& part) {
    held += before.expired() ? 0 : 1;
    auto const state = std::make_shared<Bytes const>(std::size_t{32} << 20U);
    part.add("state", CheckpointDraft::Content{*state, state});
    before = state;
  };
  auto config = config_in(folder);
  config.scaling.num_workers = 1;
  MinimalTrainer{[&](TrainContext& ctx) {
                   for (auto epoch = 0; epoch < 4; ++epoch)
                     ctx.report(Epoch{epoch}, CheckpointDraft::replicated(large));
                 },
                 config}
      .fit();
  CHECK(held == 0);
}

TEST_CASE("a damaged checkpoint takes no place of those that are kept, and is not offered") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.checkpoint.num_to_keep = 2;
  MinimalTrainer{epochs_up_to(4), config}.fit();
  std::ofstream{folder.path() / "r/checkpoints/checkpoint_000004/state.txt"} << "ruined";
  auto const result = MinimalTrainer{epochs_up_to(4), config}.fit();
  std::vector<std::uint64_t> numbers;
  for (auto const& checkpoint : result.checkpoints) numbers.push_back(checkpoint.number().value);
  CHECK(numbers == std::vector<std::uint64_t>{3, 5});
}

TEST_CASE("a checkpoint that one start has found damaged is none to the starts after it, the best one or not") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.checkpoint = {.num_to_keep = 2, .score_attribute = "loss", .score_order = ScoreOrder::min};
  auto const train = [&](int epochs, double loss) {
    return MinimalTrainer{[=](TrainContext& ctx) {
                            auto const first = ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0;
                            for (auto epoch = first; epoch < epochs; ++epoch) {
                              ctx.report(Epoch{epoch, loss}, ctx.world_rank() == Rank{0} ? draft(std::to_string(epoch))
                                                                                         : CheckpointDraft{});
                            }
                          },
                          config}
        .fit();
  };
  train(3, 0.1);
  std::ofstream{folder.path() / "r/checkpoints/checkpoint_000003/state.txt"} << "ruined";
  train(3, 0.5);
  auto const result = train(5, 0.4);
  for (auto const& of : {result, Result::from_path(result.path)}) {
    for (auto const& checkpoint : of.checkpoints) CHECK(checkpoint.number().value != 3);
    CHECK(of.best_checkpoint("loss", ScoreOrder::min)->number().value == 2);
    CHECK(of.checkpoint()->number().value == 6);
  }
  CHECK(std::filesystem::exists(folder.path() / "r/checkpoints/checkpoint_000003"));
}

TEST_CASE("damaged checkpoints that somebody brings back are whole again, also those behind the newest") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(4), config_in(folder)}.fit();
  auto const checkpoints = folder.path() / "r/checkpoints";
  for (auto const* const name : {"checkpoint_000003", "checkpoint_000004"}) {
    std::filesystem::copy(checkpoints / name, folder.path() / name);
    std::ofstream{checkpoints / name / "state.txt"} << "ruined";
  }
  auto const without = MinimalTrainer{epochs_up_to(2), config_in(folder)}.fit();
  CHECK(without.checkpoints.size() == 2);
  CHECK(read_run_record(folder.path() / "r").damaged == std::vector<std::uint64_t>{3, 4});
  for (auto const* const name : {"checkpoint_000003", "checkpoint_000004"}) {
    std::filesystem::remove_all(checkpoints / name);
    std::filesystem::copy(folder.path() / name, checkpoints / name);
  }
  auto const result = MinimalTrainer{epochs_up_to(4), config_in(folder)}.fit();
  for (auto const& of : {result, Result::from_path(result.path)}) {
    CHECK(of.checkpoints.size() == 4);
    CHECK(of.checkpoint()->number().value == 4);
  }
}

TEST_CASE("a new checkpoint that gets the number of a damaged one that was removed is whole") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(3), config_in(folder)}.fit();
  auto const damaged = folder.path() / "r/checkpoints/checkpoint_000003";
  std::ofstream{damaged / "state.txt"} << "ruined";
  auto const train = [&](TrainContext& ctx) {
    if (ctx.world_rank() == Rank{0}) std::filesystem::remove_all(damaged);
    epochs_up_to(3)(ctx);
  };
  CHECK(MinimalTrainer{train, config_in(folder)}.fit().checkpoint()->number().value == 3);
  CHECK(Result::from_path(folder.path() / "r").checkpoint()->number().value == 3);
}

TEST_CASE("a run whose checkpoints are all gone or damaged does not begin anew until it is told to") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  MinimalTrainer{epochs_up_to(1), config}.fit();
  auto const checkpoint = folder.path() / "r/checkpoints/checkpoint_000001";
  std::ofstream{checkpoint / "state.txt"} << "ruined";
  contains(message_of([&] { MinimalTrainer{epochs_up_to(2), config}.fit(); }), "there are 1, and each is damaged");
  std::filesystem::remove_all(checkpoint);
  contains(message_of([&] { MinimalTrainer{epochs_up_to(2), config}.fit(); }), "it had checkpoints by its run.json");
  config.run.resume = Resume::fresh;
  CHECK(MinimalTrainer{epochs_up_to(2), config}.fit().checkpoint()->number().value == 2);
}

TEST_CASE("a critical callback that refuses at the start keeps every worker from starting") {
  TemporaryFolder const folder;
  std::atomic<int> started{0};
  auto config = config_in(folder);
  config.callbacks = {std::make_shared<Refusing>()};
  MinimalTrainer trainer{[&](TrainContext&) { ++started; }, config};
  contains(message_of([&] { trainer.fit(); }), "no server");
  CHECK(started == 0);
}

TEST_CASE("a callback that asks for a stop at the start keeps every worker from starting") {
  TemporaryFolder const folder;
  std::atomic<int> started{0};
  auto const listener = std::make_shared<Listener>();
  listener->stops_at_start = true;
  auto config = config_in(folder);
  config.callbacks = {listener};
  CHECK(MinimalTrainer{[&](TrainContext&) { ++started; }, config}.fit().state == RunState::aborted);
  CHECK(started == 0);
}

TEST_CASE("a callback that is a null pointer is refused before anything is created") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.callbacks = {nullptr};
  contains(message_of([&] { MinimalTrainer{epochs_up_to(1), config}; }), "must not hold a null pointer");
  CHECK_FALSE(std::filesystem::exists(folder.path() / "r"));
}

TEST_CASE("a grace of the longest time that there is does not end at once") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.stop_grace = std::chrono::milliseconds::max();
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{0}) std::raise(SIGTERM);
                           while (!ctx.stop_requested()) ctx.barrier();
                           for (int i = 0; i < 1000; ++i) ctx.barrier();  // throws Stopped when the grace is over
                           ctx.warn("had its time");
                         },
                         config};
  auto const result = trainer.fit();
  CHECK(std::ranges::count(result.warnings, "had its time") == 2);
}

TEST_CASE("a warning reaches every callback as it was said, although one of them throws") {
  TemporaryFolder const folder;
  auto const listener = std::make_shared<Listener>();
  auto config = config_in(folder);
  config.callbacks = {std::make_shared<Deaf>(), listener};
  MinimalTrainer{[](TrainContext& ctx) {
                   if (ctx.world_rank() == Rank{0}) ctx.warn("it is hot");
                 },
                 config}
      .fit();
  CHECK(listener->heard == std::vector<std::string>{"it is hot"});
}

TEST_CASE("a checkpoint that cannot be deleted at the very end is warned of") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.scaling.num_workers = 1;
  config.run.checkpoint = {.num_to_keep = 1, .mode = CheckpointMode::sync};
  auto const result = MinimalTrainer{[](TrainContext& ctx) {
                                       ctx.report(Epoch{0, 0}, draft("a"));
                                       std::filesystem::remove_all(ctx.run_path() / "checkpoints/checkpoint_000001");
                                       ctx.report(Epoch{1, 0}, draft("b"));
                                     },
                                     config}
                          .fit();
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings.front(), "checkpoint_000001");
}

TEST_CASE("callbacks have read a checkpoint before a worker that waited for it goes on and may remove it") {
  TemporaryFolder const folder;
  struct Reader : Callback {
    void on_checkpoint(Checkpoint const& checkpoint) override { seen = checkpoint.number().value; }
    std::atomic<std::uint64_t> seen{0};
  };
  auto const reader = std::make_shared<Reader>();
  auto config = config_in(folder);
  config.scaling.num_workers = 1;
  config.run.checkpoint = {.num_to_keep = 1, .mode = CheckpointMode::sync};
  config.callbacks = {reader};
  MinimalTrainer{[&](TrainContext& ctx) {
                   for (int epoch = 0; epoch < 50; ++epoch) {
                     ctx.report(Epoch{epoch, 0}, draft("a"));
                     CHECK(reader->seen == static_cast<std::uint64_t>(epoch) + 1);
                   }
                 },
                 config}
      .fit();
}

TEST_CASE("progress without a total is not sent more often than other progress") {
  TemporaryFolder const folder;
  struct Counter : Callback {
    void on_progress(Progress const&) override { ++count; }
    int count = 0;
  };
  auto const counter = std::make_shared<Counter>();
  auto config = config_in(folder);
  config.callbacks = {counter};
  MinimalTrainer{[](TrainContext& ctx) {
                   for (std::uint64_t i = 0; i < 1000; ++i) ctx.progress(i, 0);
                 },
                 config}
      .fit();
  CHECK(counter->count < 500);
}

TEST_CASE("a run whose folder was moved fails, and commits no checkpoint where another start trains now") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.scaling.num_workers = 1;
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{[&](TrainContext& ctx) {
                           ctx.report(Epoch{0, 0}, draft("mine"));
                           std::filesystem::rename(ctx.run_path(), folder.path() / "elsewhere");
                           auto other = config_in(folder);
                           other.run.checkpoint.mode = CheckpointMode::sync;
                           CHECK(MinimalTrainer{epochs_up_to(1), other}.fit().state == RunState::finished);
                           for (auto epoch = 1;; ++epoch) ctx.report(Epoch{epoch, 0}, draft("mine"));
                         },
                         config};
  contains(message_of([&] { trainer.fit(); }), "its folder was moved, removed or replaced");
  auto const other = Result::from_path(folder.path() / "r");
  CHECK(other.state == RunState::finished);
  REQUIRE(other.checkpoints.size() == 1);
  CHECK(text_in(other.checkpoints.front()) == "0");
  CHECK(Result::from_path(folder.path() / "elsewhere").checkpoints.size() == 1);
}

TEST_CASE("a run whose folder was moved names no checkpoint as its own, and says nothing of those that went with it") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  config.run.checkpoint.mode = CheckpointMode::sync;
  config.scaling.num_workers = 1;
  for (auto const replaced : {false, true}) {
    CAPTURE(replaced);
    MinimalTrainer trainer{[&](TrainContext& ctx) {
                             ctx.report(Epoch{0, 0}, draft("mine"));
                             auto const away = folder.path() / (replaced ? "away" : "elsewhere");
                             std::filesystem::rename(ctx.run_path(), away);
                             if (replaced) {
                               std::filesystem::copy(away, ctx.run_path(), std::filesystem::copy_options::recursive);
                             }
                             for (auto epoch = 1;; ++epoch) ctx.report(Epoch{epoch, 0}, draft("mine"));
                           },
                           config};
    try {
      trainer.fit();
      FAIL("it has not failed");
    } catch (TrainingFailed const& failed) {
      CHECK(failed.result().checkpoints.empty());
      contains(failed.what(), "; it has left no checkpoint in " + (folder.path() / "r").string());
    }
    std::filesystem::remove_all(folder.path() / "r");
  }
}

TEST_CASE("a run whose progress.jsonl was removed or cut while it trained fails, and says which file it was") {
  for (auto const cut : {false, true}) {
    CAPTURE(cut);
    TemporaryFolder const folder;
    auto config = config_in(folder);
    config.scaling.num_workers = 1;
    MinimalTrainer trainer{[&](TrainContext& ctx) {
                             ctx.report(Epoch{0, 0});
                             auto const file = ctx.run_path() / "progress.jsonl";
                             while (std::filesystem::file_size(file) == 0) std::this_thread::yield();
                             cut ? std::filesystem::resize_file(file, 0) : void(std::filesystem::remove(file));
                           },
                           config};
    contains(message_of([&] { trainer.fit(); }),
             "progress.jsonl: it was removed, replaced or cut while lines were added");
  }
}

TEST_CASE("what a program prints whose stdout was closed goes into no file of the run") {
  TemporaryFolder const folder;
  auto const outcome = in_child([&] {
    for (auto const stream : {STDIN_FILENO, STDOUT_FILENO}) ::close(stream);
    MinimalTrainer{[](TrainContext&) {
                     std::printf("step 1\n");
                     std::fflush(stdout);
                   },
                   config_in(folder)}
        .fit();
    return std::string{};
  });
  CHECK(outcome.exit_code == 0);
  for (std::string const name : {".lock", "run.json", "progress.jsonl"}) {
    auto const text = read_text(folder.path() / "r" / name);
    CAPTURE(name);
    CHECK(text.find("step 1") == std::string::npos);
  }
}

TEST_CASE("a start deletes the checkpoints that one before it left beyond num_to_keep") {
  TemporaryFolder const folder;
  auto config = config_in(folder);
  CHECK(MinimalTrainer{epochs_up_to(4), config}.fit().checkpoints.size() == 4);
  config.run.checkpoint.num_to_keep = 1;
  auto const again = MinimalTrainer{epochs_up_to(4), config}.fit();
  CHECK(again.nothing_left);
  REQUIRE(again.checkpoints.size() == 1);
  CHECK(text_in(again.checkpoints.front()) == "3");
}

TEST_CASE("a cause that several ranks give is said once, with all of them") {
  auto const failure = [](std::optional<Rank> rank, std::string const& host, std::string const& text) {
    return ErrorInfo{Errc::exception, {}, text}.with_origin(rank, host);
  };
  CHECK(TrainingFailed::describe({failure(Rank{0}, "alpha", "the sizes differ"),
                                  failure(Rank{2}, "beta", "the sizes differ"), failure(Rank{1}, {}, "out of range"),
                                  failure(Rank{0}, "alpha", "the sizes differ")}) ==
        "rank 0 on alpha, rank 2 on beta: the sizes differ; rank 1: out of range");
  CHECK(TrainingFailed::describe({failure({}, "alpha", "no space left"), failure({}, {}, "no server")}) ==
        "the controller on alpha: no space left; the controller: no server");
}

TEST_CASE("an exception without a text is told by its type, and a text of any length is shortened and says so") {
  struct Textless : std::exception {
    [[nodiscard]] auto what() const noexcept -> char const* override { return nullptr; }
  };
  auto const failing_by = [](std::function<void()> const& fails) {
    TemporaryFolder const folder;
    MinimalTrainer trainer{[fails](TrainContext& ctx) {
                             if (ctx.world_rank() == Rank{1}) fails();
                           },
                           config_in(folder)};
    return message_of([&] { trainer.fit(); });
  };
  contains(failing_by([] { throw Textless{}; }), "an exception without text, of type ");
  contains(failing_by([] { throw Textless{}; }), "Textless");
  contains(failing_by([] { throw std::runtime_error{""}; }), "an exception without text, of type std::runtime_error");
  contains(failing_by([] { throw static_cast<char const*>(nullptr); }), "a null pointer to a text");
  auto const text = failing_by([] { throw std::runtime_error{std::string(50'000'000, 'x')}; });
  CHECK(text.size() < 100'000);
  contains(text, "x ... (49934464 bytes more)");
}

TEST_CASE("on_finish sees the warnings of the run, and a stop that comes at a failed run's end is one of its result") {
  struct AtEnd : Callback {
    void on_finish(Result const& result) override {
      warnings = result.warnings;
      std::raise(SIGTERM);
    }
    std::vector<std::string> warnings;
  };
  TemporaryFolder const folder;
  auto config = config_in(folder);
  auto const at_end = std::make_shared<AtEnd>();
  config.callbacks = {at_end};
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.warn("careful");
                           throw std::runtime_error{"the cause"};
                         },
                         config};
  try {
    trainer.fit();
    FAIL("did not throw");
  } catch (TrainingFailed const& failed) {
    auto const& warnings = failed.result().warnings;
    REQUIRE_FALSE(warnings.empty());
    contains(warnings.back(), "a stop was requested when every worker had returned");
    CHECK(std::ranges::count(at_end->warnings, "careful") > 0);
    CHECK(at_end->warnings.size() + 1 == warnings.size());
  }
}

TEST_CASE("a training function that throws Stopped although nobody has asked for a stop is warned of") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext&) { throw Stopped{}; }, config_in(folder)};
  auto const result = trainer.fit();
  CHECK(result.state == RunState::aborted);
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], " has thrown Stopped, though nobody had asked for a stop");
}
