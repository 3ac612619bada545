// SPDX-License-Identifier: Apache-2.0
// A training by XGBoost that xgboost_on_ranks.py starts by mpirun, and that goes wrong in the middle of a round where
// it is told to:   xgboost_ranks_program STORAGE [models | throw | kill | signal]
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <netinet/in.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "xgboost_run.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

// One line at a time, since the ranks share what they write to. The clock is the same for all processes of a host.
void say(std::string const& text) {
  auto const now = std::chrono::steady_clock::now().time_since_epoch();
  std::cout << fmt::format("{} at {:.3f} s\n", text, std::chrono::duration<double>{now}.count()) << std::flush;
}

int rounds_here = 0;

auto own_rank() -> Rank {
  auto const job = job_environment();
  return job ? job->rank : Rank{0};
}

// Those below are Open MPI's own, which another job may have at once.
constexpr int first_free_port = 32768;

void say_where_it_listens() {
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in address{};
    size = sizeof address;
    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
    auto const port = ntohs(address.sin_port);
    if (address.sin_family == AF_INET && port >= first_free_port) say(fmt::format("listens: port {}", port));
  }
}

// The logistic loss, which does what it is told to where the other ranks wait in XGBoost for this one.
auto loss_that_goes_wrong(std::string const& what) -> XGBoostObjective {
  return [what](auto margins, auto labels, auto gradients, auto hessians) {
    auto const round = rounds_here++;
    if (round == 0) {
      say(fmt::format("rank {}, process {}", own_rank().value, ::getpid()));
      say_where_it_listens();
    }
    if (round == 3 && own_rank() == Rank{1} && !what.empty()) {
      say("goes wrong");
      if (what == "throw") throw std::runtime_error{"as planned"};
      if (what == "kill") std::raise(SIGKILL);
      if (what == "signal") ::kill(::getpid(), SIGTERM);
    }
    for (std::size_t row = 0; row < margins.size(); ++row) {
      auto const probability = 1 / (1 + std::exp(-margins[row]));
      gradients[row] = probability - labels[row];
      hessians[row] = probability * (1 - probability);
    }
  };
}

// Each rank stores the model that it has itself.
void train_and_store(XGBoostContext& ctx, std::filesystem::path const& folder) {
  auto const params = parameters();
  auto const train = ctx.dmatrix("train", {.label = "target"});
  auto const valid = ctx.dmatrix("valid", {.label = "target"});
  auto booster = ctx.booster(params, {&train, &valid});
  for (int round = 0; round < params.num_boost_round; ++round) booster.update(round, train);
  auto const evaluation = booster.evaluate(params.num_boost_round, {{"valid", &valid}});
  std::ofstream{folder / fmt::format("model_{}.ubj", ctx.world_rank().value), std::ios::binary}
      << text_of(booster.to_bytes());
  ctx.report(Metrics{{"auc", evaluation.back().value}});
}

auto fitted(TrainerConfig<XGBoostBackend> const& with, std::string const& what) -> Result {
  if (what == "models") {
    auto const folder = with.run.storage_path;
    return XGBoostTrainer{[folder](XGBoostContext& ctx) { train_and_store(ctx, folder); }, with}.fit();
  }
  auto params = parameters(what == "signal" ? 1'000'000 : 12);
  params.checkpoint_frequency = 1;
  params.custom_objective = loss_that_goes_wrong(what);
  return XGBoostTrainer{params, with}.fit();
}

}  // namespace

auto main(int argc, char** argv) -> int {
  std::span const arguments{argv, static_cast<std::size_t>(argc)};
  TrainerConfig<XGBoostBackend> const with{.scaling = {.resources_per_worker = {.cpus = 1}},
                                           .run = {.name = "ranks", .storage_path = arguments[1]},
                                           .datasets = {{"train", sample(3000, 1)}, {"valid", sample(1000, 2)}}};
  try {
    auto const result = fitted(with, argc > 2 ? arguments[2] : "");
    say(fmt::format("result {}, rounds {}, AUC {:.4f}", to_string(result.state), rounds_here,
                    result.metrics.number("auc").value_or(0)));
    return result.state == RunState::aborted ? EX_TEMPFAIL : 0;
  } catch (std::exception const& error) {
    say(fmt::format("failed: {}", error.what()));
    return 1;
  }
}
