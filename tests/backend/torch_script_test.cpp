// SPDX-License-Identifier: Apache-2.0
// TorchScript that is trained, stored and loaded as LibTorch's own modules are.
#include <torch/script.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// weight x + bias, and in training mode a buffer that counts; with a submodule for the first.
auto make_script() -> torch::jit::Module {
  torch::manual_seed(5);
  auto const unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module dense{"Dense", unit};
  dense.register_parameter("weight", torch::randn({1, 3}).set_requires_grad(true), /*is_buffer=*/false);
  dense.register_attribute("training", c10::BoolType::get(), true);
  dense.define("def forward(self, x):\n  return torch.matmul(x, self.weight.t())\n");
  torch::jit::Module script{"Script", unit};
  script.register_module("dense", dense);
  script.register_parameter("bias", torch::randn({1}).set_requires_grad(true), /*is_buffer=*/false);
  script.register_buffer("calls", torch::zeros({}));
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define(
      "def forward(self, x):\n"
      "  if self.training:\n"
      "    self.calls.add_(1)\n"
      "  return self.dense.forward(x) + self.bias\n");
  return script;
}

/// The same as a module of LibTorch's.
struct Twin : torch::nn::Module {
  explicit Twin(ScriptModule const& script) {
    auto const given = script.named_parameters();
    weight = register_module("dense", std::make_shared<torch::nn::Module>())
                 ->register_parameter("weight", given["dense.weight"].detach().clone());
    bias = register_parameter("bias", given["bias"].detach().clone());
    calls = register_buffer("calls", torch::zeros({}));
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    if (is_training()) calls.add_(1);
    return torch::matmul(x, weight.t()) + bias;
  }
  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor calls;
};

auto names_of(torch::nn::Module const& module) -> std::string {
  std::string names;
  for (auto const& item : module.named_parameters()) names += item.key() + " ";
  for (auto const& item : module.named_buffers()) names += item.key() + " ";
  return names;
}

auto rows_of(Rank rank) -> torch::Tensor {
  return torch::linspace(-1, 1 + static_cast<double>(rank.value), 12).view({4, 3});
}

/// Some steps of a model on each worker's own rows.
void take_steps(TorchContext& ctx, auto& model, torch::optim::Optimizer& optimizer) {
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    auto const rows = rows_of(ctx.world_rank());
    torch::mse_loss(model->forward(rows), rows.sum(1, true)).backward();
    optimizer.step();
  }
}

/// With three weights of 1 and a buffer "scale" of 2.
auto make_scaled(std::string const& forward) -> torch::jit::Module {
  torch::jit::Module script{"Scaled", std::make_shared<torch::jit::CompilationUnit>()};
  script.register_parameter("weight", torch::ones({3}).set_requires_grad(true), /*is_buffer=*/false);
  script.register_buffer("scale", torch::full({}, 2.0));
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define(forward);
  return script;
}

}  // namespace

TEST_CASE("a script's tensors have the script's names, and are its own") {
  auto const script = make_script();
  ScriptModule model{script};
  CHECK(names_of(model) == "bias dense.weight calls ");
  auto const x = torch::ones({2, 3});
  CHECK(model.forward(x).equal(torch::jit::Module{script}.forward({x}).toTensor()));
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : model.parameters()) parameter.zero_();
  }
  CHECK(torch::jit::Module{script}.forward({x}).toTensor().equal(torch::zeros({2, 1})));
  CHECK(model.buffers()[0].item<float>() == 3);
  model.eval();
  (void)model.forward(x);
  CHECK(model.buffers()[0].item<float>() == 3);
  CHECK_FALSE(ScriptModule{script}.is_training());  // as the script is
  model.train();
  (void)model.forward(x);
  CHECK(model.buffers()[0].item<float>() == 4);
}

TEST_CASE("a script may use a buffer and put another one in its place, in training and in evaluation") {
  ScriptModule model{
      make_scaled("def forward(self, x):\n"
                  "  y = self.weight * x / self.scale\n"
                  "  self.scale = self.scale + 1\n"
                  "  return y\n")};
  auto const x = torch::arange(3, torch::kFloat);
  auto const first = model.forward(x).sum();
  auto const second = model.forward(x).sum();
  CHECK(model.buffers()[0].item<float>() == 4);
  second.backward();
  CHECK(model.parameters()[0].grad().equal(x / 3));
  model.zero_grad();
  first.backward();
  CHECK(model.parameters()[0].grad().equal(x / 2));
  torch::NoGradGuard const no_grad;
  CHECK(model.forward(x).equal(x / 4));
  CHECK(model.forward(x).equal(x / 5));
  CHECK(model.buffers()[0].item<float>() == 6);
}

TEST_CASE("a script may put another buffer in place in some calls only, be their graphs used later") {
  ScriptModule model{
      make_scaled("def forward(self, x, replaces: bool):\n"
                  "  y = self.weight * x / self.scale\n"
                  "  if replaces:\n"
                  "    self.scale = self.scale + 1\n"
                  "  return y\n")};
  auto const x = torch::arange(3, torch::kFloat);
  auto const first = model.forward(x, false).sum();
  auto const second = model.forward(x, true).sum();
  auto const third = model.forward(x, false).sum();
  {
    torch::NoGradGuard const no_grad;
    (void)model.forward(x, true);
  }
  CHECK(model.buffers()[0].item<float>() == 4);
  for (auto const& [loss, scale] : {std::pair{first, 2}, {second, 2}, {third, 3}}) {
    model.zero_grad();
    loss.backward();
    CHECK(model.parameters()[0].grad().equal(x / scale));
  }
}

