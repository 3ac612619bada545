// SPDX-License-Identifier: Apache-2.0
// A training that ranks.py starts by mpirun, or on threads, and that goes wrong where it is told to:
//   ranks_program STORAGE [WHAT [WORKERS [RANK [MAX_FAILURES]]]]
#include <pthread.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/callback/json_lines.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

using namespace raytrain;

namespace {

constexpr int epochs = 6;

struct Epoch {
  int epoch = 0;
  float sum = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(sum));
  }
};

// One line at a time, since the ranks share what they write to.
void say(std::ostringstream const& line) { std::cout << line.str() + "\n" << std::flush; }

// As where the limit on processes is reached: from now on no thread can be made, whose stack would take all addresses.
void refuse_threads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{1} << 47U);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

class CountStarts : public Callback {
 public:
  explicit CountStarts(std::string what) : what_{std::move(what)} {}

  void on_start(RunInfo const& info) override {
    if (what_ == "no_thread") refuse_threads();
    if (what_ == "stop_at_once") info.request_stop();
    if (what_ == "crash_when_finished") finish_early_ = info.finish_early;
    std::ostringstream line;
    line << "callback in process " << getpid();
    say(line);
  }
  void on_restart(AttemptInfo const& failed, std::optional<Checkpoint> const&) override {
    std::ostringstream line;
    line << "restart without";
    for (auto const& host : failed.lost_hosts) line << ' ' << host;
    say(line);
  }
  void on_report(Report const&, Metrics const&) override {
    if (++reports_ == 900) std::cout << "900 reports\n" << std::flush;
  }
  auto on_warning(std::string_view text) -> bool override {
    if (finish_early_ && text == "rank 1 waits") finish_early_();
    std::ostringstream line;
    if (text.size() > 1000) return true;
    line << "warning: " << text;
    say(line);
    return true;
  }

 private:
  std::string what_;
  std::function<void()> finish_early_;
  int reports_ = 0;
};

// Sums whose bits depend on the order in which the ranks are added.
auto step(TrainContext& ctx, std::vector<float>& values) -> float {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = values[i] * 0.9F + 1.0F / static_cast<float>(3 * i + 7 * ctx.world_rank().value + 1);
  }
  ctx.collective().all_reduce(std::span<float>{values}, ReduceOp::average);
  float sum = 0;
  for (auto const value : values) sum += value;
  return sum;
}

[[noreturn]] void wait_outside_of_raytrain() {
  while (true) ::pause();
}

