// SPDX-License-Identifier: Apache-2.0
// What programs that boosting_on_ranks.py starts by mpirun say, and how they go wrong where they are told to:
//   PROGRAM STORAGE [models | blocks | blocks_cut | blocks_removed | blocks_empty | throw | restart | kill | signal]
#pragma once

#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <netinet/in.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "boosting_samples.hpp"

namespace raytrain::testing {

// One line at a time, since the ranks share what they write to. The clock is the same for all processes of a host.
inline void say(std::string const& text) {
  auto const now = std::chrono::steady_clock::now().time_since_epoch();
  std::cout << fmt::format("{} at {:.3f} s\n", text, std::chrono::duration<double>{now}.count()) << std::flush;
}

inline int rounds_here = 0;

inline auto own_rank() -> Rank {
  auto const job = job_environment();
  return job ? job->rank : Rank{0};
}

// Those below are Open MPI's own, which another job may have at once.
inline constexpr int first_free_port = 32768;

inline void say_where_it_listens() {
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

// Rank 1 does what it is told to in the fourth round, while the other ranks wait for it in the library.
inline void begin_round(std::string const& what) {
  auto const round = rounds_here++;
  if (round == 0) {
    say(fmt::format("rank {}, process {}", own_rank().value, ::getpid()));
    say_where_it_listens();
  }
  if (round != 3 || own_rank() != Rank{1} || what.empty()) return;
  say("goes wrong");
  if (what == "throw" || what == "restart") throw std::runtime_error{"as planned"};
  if (what == "kill") std::raise(SIGKILL);
  if (what == "signal") ::kill(::getpid(), SIGTERM);
}

// Each rank stores the model that it has itself.
inline void store_model(std::filesystem::path const& folder, Rank rank, std::string_view model) {
  std::ofstream{folder / fmt::format("model_{}", rank.value), std::ios::binary} << model;
}

/// A file of this rank's own rows.
template <class Context>
auto own_file(Context& ctx, std::filesystem::path const& folder) -> std::filesystem::path {
  auto const file = folder / fmt::format("rows_{}.csv", ctx.world_rank().value);
  auto const rows = ctx.dataset_shard("train").part();
  auto const x = rows.column("x").template as<float>();
  std::vector<Column> columns;
  for (std::size_t feature = 0; feature < 3; ++feature) {
    std::vector<float> values;
    for (std::size_t i = feature; i < x.size(); i += 3) values.push_back(x[i]);
    columns.emplace_back(fmt::format("x_{}", feature), std::move(values));
  }
  columns.push_back(rows.column("noise"));
  columns.push_back(rows.column("target"));
  write_csv(Dataset::from_columns(std::move(columns)), file);
  return file;
}

/// Blocks of a file of each rank's own. Rank 1's is cut to its first half, is removed, or has no rows, when the library
/// goes through it for the second time.
template <class Context>
auto blocks_of_own_file(Context& ctx, std::filesystem::path const& folder, std::string const& what) -> MakeBlocks {
  auto const rank = ctx.world_rank();
  say(fmt::format("rank {}, process {}", rank.value, ::getpid()));
  auto const file = own_file(ctx, folder);
  if (what == "blocks_empty" && rank == Rank{1}) {
    say("goes wrong");
    std::ofstream{file} << "x_0,x_1,x_2,noise,target\n";
  }
  return [=, passes = 0]() mutable {
    if (++passes == 2 && rank == Rank{1}) {
      if (what != "blocks") say("goes wrong");
      if (what == "blocks_cut") std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
      if (what == "blocks_removed") std::filesystem::remove(file);
    }
    return csv_blocks(file, {}, 300);
  };
}

template <class Backend>
[[nodiscard]] auto ranks_config(std::filesystem::path const& storage, std::string const& what)
    -> TrainerConfig<Backend> {
  return {.scaling = {.resources_per_worker = {.cpus = 1}},
          .run = {.name = "ranks", .storage_path = storage, .failure = {.max_failures = what == "restart" ? 1 : 0}},
          .datasets = {{"train", sample(3000, 1)}, {"valid", sample(1000, 2)}}};
}

/// The program, of which `fit(storage, what)` is the training.
template <class Fit>
auto run_on_ranks(int argc, char** argv, Fit const& fit) -> int {
  std::span const arguments{argv, static_cast<std::size_t>(argc)};
  try {
    Result const result = fit(std::filesystem::path{arguments[1]}, argc > 2 ? std::string{arguments[2]} : "");
    say(fmt::format("result {}, rounds {}, AUC {:.4f}", to_string(result.state), rounds_here,
                    result.metrics.number("auc").value_or(0)));
    return result.state == RunState::aborted ? EX_TEMPFAIL : 0;
  } catch (std::exception const& error) {
    say(fmt::format("failed: {}", error.what()));
    return 1;
  }
}

}  // namespace raytrain::testing