TEST_CASE_TEMPLATE("a script is trained on two workers to the bits of the same module of LibTorch's", Optimizer,
                   torch::optim::SGD, torch::optim::Adam) {
  (void)run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto script = ctx.prepare_model([] { return make_script(); });
    auto twin = ctx.prepare_model([&] { return Twin{*script}; });
    auto optimizer = ctx.prepare_optimizer<Optimizer>(script, {0.1});
    take_steps(ctx, script, optimizer);
    auto twin_optimizer = ctx.prepare_optimizer<Optimizer>(twin, {0.1});
    take_steps(ctx, twin, twin_optimizer);
    CHECK(same_bits(script->parameters(), twin->parameters()));
    CHECK(script->buffers()[0].template item<float>() == 4);
    auto const x = torch::ones({2, 3});
    CHECK(torch::allclose(script->script().forward({x}).toTensor(), twin->forward(x)));
    ctx.report(Epoch{0, 1.0});
  });
}

TEST_CASE("a buffer that a script replaces by a new tensor is saved as it is then, and filled by a load") {
  torch::jit::Module script{"Replacing"};
  script.register_buffer("mean", torch::zeros({}));
  script.define("def forward(self, x):\n  self.mean = self.mean + x.mean()\n  return x\n");
  ScriptModule model{script};
  (void)model.forward(torch::full({2}, 3.0F));
  (void)model.forward(torch::full({2}, 4.0F));
  CHECK(model.buffers()[0].item<float>() == 7.0F);
  {
    torch::NoGradGuard const no_grad;
    model.buffers()[0].fill_(1);
  }
  (void)model.forward(torch::full({2}, 1.0F));
  CHECK(model.buffers()[0].item<float>() == 2.0F);
}

TEST_CASE("a script that is there already is prepared, and all workers have rank 0's") {
  std::vector<torch::Tensor> weights(2);
  (void)run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto script = make_script();
    script.attr("bias").toTensor().data().fill_(static_cast<double>(ctx.world_rank().value));
    auto model = ctx.prepare_model(script);
    weights[ctx.world_rank().value] = model->script().attr("bias").toTensor().detach().clone();
    CHECK(script.attr("bias").toTensor().item<float>() == static_cast<float>(ctx.world_rank().value));
    ctx.report(Epoch{0, 1.0});
  });
  CHECK(weights[0].equal(torch::zeros({1})));
  CHECK(weights[1].equal(torch::zeros({1})));
}

TEST_CASE("a script's checkpoint is a file of tensors, and a script of it predicts") {
  TemporaryFolder const folder;
  ScriptModule model{make_script()};
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : model.parameters()) parameter.fill_(2);
  }
  Stored const stored{model};
  CHECK(stored.names() == "model.safetensors ");
  TorchPredictor const predictor{load_model(stored.checkpoint(), make_script)};
  CHECK(predictor.predict(torch::ones({2, 3})).equal(torch::full({2, 1}, 8.0)));
  TorchPredictor const of_factory{stored.checkpoint(), make_script};
  CHECK(of_factory.predict(torch::ones({2, 3})).equal(torch::full({2, 1}, 8.0)));
  TorchPredictor const with_options{stored.checkpoint(), make_script, {.batch_size = 1}};
  CHECK(with_options.predict(torch::ones({2, 3})).equal(torch::full({2, 1}, 8.0)));
  save_safetensors(model, folder.path() / "script.safetensors");
  auto again = load_model(folder.path() / "script.safetensors", make_script);
  again->script().save((folder.path() / "script.pt").string());
  ScriptModule of_archive{torch::jit::load((folder.path() / "script.pt").string())};
  CHECK(same_bits(of_archive.parameters(), model.parameters()));
}

TEST_CASE("rows that a script does not take are refused in one line, and an output of several tensors, too") {
  TorchPredictor const predictor{ScriptModule{make_script()}};
  auto const text = thrown_error([&] { return predictor.predict(torch::ones({2, 4})); });
  check_contains(text, "backend: running TorchScript: ");
  check_contains(text, "shapes cannot be multiplied (2x4 and 3x1)");
  check_contains(text, "; give what its forward takes");
  CHECK(text.find('\n') == std::string::npos);
  torch::jit::Module pair{"Pair"};
  pair.define("def forward(self, x):\n  return (x, x)\n");
  ScriptModule model{pair};
  check_contains(thrown_error([&] { return model.forward(torch::ones({2})); }), "backend: running TorchScript: ");
}

TEST_CASE("a script without parameters is a module without any") {
  torch::jit::Module script{"Double"};
  script.define("def forward(self, x):\n  return 2 * x\n");
  ScriptModule model{script};
  CHECK(model.parameters().empty());
  CHECK(model.forward(torch::ones({2})).equal(torch::full({2}, 2.0)));
}
