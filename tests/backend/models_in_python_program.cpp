// SPDX-License-Identifier: Apache-2.0
// The nets of models_in_python.py in C++, under the names that they have there:
//   models_in_python_program FOLDER
// Each file that Python has written into the folder is loaded and predicts what Python's net has predicted, to 1e-5.
// Adadelta ends where Python's has ended. Then it writes its own, of other weights, beside what that predicts.
#include <torch/script.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>

namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Embedding;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

/// Of images {n, 1, 8, 8}: a convolution, a batch normalisation and an MLP.
struct SmallNet : torch::nn::Module {
  explicit SmallNet(std::int64_t classes) {
    mlp->push_back(Linear{4 * 6 * 6, 16});
    mlp->push_back(torch::nn::ReLU{});
    mlp->push_back(Linear{16, classes});
    register_module("mlp", mlp);
  }
  auto forward(torch::Tensor const& images) -> torch::Tensor {
    return mlp->forward(torch::relu(norm(convolution(images))).flatten(1));
  }
  Conv2d convolution = register_module("convolution", Conv2d{Conv2dOptions{1, 4, 3}});
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d{4});
  torch::nn::Sequential mlp;
};

/// A dense layer with its weight {in, out}, as GPT-2 has it.
struct Conv1D : torch::nn::Module {
  Conv1D(std::int64_t in, std::int64_t out)
      : weight{register_parameter("weight", torch::randn({in, out}))},
        bias{register_parameter("bias", torch::zeros({out}))} {}
  auto forward(torch::Tensor const& x) -> torch::Tensor { return torch::matmul(x, weight) + bias; }
  torch::Tensor weight;
  torch::Tensor bias;
};

/// Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, as Hugging Face's
///         transformers name its parts.
struct Attention : torch::nn::Module {
  Attention(std::int64_t width, std::int64_t number) : heads{number} {
    c_attn = register_module("c_attn", std::make_shared<Conv1D>(width, 3 * width));
    c_proj = register_module("c_proj", std::make_shared<Conv1D>(width, width));
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    auto const rows = x.size(0);
    auto const length = x.size(1);
    auto const width = x.size(2);
    auto const parts = c_attn->forward(x).view({rows, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    auto const mask = torch::ones({length, length}, torch::kBool).triu(1);
    auto const scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) /
                        std::sqrt(static_cast<double>(width) / static_cast<double>(heads));
    auto const weights = torch::softmax(scores.masked_fill(mask, -1e9), -1);
    return c_proj->forward(torch::matmul(weights, parts[2]).transpose(1, 2).reshape({rows, length, width}));
  }
  std::int64_t heads;
  std::shared_ptr<Conv1D> c_attn;
  std::shared_ptr<Conv1D> c_proj;
};

struct Mlp : torch::nn::Module {
  explicit Mlp(std::int64_t width) {
    c_fc = register_module("c_fc", std::make_shared<Conv1D>(width, 4 * width));
    c_proj = register_module("c_proj", std::make_shared<Conv1D>(4 * width, width));
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    return c_proj->forward(torch::gelu(c_fc->forward(x), "tanh"));
  }
  std::shared_ptr<Conv1D> c_fc;
  std::shared_ptr<Conv1D> c_proj;
};

struct Block : torch::nn::Module {
  Block(std::int64_t width, std::int64_t heads) {
    ln_1 = register_module("ln_1", LayerNorm{LayerNormOptions{{width}}});
    attn = register_module("attn", std::make_shared<Attention>(width, heads));
    ln_2 = register_module("ln_2", LayerNorm{LayerNormOptions{{width}}});
    mlp = register_module("mlp", std::make_shared<Mlp>(width));
  }
  auto forward(torch::Tensor x) -> torch::Tensor {
    x = x + attn->forward(ln_1(x));
    return x + mlp->forward(ln_2(x));
  }
  LayerNorm ln_1{nullptr};
  std::shared_ptr<Attention> attn;
  LayerNorm ln_2{nullptr};
  std::shared_ptr<Mlp> mlp;
};

/// Of tokens {n, length}: what the next token is at each place, {n, length, words}.
struct Gpt2 : torch::nn::Module {
  Gpt2(std::int64_t words, std::int64_t places, std::int64_t width, std::int64_t heads, int layers) {
    wte = register_module("wte", Embedding{words, width});
    wpe = register_module("wpe", Embedding{places, width});
    for (int layer = 0; layer < layers; ++layer) h->push_back(std::make_shared<Block>(width, heads));
    register_module("h", h);
    ln_f = register_module("ln_f", LayerNorm{LayerNormOptions{{width}}});
  }
  auto forward(torch::Tensor const& tokens) -> torch::Tensor {
    auto x = wte(tokens) + wpe(torch::arange(tokens.size(1)));
    for (auto const& block : *h) x = block->as<Block>()->forward(x);
    return torch::matmul(ln_f(x), wte->weight.t());
  }
  Embedding wte{nullptr};
  Embedding wpe{nullptr};
  torch::nn::ModuleList h;
  LayerNorm ln_f{nullptr};
};

/// Rows that a net was given, and what it said.
struct Samples : torch::nn::Module {
  Samples(torch::Tensor given, torch::Tensor said)
      : rows{register_buffer("rows", std::move(given))}, predicted{register_buffer("predicted", std::move(said))} {}
  torch::Tensor rows;
  torch::Tensor predicted;
};

/// Whether the model predicts what Python has written to that file.
auto predicts(auto model, std::filesystem::path const& file, Samples samples) -> bool {
  raytrain::load_safetensors(samples, file);
  auto const predicted = raytrain::TorchPredictor{model, {.batch_size = 3}}.predict(samples.rows);
  auto const furthest = (predicted - samples.predicted).abs().max().template item<double>();
  fmt::print("{}: {} rows, differs by {:.2g} at most\n", file.filename().string(), samples.rows.size(0), furthest);
  return furthest < 1e-5 && samples.predicted.std().template item<double>() > 0.01;
}

struct Steps : torch::nn::Module {
  torch::Tensor first = register_buffer("first", torch::zeros({7}));
  torch::Tensor gradients = register_buffer("gradients", torch::zeros({20, 7}));
  torch::Tensor last = register_buffer("last", torch::zeros({7}));
};

auto steps_as_in_python(std::filesystem::path const& file) -> bool {
  Steps steps;
  raytrain::load_safetensors(steps, file);
  auto const parameter = steps.first.clone().requires_grad_();
  raytrain::Adadelta optimizer{std::vector{parameter},
                               raytrain::AdadeltaOptions{0.7}.rho(0.8).eps(1e-5).weight_decay(0.1)};
  for (std::int64_t i = 0; i < steps.gradients.size(0); ++i) {
    parameter.mutable_grad() = steps.gradients[i];
    optimizer.step();
  }
  auto const furthest = (parameter - steps.last).abs().max().item<double>();
  fmt::print("Adadelta: differs by {:.2g} at most\n", furthest);
  return furthest < 1e-6 && !torch::allclose(steps.last, steps.first, 1e-3);
}

auto run(std::filesystem::path const& folder) -> bool {
  Samples const images{torch::zeros({5, 1, 8, 8}), torch::zeros({5, 3})};
  Samples const tokens{torch::zeros({2, 7}, torch::kLong), torch::zeros({2, 7, 11})};
  auto net = raytrain::load_model<SmallNet>(folder / "python.safetensors", 3);
  if (!predicts(net, folder / "python_samples.safetensors", images)) return false;
  raytrain::ScriptModule const script{torch::jit::load((folder / "script.pt").string())};
  if (!predicts(script, folder / "python_samples.safetensors", images)) return false;

  auto gpt = std::make_shared<Gpt2>(11, 8, 12, 3, 2);
  auto const unmatched = raytrain::load_safetensors(*gpt, folder / "gpt2", {.prefix = "transformer.", .strict = false});
  fmt::print("not in this model: {}\n", fmt::join(unmatched.unexpected, " "));
  if (!unmatched.missing.empty() || unmatched.unexpected.size() != 2) return false;
  if (!predicts(gpt, folder / "gpt2_samples.safetensors", tokens)) return false;

  if (!steps_as_in_python(folder / "adadelta.safetensors")) return false;

  torch::manual_seed(2);
  torch::optim::SGD optimizer{net->parameters(), 0.001};  // what it predicts stays away from 0
  net->train();
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    net->forward(torch::rand({5, 1, 8, 8})).pow(2).sum().backward();
    optimizer.step();
  }
  raytrain::save_safetensors(net, folder / "ours.safetensors");
  auto const rows = torch::rand({5, 1, 8, 8});
  raytrain::save_safetensors(Samples{rows, raytrain::TorchPredictor{net}.predict(rows)},
                             folder / "our_samples.safetensors");
  return true;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  try {
    return argc == 2 && run(argv[1]) ? 0 : 1;
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
