// SPDX-License-Identifier: Apache-2.0
// The twin over Gloo, as LibTorch uses it: ProcessGroupGloo, measured as raytrain's collectives are. Each rank is a
// process of its own: --rank R --ranks N --store FILE.
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/usable_cores.hpp>

#include "../gloo_group.hpp"
#include "cores.hpp"
#include "options.hpp"
#include "program.hpp"

namespace {

class Gloo {
 public:
  Gloo(int rank, int ranks, std::string const& store)
      : rank_{rank}, ranks_{ranks}, group_{join_by_gloo(rank, ranks, store)} {}
  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank { return {static_cast<std::uint32_t>(rank_)}; }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize { return {static_cast<std::uint32_t>(ranks_)}; }

  void barrier() { group_->barrier()->wait(); }

  template <class T>
  requires std::is_arithmetic_v<T>  // it has no tensors of raytrain's halves
  void all_reduce(std::span<T> values, raytrain::ReduceOp op) {
    std::vector<torch::Tensor> tensors{tensor_of(values)};
    c10d::AllreduceOptions options;
    options.reduceOp = op == raytrain::ReduceOp::sum   ? c10d::ReduceOp::SUM
                       : op == raytrain::ReduceOp::min ? c10d::ReduceOp::MIN
                       : op == raytrain::ReduceOp::max ? c10d::ReduceOp::MAX
                                                       : throw std::invalid_argument{"Gloo has no such --op"};
    group_->allreduce(tensors, options)->wait();
  }
  template <class T>
  void broadcast(std::span<T> values, raytrain::Rank root) {
    std::vector<torch::Tensor> tensors{tensor_of(values)};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int>(root.value);
    group_->broadcast(tensors, options)->wait();
  }
  template <class T>
  void all_gather(std::span<T const>, std::span<T>) {
    throw std::invalid_argument{"this twin has --collective all_reduce and broadcast only"};
  }
  template <class T>
  void reduce_scatter(std::span<T const>, std::span<T>, raytrain::ReduceOp) {
    throw std::invalid_argument{"this twin has --collective all_reduce and broadcast only"};
  }

 private:
  template <class T>
  static auto tensor_of(std::span<T> values) -> torch::Tensor {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      // The sum of small counts is the same as a signed integer.
      return torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, torch::kLong);
    } else {
      return torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())},
                              c10::CppTypeToScalarType<T>::value);
    }
  }

  int rank_;
  int ranks_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  int rank = 0;
  int ranks = 2;
  std::string store;
  CLI::App app{"Measures Gloo's collectives: start it once for each rank."};
  add_options(app, options);
  app.add_option("--rank", rank, "of this process")->required();
  app.add_option("--ranks", ranks, "processes that are started");
  app.add_option("--store", store, "file that all of them see, and that is not there yet")->required();
  return run_program(app, options, argc, argv, [&] {
    at::set_num_threads(1);
    bind(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(ranks), raytrain::usable_cores());
    if (rank != 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
      options.json = options.plot = "";
    }
    Gloo world{rank, ranks, store};
    Setting const setting{"ProcessGroupGloo", world.size().value, "processes"};
    print_head(setting, options);
    return conclude(run_rank(world, options), setting, options);
  });
}
