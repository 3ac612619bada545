// SPDX-License-Identifier: Apache-2.0
// A training to whose workers a seeded schedule lets faults happen:
//   chaos_program STORAGE threads|processes|mpirun SEED REPORTS FAULT...
// At the REPORTS-th report the program itself is killed; 0: never. Without faults it is undisturbed. The seed also says
// when checkpoints are written, and who keeps copies. Says what chaos.py compares: the losses and parameters, and what
// is left open.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/testing/fault_schedule.hpp>
#include <raytrain/trainer.hpp>

using namespace raytrain;
using testing::Fault;
using testing::Moment;

namespace {

constexpr int epochs = 12;
constexpr int failures = 4;
constexpr int workers = 3;

struct Epoch {
  int epoch = 0;
  double loss = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss)); }
};

auto fault_named(std::string_view name) -> Fault {
  for (auto const fault : testing::faults_survived_by(Launch::processes)) {
    if (to_string(fault) == name) return fault;
  }
  throw std::invalid_argument{"no fault has the name " + std::string{name}};
}

// Values whose bits depend on the order in which the ranks are added.
void train(MpiContext& ctx, testing::FaultSchedule const& schedule) {
  testing::FaultyWorker faults{schedule, ctx};
  faults.at(Moment::launch);
  std::vector<float> weights(1000);
  faults.at(Moment::load);
  for (auto epoch = ctx.restore({{"weights", weights}}); epoch < epochs; ++epoch) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = weights[i] * 0.9F + 1.0F / static_cast<float>(3 * i + 7 * ctx.world_rank().value + 1);
    }
    faults.at(Moment::step);
    ctx.average(weights);
    Epoch const report{epoch, faults.loss(weights[static_cast<std::size_t>(epoch)])};
    if (ctx.world_rank() != Rank{0}) faults.at(Moment::save);
    ctx.report(report, CheckpointDraft::replicated([&](CheckpointDraft& draft) {
                 faults.at(Moment::save);
                 draft = save({{"weights", weights}});
                 draft.fill(Rank{0});
               }));
    faults.at(Moment::commit);
  }
  faults.at(Moment::shutdown);
}

class Watch : public Callback {
 public:
  explicit Watch(int killed_at) : killed_at_{killed_at} {}

  void on_report(Report const&, Metrics const&) override {
    if (++reports_ == killed_at_) ::kill(::getpid(), SIGKILL);
  }
  auto on_warning(std::string_view text) -> bool override {
    std::cout << "warning: " << text << std::endl;
    return true;
  }
  void on_restart(AttemptInfo const& before, std::optional<Checkpoint> const& from) override {
    auto const has_failed = !before.failures.empty();
    std::cout << "attempt " << before.attempt.value << (has_failed ? " failed: " : " is pre-empted: ")
              << TrainingFailed::describe(has_failed ? before.failures : before.preemptions) << "; from "
              << (from ? from->location() : std::string{"the beginning"}) << std::endl;
  }

 private:
  int killed_at_;
  int reports_ = 0;
};

// What they are, but for the folder that is read here, and for what the first fit() keeps for the processes of later
// ones.
auto open_descriptors() -> std::multiset<std::string> {
  std::multiset<std::string> open;
  std::error_code gone;
  for (auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    auto const target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!target.ends_with("/fd") && !target.starts_with("/memfd:raytrain results"))
      open.insert(target.substr(0, target.find('[')));
  }
  return open;
}

// One of those by which the last state of all is in a checkpoint.
auto policy_of(std::uint64_t seed) -> CheckpointConfig {
  CheckpointConfig config{.num_to_keep = 2, .score_attribute = "loss"};
  switch (seed % 4) {
    case 1: config.every = CheckpointInterval::reports(3); break;
    case 2: config.when_busy = WhenBusy::replace; break;
    case 3: config.memory_copies = 1; break;
    default: break;
  }
  return config;
}

void say(Result const& result) {
  std::cout << "state " << to_string(result.state) << "\nattempts " << result.attempts.size() << "\nlosses"
            << std::hexfloat;
  for (auto const& report : result.history) std::cout << ' ' << report.metrics.number("loss").value_or(-1);
  auto const all = result.all_reports();
  std::map<std::uint32_t, int> of_rank;
  for (auto const& report : all) ++of_rank[report.rank.value];
  std::cout << "\nreports";
  for (auto const& [rank, count] : of_rank) std::cout << ' ' << rank << ':' << count;
  std::vector<float> weights(1000);
  load(result.checkpoint().value(), {{"weights", weights}});
  std::cout << "\nweights " << detail::xxh3_of(std::as_bytes(std::span{weights})) << std::endl;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  testing::FaultPlan plan{.failures = failures, .latest = 4};
  auto const& launch = arguments.at(1);
  plan.launch = launch == "mpirun" ? Launch::mpirun : launch == "threads" ? Launch::threads : Launch::processes;
  for (auto const& name : std::span{arguments}.subspan(4)) plan.faults.push_back(fault_named(name));
  if (plan.faults.empty()) plan.failures = 0;
  auto const seed = std::stoull(arguments.at(2));
  testing::FaultSchedule const schedule{seed, plan};
  auto const open = open_descriptors();
  TrainerConfig<MpiBackend> config{
      .scaling = {.num_workers = workers, .launch = plan.launch},
      .run = {.name = "chaos",
              .storage_path = arguments.at(0),
              .checkpoint = policy_of(seed),
              .failure = {.max_failures = plan.failures, .hang_timeout = std::chrono::seconds{2}}},
      .callbacks = {std::make_shared<Watch>(std::stoi(arguments.at(3)))}};
  auto status = 0;
  try {
    say(Trainer<MpiBackend>{[schedule](MpiContext& ctx) { train(ctx, schedule); }, config}.fit());
  } catch (std::exception const& error) {
    std::cout << "error " << error.what() << std::endl;
    status = 1;
  }
  for (auto attempt = 1; attempt <= plan.failures; ++attempt) {
    if (auto const fault = schedule.planned({static_cast<std::uint64_t>(attempt)}, {workers})) {
      std::cout << "planned " << attempt << ' ' << fault->describe() << '\n';
    }
  }
  for (auto const& left : open_descriptors()) {
    if (!open.contains(left)) std::cout << "open " << left << '\n';
  }
  return status;
}
