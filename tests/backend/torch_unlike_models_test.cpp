// SPDX-License-Identifier: Apache-2.0
// Models that workers build in other ways.
#include <torch/torch.h>

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "failure_texts.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;

namespace {

/// Two parameters of one shape, in the order in which rank 0 registers them, or the other way round.
struct PairImpl : torch::nn::Module {
  explicit PairImpl(bool is_turned) {
    for (auto const* name : {is_turned ? "second" : "first", is_turned ? "first" : "second"}) {
      register_parameter(name, torch::ones({2}));
    }
  }
};

/// What each of two ranks is told when they prepare what they have built: the same.
template <class F>
auto told_when_prepared(F const& build) -> std::string {
  return failure_texts([&] {
    run_once({.workers = 2}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model([&] { return build(ctx.world_rank() == Rank{1}); });
      module_of(model).parameters().front().sum().backward();
    });
  });
}

TEST_CASE("backend/torch: ranks that register parameters of one shape in another order are refused by their names") {
  auto const told = told_when_prepared([](bool is_other) { return std::make_shared<PairImpl>(is_other); });
  check_contains(told,
                 "preparing a model: rank 0 has parameter 'first' {2} Float that wants a gradient, and rank 1 has "
                 "parameter 'second' {2} Float that wants a gradient; build the same model on every rank");
}

TEST_CASE("backend/torch: ranks whose parameters have as many numbers in another shape are refused with both shapes") {
  auto const told = told_when_prepared([](bool is_other) {
    auto const inputs = is_other ? 6 : 4;
    return torch::nn::Linear{torch::nn::LinearOptions(inputs, 10 - inputs).bias(false)};
  });
  check_contains(told,
                 "rank 0 has parameter 'weight' {6, 4} Float that wants a gradient, and rank 1 has parameter "
                 "'weight' {4, 6} Float that wants a gradient");
}

TEST_CASE("backend/torch: ranks that have frozen other parameters are refused by the first one's name") {
  auto const told = told_when_prepared([](bool is_other) {
    auto pair = std::make_shared<PairImpl>(false);
    pair->parameters()[is_other ? 1 : 0].requires_grad_(false);
    return pair;
  });
  check_contains(told,
                 "rank 0 has parameter 'first' {2} Float, and rank 1 has parameter 'first' {2} Float that wants "
                 "a gradient; build the same model on every rank, with the same parameters frozen");
}

TEST_CASE("backend/torch: ranks whose parameters lie in another order of memory are refused with its strides") {
  auto const told = told_when_prepared([](bool is_other) {
    torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 2, 2).bias(false)};
    if (is_other) conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
    return conv;
  });
  check_contains(told, "rank 1 has parameter 'weight' {2, 3, 2, 2} Float of strides 12, 1, 6, 3 that wants a gradient");
}

TEST_CASE("backend/torch: local models of which each rank has frozen another parameter are prepared") {
  auto const told = failure_texts([] {
    run_once({.workers = 2}, [](TorchContext& ctx) {
      auto const model = ctx.prepare_local_model([&] {
        auto pair = std::make_shared<PairImpl>(false);
        pair->parameters()[ctx.world_rank().value].requires_grad_(false);
        return pair;
      });
      ctx.average_parameters(model);
    });
  });
  CHECK(told == "");
}

TEST_CASE("backend/torch: a model with a sparse buffer is refused by the buffer's name") {
  auto const told = told_when_prepared([](bool) {
    auto pair = std::make_shared<PairImpl>(false);
    pair->register_buffer("neighbours", torch::eye(4).to_sparse());
    return pair;
  });
  check_contains(told,
                 "preparing a model: buffer 'neighbours' {4, 4} Float is sparse, of which other workers cannot be "
                 "given the values; make it dense, or keep it as a member that is not registered");
}

}  // namespace
