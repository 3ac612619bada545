// SPDX-License-Identifier: Apache-2.0
// How often a worker that goes on is taken for one that hangs, while each core has two other processes to run.
// Arguments: threads or processes; seconds; folder for the run.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "../recovery/launch_named.hpp"
#include "short_steps.hpp"

namespace {

// Processes that compute, two for each core.
class Load {
 public:
  Load() {
    for (auto number = 2 * raytrain::usable_core_count(); number > 0; --number) {
      auto const parent = ::getpid();
      auto const child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (::getppid() == parent) continue;
        ::_exit(0);
      }
      children_.push_back(child);
    }
  }
  Load(Load const&) = delete;
  auto operator=(Load const&) -> Load& = delete;
  ~Load() {
    for (auto const child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<::pid_t> children_;
};

struct Watch : raytrain::Callback {
  auto on_warning(std::string_view text) -> bool override {
    if (text.find("no sign of life") != std::string_view::npos) ++alarms;
    return true;
  }
  int alarms = 0;
};

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: overload threads|processes SECONDS FOLDER"};
  std::unique_ptr<Load> load;
  if (!raytrain::is_worker_process()) load = std::make_unique<Load>();
  auto const watch = std::make_shared<Watch>();
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      [time = std::chrono::seconds{std::stoi(argv[2])}](raytrain::TrainContext& ctx) { train_for(ctx, time); },
      {.scaling = {.num_workers = 2, .launch = launch_named(argv[1])},
       .run = {.name = "run",
               .storage_path = argv[3],
               .failure = {.max_failures = -1,
                           .backoff = std::chrono::milliseconds{0},
                           .hang_timeout = std::chrono::milliseconds{1000}}},
       .callbacks = {watch}}};
  auto const result = trainer.fit();
  if (result.state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  auto const ended = static_cast<int>(result.attempts.size()) - 1;
  std::printf("{\"warned\": %d, \"ended\": %d}\n", watch->alarms, ended);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "overload: %s\n", error.what());
  return 1;
}
