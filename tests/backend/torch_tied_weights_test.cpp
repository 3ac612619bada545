// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a model one tensor of which has two names, in one where it is two, and the reverse.
#include <torch/torch.h>

#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

/// A language model's ends, the weight of which may be one.
struct Net : torch::nn::Module {
  explicit Net(bool is_tied) {
    register_parameter("embedding", torch::rand({4, 3}));
    auto const& embedding = *named_parameters().find("embedding");
    register_parameter("decoder", is_tied ? embedding : torch::rand({4, 3}));
    register_parameter("bias", torch::rand({4}));
  }
  [[nodiscard]] auto at(std::string const& name) const -> at::Tensor { return *named_parameters().find(name); }
  void step(torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    (at("embedding").square().sum() + at("decoder").sin().sum() + at("bias").square().sum()).backward();
    optimizer.step();
  }
};

auto refusal(auto const& load) -> std::string {
  return thrown_error([&] {
    load();
    return 0;
  });
}

}  // namespace

TEST_CASE("two different weights are not loaded into one, and the error names both") {
  Net const apart{false};
  Stored const stored{apart};
  Net tied{true};
  auto const before = copies(tied.parameters());
  auto const text = refusal([&] { load(stored.checkpoint(), tied); });
  check_contains(text, "backend: loading ");
  check_contains(text, "'embedding' and 'decoder' are one tensor in this model, and different ones there");
  check_contains(text, "build it as it was when it was saved");
  CHECK(same_bits(tied.parameters(), before));
}

TEST_CASE("two equal weights are loaded into one, and one into two") {
  Net apart{false};
  {
    torch::NoGradGuard const no_grad;
    apart.at("decoder").copy_(apart.at("embedding"));
  }
  Net tied{true};
  load(Stored{apart}.checkpoint(), tied);
  CHECK(same_bits(tied.parameters(), apart.parameters()));
  CHECK(tied.at("decoder").is_same(tied.at("embedding")));
  Net other{false};
  load(Stored{tied}.checkpoint(), other);
  CHECK(same_bits(other.parameters(), tied.parameters()));
}

TEST_CASE("a file of safetensors with two different weights is not loaded into one, whole or in part") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "apart.safetensors";
  raytrain::save_safetensors(Net{false}, file);
  Net tied{true};
  for (auto const strict : {true, false}) {
    check_contains(refusal([&] { raytrain::load_safetensors(tied, file, {.strict = strict}); }),
                   "'embedding' and 'decoder' are one tensor in this model, and different ones there");
  }
}

TEST_CASE("an archive of two different weights is not loaded into one") {
  Net tied{true};
  auto const bytes = state_to_bytes(Net{false});
  check_contains(refusal([&] { state_from_bytes(bytes, tied); }),
                 "are one tensor in this model, and different ones there");
  state_from_bytes(state_to_bytes(Net{true}), tied);
}

TEST_CASE("an optimizer's states of two weights are not loaded into that of one") {
  Net apart{false};
  {
    torch::NoGradGuard const no_grad;
    apart.at("decoder").copy_(apart.at("embedding"));
  }
  torch::optim::Adam of_apart{apart.parameters(), 0.1};
  apart.step(of_apart);
  Stored const stored{TrainingState{of_apart}};
  Net tied{true};
  torch::optim::Adam of_tied{tied.parameters(), 0.1};
  auto const text = refusal([&] { load(stored.checkpoint(), TrainingState{of_tied}); });
  check_contains(text, "parameters 0 and 1 are one tensor of this optimizer, and each has a state of its own there");
  CHECK(of_tied.state().empty());
}