// A process that only forks, as a data loader does, and a program that has left its parent and its session.
void start_family() {
  auto const loader = ::fork();
  if (loader == 0) {
    for (auto const stream : {STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
    wait_outside_of_raytrain();
  }
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  if (auto const parent = ::fork(); parent == 0) {
    ::setsid();
    auto const orphan = ::fork();
    if (orphan == 0) ::execlp("sh", "sh", "-c", "exec sleep 300 >/dev/null 2>&1", nullptr);
    if (::write(ends[1], &orphan, sizeof orphan) != sizeof orphan) std::abort();
    ::_exit(0);
  } else {
    ::waitpid(parent, nullptr, 0);
  }
  ::pid_t orphan = 0;
  if (::read(ends[0], &orphan, sizeof orphan) != sizeof orphan) std::abort();
  for (auto const process : {loader, orphan}) {
    std::ostringstream line;
    line << "rank 1 has started process " << process;
    say(line);
  }
}

void go_wrong(TrainContext& ctx, std::string what, int epoch) {
  if (what == "abort_always" && epoch == 3 && ctx.world_rank() == Rank{1}) std::abort();
  if (epoch != 3 || ctx.world_rank() != (what == "hang_first" ? Rank{0} : Rank{1}) || ctx.checkpoint()) return;
  if (auto const family = what.find("_family"); family != std::string::npos) {
    start_family();
    what.resize(family);
  }
  if (what == "long_error") throw std::runtime_error{std::string(50'000'000, 'x')};
  for (int i = 0; what == "warnings" && i < 9'000; ++i) ctx.warn(std::string(2'500, 'w'));
  if (what == "throw") throw std::runtime_error{"as planned"};
  if (what == "full_disk") throw Error{Errc::io, "write 'model'", "No space left on device", "make room"};
  if (what == "kill" || what == "slow_start") std::raise(SIGKILL);
  if (what == "wait_to_be_killed") {
    ctx.warn("rank 1 waits");  // behind its reports
    wait_outside_of_raytrain();
  }
  if (what == "abort") std::abort();
  if (what == "exit") std::exit(0);
  if (what == "quick_exit") std::quick_exit(0);
  if (what == "_exit") ::_exit(0);
  if (what == "signal") ::kill(::getpid(), SIGTERM);
  if (what == "compute_alone") say(std::ostringstream{"rank 1 computes"});
  if (what == "hang" || what == "hang_first" || what == "endless" || what == "compute_alone") {
    wait_outside_of_raytrain();
  }
}

// What children of a worker do must not be taken for the worker's doing; true in one that is to return.
auto fork_children(TrainContext& ctx, std::string const& what, int epoch) -> bool {
  if (what != "fork" || epoch != 3 || ctx.world_rank() != Rank{1}) return false;
  int status = 0;
  auto const stopped = ::fork();
  if (stopped == 0) wait_outside_of_raytrain();
  ::kill(stopped, SIGTERM);
  ::waitpid(stopped, &status, 0);
  std::ostringstream line;
  line << "stopped child: " << (WIFSIGNALED(status) ? WTERMSIG(status) : -1);
  auto const returning = ::fork();
  if (returning == 0) return true;
  ::waitpid(returning, &status, 0);
  line << ", returning child: " << (WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  auto const exiting = ::fork();
  if (exiting == 0) std::exit(3);
  ::waitpid(exiting, &status, 0);
  line << ", exiting child: " << (WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  say(line);
  if (auto const child = ::fork(); child != 0) return false;
  std::ostringstream lasting;
  try {
    ctx.report(Epoch{});
  } catch (Error const& error) {
    lasting << "lasting child " << ::getpid() << ": " << error.what();
  }
  say(lasting);
  for (auto const stream : {STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
  wait_outside_of_raytrain();
}

// On each rank, so that the program is to be ended although every worker computes.
void compute(TrainContext const& ctx, std::string const& what, int epoch) {
  if (what != "compute" || epoch != 3 || ctx.checkpoint()) return;
  std::ostringstream line;
  line << "rank " << ctx.world_rank().value << " computes";
  say(line);
  wait_outside_of_raytrain();
}

// Rank 1 crashes when all have been told to stop.
void crash_when_told(TrainContext& ctx, std::string const& what, int epoch) {
  if (what != "crash_when_finished" || epoch != 1) return;
  if (ctx.world_rank() == Rank{1}) ctx.warn("rank 1 waits");
  while (!ctx.stop_requested()) ctx.collective().barrier();
  if (ctx.world_rank() == Rank{1}) std::raise(SIGKILL);
}

// One rank asks for a stop and comes to its report when it has been told, while the others, which were not told before
// theirs, wait for it in the next step.
void report_when_told(TrainContext& ctx, std::string const& what, int epoch) {
  auto const late = what == "told_on_first_host" ? Rank{0} : Rank{2};
  if (!what.starts_with("told_on") || epoch != 3 || ctx.world_rank() != late || ctx.checkpoint()) return;
  ::kill(::getpid(), SIGTERM);
  try {
    while (true) ctx.report(Epoch{epoch});
  } catch (Stopped const&) {  // so it has been told
  }
}

// The ranks of a first start wait for a stop, and each says that it was told.
auto stopped_by_others(TrainContext& ctx, std::string const& what, int epoch) -> bool {
  if (!what.starts_with("wait") || epoch != 3 || ctx.checkpoint()) return false;
  std::ostringstream waits;
  waits << "rank " << ctx.world_rank().value << " waits";
  say(waits);
  while (!ctx.stop_requested()) ctx.collective().barrier();
  std::ostringstream stops;
  stops << "rank " << ctx.world_rank().value << " stops";
  say(stops);
  return true;
}

auto variable(char const* name) -> std::string {
  auto const* const value = std::getenv(name);
  return value == nullptr ? "none" : value;
}

// Before main, as libraries look at theirs.
std::string const loaded_with = variable("TEST_LIBRARY");

auto trained(std::string const& what) {
  return [what](TrainContext& ctx) {
    std::ostringstream line;
    line << "rank " << ctx.world_rank().value << " of " << ctx.world_size().value << ", local "
         << ctx.local_rank().value << " of " << ctx.local_world_size().value << ", node " << ctx.node_rank().value
         << ", process " << getpid();
    say(line);
    if (what == "metadata") {
      std::ostringstream said;
      said << "metadata " << ctx.metadata().at("process");
      say(said);
    }
    if (what == "env") {
      std::ostringstream said;
      std::ifstream command{"/proc/" + std::to_string(::getppid()) + "/cmdline", std::ios::binary};
      std::string const words{std::istreambuf_iterator<char>{command}, {}};
      said << "env " << loaded_with << ", " << variable("TEST_TEXT") << ", " << variable("HOME") << ", "
           << (words.find("/of/workers") == std::string::npos ? "hidden" : "shown");
      say(said);
    }
    if (what == "environment") {
      std::ostringstream said;
      said << "environment";
      for (auto const* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
        said << ' ' << variable(name);
      }
      say(said);
    }
    if (ctx.begins_from_other_run()) {
      std::ostringstream begins;
      begins << "begins after epoch " << *ctx.checkpoint()->metrics().number("epoch") << ", with epoch "
             << ctx.first_epoch();
      say(begins);
    }
    std::vector<float> values(1000);
    int first = 0;
    if (ctx.checkpoint()) {
      auto const bytes = ctx.checkpoint()->read("values");
      std::memcpy(values.data(), bytes.data(), bytes.size());
      first = static_cast<int>(*ctx.checkpoint()->metrics().number("epoch")) + 1;
    }
    // A run that is told to stop has no end of its own.
    for (int epoch = first; epoch < (what == "signal" ? 1'000'000 : epochs); ++epoch) {
      auto const sum = step(ctx, values);
      go_wrong(ctx, what, epoch);
      compute(ctx, what, epoch);
      crash_when_told(ctx, what, epoch);
      report_when_told(ctx, what, epoch);
      if (fork_children(ctx, what, epoch)) return;
      if (stopped_by_others(ctx, what, epoch)) return;
      if (what == "return" && epoch == 3 && ctx.world_rank() == Rank{1}) return;
      if (what == "print") ctx.print("printed in epoch {} by rank {}", epoch, ctx.world_rank().value);
      ctx.report(Epoch{epoch, sum}, CheckpointDraft::replicated([&](CheckpointDraft& draft) {
                   auto const bytes = std::as_bytes(std::span{values});
                   draft.add("values", Bytes{bytes.begin(), bytes.end()});
                 }));
    }
    (void)ctx.all_gather(std::string{"all are here"});
    if (what == "unflushed") {
      std::cout << "kept in the buffer of cout\n";
      auto const path = ctx.run_path().parent_path() / ("unflushed " + std::to_string(ctx.world_rank().value));
      std::fputs("kept in the buffer of a file\n", std::fopen(path.c_str(), "w"));
    }
    // Its last call, on one of two hosts.
    if (what == "differ") {
      for (int i = 0; i < 5; ++i) step(ctx, values);
      std::int32_t count = 1;
      float sum = 1;
      if (ctx.node_rank() == Rank{1}) return ctx.collective().all_reduce(std::span{&count, 1}, ReduceOp::sum);
      ctx.collective().all_reduce(std::span{&sum, 1}, ReduceOp::sum);
    }
  };
}

auto is_process_of_rank_1() -> bool {
  if (auto const job = job_environment()) return job->rank == Rank{1};
  auto const* const number = std::getenv("RANK");
  return number != nullptr && std::string_view{number} == "1";
}

// Refuses the run on one rank, or stands still there at the end, where and as it is told to.
class PickyBackend : public testing::MinimalBackend {
 public:
  struct Config {
    std::string refuses{};
    Rank where{1};
    double rate = 0.5;
  };
  explicit PickyBackend(Config const& config) : MinimalBackend{{}}, config_{config} { refuse_in("construct"); }

  void on_start(ScalingConfig const&) const {
    refuse_in("refuse");
    if (is_to("refuse_oddly")) throw 42;
  }
  void on_shutdown() const noexcept {
    if (config_.refuses == "stop_at_end" && is_process_of_rank_1()) std::raise(SIGSTOP);
  }

 private:
  [[nodiscard]] auto is_to(std::string const& what) const -> bool {
    auto const job = job_environment();
    return config_.refuses == what && job && job->rank == config_.where;
  }
  void refuse_in(std::string const& what) const {
    if (is_to(what)) throw std::runtime_error{"no such device here"};
  }

  Config config_;
};

// mpirun passes on 1 KiB at a time.
auto brief(std::string const& text) -> std::string {
  return text.size() < 2000 ? text : text.substr(0, 300) + text.substr(text.size() - 300);
}

auto digest(Result const& result) -> std::string {
  std::ostringstream line;
  line << "result " << to_string(result.state) << ", " << result.all_reports().size() << " reports, "
       << result.checkpoints.size() << " checkpoints, sum " << std::hexfloat
       << result.metrics.number("sum").value_or(-1) << ", " << result.warnings.size() << " warnings, nothing left "
       << result.nothing_left << ", " << result.attempts.size() << " attempts, in " << result.path.filename().string();
  return line.str();
}

auto digest(std::vector<ErrorInfo> const& failures) -> std::string {
  std::ostringstream line;
  line << "failures:";
  // mpirun passes on 1 KiB at a time, and what other ranks say may come between: lines are shorter than that.
  std::string said;
  for (auto const& error : failures) {
    line << ' ' << to_string(error.code) << " of "
         << (error.rank ? "rank " + std::to_string(error.rank->value) : std::string{"no rank"});
    auto text = " [" + error.attempted + '|' + brief(error.happened) + '|' + error.remedy + ']';
    if (text != said) line << text;
    said = std::move(text);
  }
  return line.str();
}

auto message_of_fit(Trainer<PickyBackend>& trainer) -> std::string {
  try {
    (void)trainer.fit();
  } catch (Error const& error) {
    return error.what();
  }
  return "nothing";
}

// Another fit() on the ranks that this one has.
class FitInside : public Callback {
 public:
  explicit FitInside(TrainerConfig<PickyBackend> config) : config_{std::move(config)} {}
  void on_start(RunInfo const&) override {
    Trainer<PickyBackend> trainer{trained(""), config_};
    std::ostringstream line;
    line << "inside: " << message_of_fit(trainer);
    say(line);
  }

 private:
  TrainerConfig<PickyBackend> config_;
};

// In a worker process of its own.
void go_wrong_before_fit(std::string const& what, TrainerConfig<PickyBackend>& config) {
  auto const is_rank_1 = is_process_of_rank_1();
  if (what == "seed") config.run.seed = 7;
  auto const loaded = std::chrono::steady_clock::now() + std::chrono::milliseconds{what == "slow_start" ? 1500 : 0};
  while (is_rank_1 && std::chrono::steady_clock::now() < loaded) std::this_thread::yield();
  if (what == "exits_early" && is_rank_1) std::exit(3);
  if (what == "crashes_early" && is_rank_1) std::abort();
  if (what == "threads_first" && is_rank_1) config.scaling.launch = Launch::threads;
  if (!what.starts_with("never_comes") || !is_rank_1) return;
  std::ostringstream line;
  line << "rank 1 waits in main, process " << ::getpid();
  say(line);
  wait_outside_of_raytrain();
}

// Before it is the new program.
void stop_first_child() {
  static int children = 0;
  ::pthread_atfork([] { ++children; }, nullptr,
                   [] {
                     if (children == 1) ::raise(SIGSTOP);
                   });
}

}  // namespace

auto main(int argc, char** argv) -> int {
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  auto const what = arguments.size() > 1 ? arguments[1] : std::string{};
  TrainerConfig<PickyBackend> config{.run = {.name = "ranks", .storage_path = arguments.at(0)},
                                     .callbacks = {std::make_shared<CountStarts>(what)}};
  if (what == "unflushed") std::ios::sync_with_stdio(false);
  auto const job = job_environment();
  if (what == "seed" && job) config.run.seed = job->rank.value;
  config.backend.refuses = what;
  if (what == "wait_to_be_killed") config.run.checkpoint.every = std::chrono::hours{1};
  if (what == "pack") config.scaling.placement_strategy = PlacementStrategy::pack;
  if (what == "spread") config.scaling.placement_strategy = PlacementStrategy::spread;
  if (what == "env") {
    config.run.env = {{"TEST_LIBRARY", "fast"}, {"TEST_TEXT", "it's $HOME, \"a\" \\ `b`"}, {"HOME", "/of/workers"}};
  }
  if (what == "metadata") config.run.metadata = {{"process", std::to_string(::getpid())}};
  if (what == "rate" && job) config.backend.rate = 0.5 + job->rank.value;
  if (what == "split" && job && job->rank == Rank{1}) config.data.datasets_to_split.clear();
  if (what == "content" && job) {
    config.datasets = {
        {"train", Dataset::from_columns({{"x", std::vector<float>(8, static_cast<float>(job->rank.value))}})}};
  }
  if (what == "more" && job) config.datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(8)}})}};
  if (what == "more" && job && job->rank == Rank{0}) config.datasets["valid"] = config.datasets.at("train");
  if (what == "hang" || what == "hang_first") {
    config.run.collective_timeout = std::chrono::seconds{1};
    config.run.stop_grace = std::chrono::milliseconds{300};
    config.run.on_hang = OnHang::exit_process;
  }
  if (what.starts_with("told_on")) config.run.stop_grace = std::chrono::minutes{1};
  if (what == "never_comes_late") config.scaling.start_timeout = std::chrono::seconds{1};
  if (what.starts_with("endless") || what == "slow_start") config.run.failure.hang_timeout = std::chrono::seconds{1};
  if (arguments.size() > 4) config.run.failure.max_failures = std::stoi(arguments[4]);
  if (auto const* const most = std::getenv("RAYTRAIN_TEST_MAX_PREEMPTIONS"); most != nullptr) {
    config.run.failure.max_preemptions = std::stoi(most);
  }
  if (what == "leave" || what == "inside") config.run.collective_timeout = std::chrono::seconds{1};
  if (what == "full_log") config.callbacks.push_back(std::make_shared<JsonLines>("/dev/full"));
  if (what == "inside") config.callbacks.push_back(std::make_shared<FitInside>(config));
  if (arguments.size() > 3) config.backend.where.value = static_cast<std::uint32_t>(std::stoi(arguments[3]));
  // All but rank 0, if only they are to have it.
  if (what == "own_store" || (what == "stores_differ" && job && job->rank != Rank{0})) {
    config.run.checkpoint.store = [](std::filesystem::path const& run_path) {
      return std::make_shared<DirectoryStore>(run_path.parent_path() / "big disk" / run_path.filename());
    };
  }
  if (what.starts_with("begin_")) {
    config.run.name = "tuned";
    // On one rank another one, if it is told to.
    auto const differs = what == "begin_elsewhere" && job && job->rank == Rank{1};
    config.run.resume_from_checkpoint = std::filesystem::path{arguments.at(0)} / "ranks/checkpoints" /
                                        (differs ? "checkpoint_000002" : "checkpoint_000004");
  }
  if (what == "rank_order" || std::getenv("RAYTRAIN_TEST_RANK_ORDER") != nullptr)
    config.scaling.reduction = Reduction::rank_order;
  if (auto const* const launch = std::getenv("RAYTRAIN_TEST_LAUNCH"); launch != nullptr) {
    config.scaling.launch = std::string_view{launch} == "mpirun"    ? Launch::mpirun
                            : std::string_view{launch} == "threads" ? Launch::threads
                                                                    : Launch::processes;
  }
  auto const* const command = std::getenv("RAYTRAIN_TEST_COMMAND");
  if (command != nullptr && config.scaling.launch == Launch::mpirun) {
    std::istringstream words{command};
    config.scaling.job_command = {std::istream_iterator<std::string>{words}, {}};
  }
  if (auto const* const limit = std::getenv("RAYTRAIN_TEST_START_TIMEOUT"); limit != nullptr) {
    config.scaling.start_timeout = std::chrono::milliseconds{std::stoi(limit)};
  }
  if (is_worker_process()) go_wrong_before_fit(what, config);
  if (what == "stop_at_birth" && !is_worker_process()) stop_first_child();
  if (arguments.size() > 2) config.scaling.num_workers = std::stoi(arguments[2]);
  try {
    Trainer<PickyBackend> trainer{trained(what), config};
    auto const result = trainer.fit();
    // Of what all processes of a job are sent, some have a copy only when the others' have ended the run.
    if (what == "signal") std::raise(SIGTERM);
    std::ostringstream line;
    line << digest(result);
    say(line);
    if (what == "metadata") {
      std::ostringstream said;
      said << "kept metadata " << result.metadata.at("process") << ", in "
           << Result::from_path(result.path).metadata.at("process") << ", by "
           << result.checkpoint()->run_metadata().at("process");
      say(said);
    }
    if (what == "env") {
      std::ostringstream said;
      said << "main keeps " << variable("TEST_LIBRARY");
      say(said);
    }
    if (result.state == RunState::aborted) return EX_TEMPFAIL;
    if (what == "leave" && job && job->rank != Rank{0}) return 0;
    if (what == "leave") {
      std::ostringstream alone;
      alone << "alone: " << message_of_fit(trainer);
      say(alone);
    }
    if (what == "twice" || what == "leave") {
      auto const again = trainer.fit();
      std::ostringstream second;
      second << "again " << digest(again);
      say(second);
    }
  } catch (TrainingFailed const& failed) {
    std::ostringstream line;
    line << "failed: " << brief(failed.what()) << "; " << digest(failed.result());
    say(line);
    line.str(digest(failed.failures()));
    say(line);
    return 1;
  } catch (std::exception const& error) {
    std::ostringstream line;
    line << "error: " << error.what();
    auto const* const ours = dynamic_cast<Error const*>(&error);
    if (ours != nullptr) line << " [" << to_string(ours->code()) << ']';
    say(line);
    return 2;
  }
  return 0;
}
