// The network of adult_income, as it is trained and as it predicts.
#pragma once

#include <cstdint>

#include <torch/torch.h>

#include <raytrain/data/dataset.hpp>

struct Net : torch::nn::Module {
  explicit Net(std::int64_t features)
      : hidden{register_module("hidden", torch::nn::Linear{features, 32})},
        output{register_module("output", torch::nn::Linear{32, 1})} {}
  auto forward(torch::Tensor const& rows) -> torch::Tensor { return output(torch::relu(hidden(rows))).squeeze(1); }
  torch::nn::Linear hidden;
  torch::nn::Linear output;
};

/// Values of a row that the network gets.
inline auto features_of(raytrain::Dataset const& prepared) -> std::int64_t {
  return static_cast<std::int64_t>(prepared.column("features").row_values());
}
