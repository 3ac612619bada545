// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <raytrain/backend/torch/activation_checkpoint.hpp>

/// The shape of a `LanguageModel`.
struct ModelShape {
  std::int64_t context = 128;  ///< Bytes that it looks back at most.
  std::int64_t width = 128;    ///< Of a byte's vector; a multiple of `heads`.
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  bool checkpoints_layers = false;  ///< Activations within a layer are computed again in backward, and not kept.
};

/// Each byte looks at itself and those before it, by several heads; then each goes through two dense layers.
struct DecoderLayer final : torch::nn::Module {
  explicit DecoderLayer(ModelShape const& shape)
      : heads{shape.heads},
        norm1{register_module("norm1", torch::nn::LayerNorm{torch::nn::LayerNormOptions{{shape.width}}})},
        attention{register_module("attention", torch::nn::Linear{shape.width, 3 * shape.width})},
        projection{register_module("projection", torch::nn::Linear{shape.width, shape.width})},
        norm2{register_module("norm2", torch::nn::LayerNorm{torch::nn::LayerNormOptions{{shape.width}}})},
        dense1{register_module("dense1", torch::nn::Linear{shape.width, 4 * shape.width})},
        dense2{register_module("dense2", torch::nn::Linear{4 * shape.width, shape.width})} {}

  /// {n, length, width}; `is_later` {length, length} is true where a byte must not look.
  auto forward(torch::Tensor x, torch::Tensor const& is_later) -> torch::Tensor {
    auto const n = x.size(0);
    auto const length = x.size(1);
    auto const size = x.size(2) / heads;
    auto const parts = attention(norm1(x)).view({n, length, 3, heads, size}).permute({2, 0, 3, 1, 4});
    auto const scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(size));
    auto const weights = torch::softmax(scores.masked_fill(is_later, -std::numeric_limits<float>::infinity()), -1);
    x = x + projection(torch::matmul(weights, parts[2]).transpose(1, 2).reshape({n, length, heads * size}));
    return x + dense2(torch::gelu(dense1(norm2(x))));
  }

  std::int64_t heads;
  torch::nn::LayerNorm norm1;
  torch::nn::Linear attention;
  torch::nn::Linear projection;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear dense1;
  torch::nn::Linear dense2;
};

/// A small transformer of GPT-2's shape (A. Radford et al., "Language Models are Unsupervised Multitask Learners",
/// 2019) over bytes: 445,952 parameters as it is.
struct LanguageModel final : torch::nn::Module {
  explicit LanguageModel(ModelShape const& shape = {})
      : checkpoints_layers{shape.checkpoints_layers},
        bytes{register_module("bytes", torch::nn::Embedding{256, shape.width})},
        places{register_module("places", torch::nn::Embedding{shape.context, shape.width})},
        norm{register_module("norm", torch::nn::LayerNorm{torch::nn::LayerNormOptions{{shape.width}}})} {
    register_module("layers", layers);
    for (std::int64_t i = 0; i < shape.layers; ++i) layers->push_back(std::make_shared<DecoderLayer>(shape));
    torch::NoGradGuard const no_grad;
    for (auto& parameter : named_parameters()) {
      if (parameter->dim() > 1) torch::nn::init::normal_(parameter.value(), 0, 0.02);
    }
  }

  /// Of bytes {n, length} as integers, with `length` up to the context: the logits of each next byte, {n, length, 256}.
  auto forward(torch::Tensor const& text) -> torch::Tensor {
    auto const length = text.size(1);
    auto const here = torch::TensorOptions{}.device(text.device());
    auto const is_later = torch::ones({length, length}, here.dtype(torch::kBool)).triu(1);
    auto x = bytes(text) + places(torch::arange(length, here));
    for (auto const& each : *layers) {
      auto& layer = *each->as<DecoderLayer>();
      x = checkpoints_layers ? raytrain::activation_checkpoint(layer, x, is_later) : layer.forward(x, is_later);
    }
    return torch::matmul(norm(x), bytes->weight.t());
  }

  /// The text, not empty, and `count` more bytes, each drawn from the softmax at a temperature of 0.7.
  auto go_on(std::string text, std::int64_t count, at::Generator const& generator) -> std::string {
    torch::NoGradGuard const no_grad;
    auto const context = static_cast<std::size_t>(places->weight.size(0));
    for (std::int64_t i = 0; i < count; ++i) {
      auto last = text.substr(text.size() > context ? text.size() - context : 0);
      auto const seen = torch::from_blob(last.data(), {1, static_cast<std::int64_t>(last.size())}, torch::kByte);
      auto const logits = forward(seen.to(torch::kLong))[0][-1] / 0.7;
      text +=
          static_cast<char>(torch::multinomial(torch::softmax(logits, 0), 1, false, generator).item<std::int64_t>());
    }
    return text;
  }

  bool checkpoints_layers;
  torch::nn::Embedding bytes;
  torch::nn::Embedding places;
  torch::nn::LayerNorm norm;
  torch::nn::ModuleList layers;
};
