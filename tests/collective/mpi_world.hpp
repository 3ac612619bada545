// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/core/identifiers.hpp>

/// The first ranks of this process's MPI job, without those from `size` on.
class FirstRanks {
 public:
  explicit FirstRanks(raytrain::WorldSize size) {
    auto const world = job();
    MPI_Comm_split(MPI_COMM_WORLD, world.rank.value < size.value ? 0 : MPI_UNDEFINED, 0, &handle_);
  }
  FirstRanks(FirstRanks const&) = delete;
  auto operator=(FirstRanks const&) -> FirstRanks& = delete;
  ~FirstRanks() {
    if (includes_me()) MPI_Comm_free(&handle_);
  }

  [[nodiscard]] auto includes_me() const noexcept -> bool { return handle_ != MPI_COMM_NULL; }
  [[nodiscard]] auto handle() const noexcept -> MPI_Comm { return handle_; }

  struct Job {
    raytrain::Rank rank;
    raytrain::WorldSize size;
  };
  static auto job() -> Job {
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return {{static_cast<std::uint32_t>(rank)}, {static_cast<std::uint32_t>(size)}};
  }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// A rank that fails a test may leave others waiting: not for long.
inline auto patient_options(bool share_memory = false) -> raytrain::MpiOptions {
  return {.share_memory = share_memory, .limits = {.timeout = std::chrono::seconds{30}, .warn_after = {}}};
}

/// What tests that are written for any kind of world set up.
struct InSharedMemory {
  static auto options() -> raytrain::MpiOptions { return patient_options(true); }
  static auto pretence() -> raytrain::detail::MpiPretence { return {}; }
};

/// Two ranks on each host, which reduce and hand around among themselves what the first of them gets from other hosts.
struct OnHostsOfTwo : InSharedMemory {
  static auto pretence() -> raytrain::detail::MpiPretence { return {.largest_count = 1000, .ranks_per_host = 2}; }
};

struct RankOrderOnHostsOfTwo : OnHostsOfTwo {
  static auto options() -> raytrain::MpiOptions {
    auto options = patient_options(true);
    options.reduction = raytrain::Reduction::rank_order;
    return options;
  }
};

struct OnOneHost {
  static auto options() -> raytrain::MpiOptions { return patient_options(); }
  static auto pretence() -> raytrain::detail::MpiPretence { return {}; }
};

struct CallsChecked : OnOneHost {
  static auto options() -> raytrain::MpiOptions {
    auto options = patient_options();
    options.check_calls = true;
    return options;
  }
};

struct RankOrderOnManyHosts {
  static auto options() -> raytrain::MpiOptions {
    auto options = patient_options();
    options.reduction = raytrain::Reduction::rank_order;
    return options;
  }
  static auto pretence() -> raytrain::detail::MpiPretence { return {.ranks_per_host = 1}; }
};

struct OnManyHosts : OnOneHost {
  static auto pretence() -> raytrain::detail::MpiPretence { return {.ranks_per_host = 1}; }
};

/// Arrays go through MPI in many pieces, as they do when they have more elements than an `int` counts.
struct InPieces : OnOneHost {
  static auto pretence() -> raytrain::detail::MpiPretence { return {.largest_count = 1000}; }
};

/// A world of ranks of the MPI job. Every rank of the job calls the functions, in the same order.
template <class Setup>
struct MpiWorld {
  static auto sizes() -> std::vector<std::uint32_t> {
    auto const all = FirstRanks::job().size.value;
    return all > 2 ? std::vector{all - 1, all} : std::vector{all};
  }
  static auto crowd() -> std::uint32_t { return FirstRanks::job().size.value; }
  static auto has(raytrain::WorldSize size) -> bool { return size <= FirstRanks::job().size; }
  static auto ranks_here(raytrain::WorldSize size) -> std::vector<std::uint32_t> {
    auto const rank = FirstRanks::job().rank.value;
    return rank < size.value ? std::vector{rank} : std::vector<std::uint32_t>{};
  }

  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    FirstRanks const ranks{size};
    if (!ranks.includes_me()) return;
    raytrain::MpiCollective collective{
        std::make_shared<raytrain::MpiGroup>(ranks.handle(), Setup::options(), Setup::pretence())};
    work(collective);
  }
};
