// SPDX-License-Identifier: Apache-2.0
// The twin in plain MPI: the blocking calls of a program written for it, measured as raytrain's are.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/rank.hpp>

#include "options.hpp"
#include "program.hpp"

namespace {

template <class T>
auto mpi_type() -> MPI_Datatype {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, std::int8_t>) return MPI_INT8_T;
  if constexpr (std::is_same_v<T, std::uint8_t>) return MPI_UINT8_T;
  if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
  if constexpr (std::is_same_v<T, std::uint64_t>) return MPI_UINT64_T;
}

auto mpi_op(raytrain::ReduceOp op) -> MPI_Op {
  switch (op) {
    case raytrain::ReduceOp::sum: return MPI_SUM;
    case raytrain::ReduceOp::min: return MPI_MIN;
    case raytrain::ReduceOp::max: return MPI_MAX;
    default: throw std::invalid_argument{"MPI has no such operation: --op " + std::string{to_string(op)}};
  }
}

class PlainMpi {
 public:
  PlainMpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank { return {static_cast<std::uint32_t>(rank_)}; }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize { return {static_cast<std::uint32_t>(size_)}; }

  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

  template <class T>
  void all_reduce(std::span<T> values, raytrain::ReduceOp op) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values), mpi_type<T>(), mpi_op(op), MPI_COMM_WORLD);
  }
  template <class T>
  void broadcast(std::span<T> values, raytrain::Rank root) {
    MPI_Bcast(values.data(), count(values), mpi_type<T>(), static_cast<int>(root.value), MPI_COMM_WORLD);
  }
  template <class T>
  void all_gather(std::span<T const> mine, std::span<T> all) {
    MPI_Allgather(mine.data(), count(mine), mpi_type<T>(), all.data(), count(mine), mpi_type<T>(), MPI_COMM_WORLD);
  }
  template <class T>
  void reduce_scatter(std::span<T const> all, std::span<T> mine, raytrain::ReduceOp op) {
    MPI_Reduce_scatter_block(all.data(), mine.data(), count(mine), mpi_type<T>(), mpi_op(op), MPI_COMM_WORLD);
  }

 private:
  template <class T>
  static auto count(std::span<T> values) -> int {
    return static_cast<int>(values.size());
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

auto main(int argc, char** argv) -> int {
  MPI_Init(&argc, &argv);
  PlainMpi world;
  // One rank speaks for all.
  if (world.rank().value != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  Options options;
  CLI::App app{"Measures MPI's collectives: started by mpirun."};
  add_options(app, options);
  auto const status = run_program(app, options, argc, argv, [&] {
    Setting const setting{"Open MPI", world.size().value, "MPI ranks"};
    print_head(setting, options);
    auto const rows = run_rank(world, options);
    if (world.rank().value != 0) options.json = options.plot = "";
    return conclude(rows, setting, options);
  });
  MPI_Finalize();
  return status;
}
