// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/exchange_in_float.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/power_sgd.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Makes the columns of a matrix orthonormal, by Gram-Schmidt. A column that depends on those before it, but for
/// rounding, becomes 0. One element after the other: the same bits with any number of threads.
RAYTRAIN_TORCH_INLINE void orthonormalize(at::Tensor const& matrix) {
  if (!matrix.is_cpu()) {
    auto const on_cpu = matrix.cpu();
    orthonormalize(on_cpu);
    matrix.copy_(on_cpu);
    return;
  }
  constexpr auto rounding = 1e-10;  // of squares
  auto values = matrix.accessor<float, 2>();
  auto const product = [&](std::int64_t left, std::int64_t right) {
    double sum = 0;
    for (std::int64_t row = 0; row < values.size(0); ++row) sum += double{values[row][left]} * values[row][right];
    return sum;
  };
  std::vector<double> before;
  for (std::int64_t column = 0; column < values.size(1); ++column) before.push_back(product(column, column));
  for (std::int64_t column = 0; column < values.size(1); ++column) {
    auto const square = product(column, column);
    auto const is_dependent = square <= rounding * before[static_cast<std::size_t>(column)];
    auto const factor = is_dependent ? 0 : 1 / std::sqrt(square);
    for (std::int64_t row = 0; row < values.size(0); ++row) {
      values[row][column] = static_cast<float>(factor * values[row][column]);
    }
    for (auto other = column + 1; other < values.size(1); ++other) {
      auto const part = product(column, other);
      for (std::int64_t row = 0; row < values.size(0); ++row) {
        values[row][other] -= static_cast<float>(part * values[row][column]);
      }
    }
  }
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE void PowerSGDConfig::validate() const {
  if (rank < 1) {
    throw Error{Errc::invalid_config, "PowerSGDConfig::rank", fmt::format("must be at least 1 (got {})", rank),
                "write 1 to 4: the larger, the nearer is the product, and the more travels"};
  }
  if (exact_steps < 0) {
    throw Error{Errc::invalid_config, "PowerSGDConfig::exact_steps",
                fmt::format("must not be negative (got {})", exact_steps), "write 0 for none"};
  }
}

/// A gradient that travels as two matrices.
struct PowerSGD::Matrix {
  GradientBucket::Part const* part;
  std::int64_t rank;
  at::Tensor sum;            ///< The gradient and the error, {rows, columns}.
  at::Tensor factor;         ///< In the state, {columns, rank}.
  at::Tensor error;          ///< In the state, {rows, columns}.
  at::Tensor factor_before;  ///< Where the gradient is.
  at::Tensor base{};         ///< Orthonormal, {rows, rank}.
};

RAYTRAIN_TORCH_INLINE PowerSGD::PowerSGD(PowerSGDConfig config) : config_{config} { config_.validate(); }

RAYTRAIN_TORCH_INLINE auto PowerSGD::description() const -> std::string {
  return fmt::format("PowerSGD(rank {}, {} exact steps, seed {})", config_.rank, config_.exact_steps, config_.seed);
}

RAYTRAIN_TORCH_INLINE auto PowerSGD::rank_of(at::Tensor const& gradient) const -> std::int64_t {
  if (gradient.dim() < 2 || gradient.numel() == 0) return 0;
  auto const rows = gradient.size(0);
  auto const columns = gradient.numel() / rows;
  auto const rank = std::min({std::int64_t{config_.rank}, rows, columns});
  return 2 * rank * (rows + columns) <= gradient.numel() ? rank : 0;
}

RAYTRAIN_TORCH_INLINE auto PowerSGD::kept(std::vector<float>& values, std::int64_t size, std::string const& name)
    -> at::Tensor {
  if (values.empty()) values.resize(static_cast<std::size_t>(size));
  if (values.size() != static_cast<std::size_t>(size)) {
    throw Error{Errc::backend, "exchanging gradients by PowerSGD",
                fmt::format("its state has {} numbers for parameter '{}', which needs {}: it is of another model, or "
                            "rank",
                            values.size(), name, size),
                "give it the state that it has made, or begin without one"};
  }
  return torch::from_blob(values.data(), {size});
}

RAYTRAIN_TORCH_INLINE auto PowerSGD::matrix_of(GradientBucket::Part const& part) -> Matrix {
  auto const rows = part.gradient.size(0);
  auto const columns = part.gradient.numel() / rows;
  auto const rank = rank_of(part.gradient);
  auto const number = state_.factors.size();
  auto const [entry, is_new] = state_.factors.try_emplace(part.name);
  auto factor = kept(entry->second, columns * rank, part.name).view({columns, rank});
  if (is_new) {
    factor.normal_(0, 1, at::detail::createCPUGenerator(detail::stream_seed(config_.seed, number)));
  }
  auto error = kept(state_.errors[part.name], rows * columns, part.name).view({rows, columns});
  auto const device = part.gradient.device();
  auto sum = part.gradient.reshape({rows, columns}).add(error.to(device));
  auto factor_before = factor.to(device);
  return {&part, rank, std::move(sum), std::move(factor), std::move(error), std::move(factor_before)};
}

RAYTRAIN_TORCH_INLINE void PowerSGD::exchange(GradientBucket const& bucket, Collective& collective) {
  if (collective.size() == WorldSize{1}) return;
  if (detail::is_short(bucket.values.scalar_type())) {
    return detail::exchange_in_float(bucket, [&](GradientBucket const& wide) { exchange(wide, collective); });
  }
  if (bucket.index == 0) ++state_.steps;
  auto const average = [&]<class T>(T* values) {
    collective.all_reduce(std::span{values, static_cast<std::size_t>(bucket.values.numel())}, ReduceOp::average);
  };
  if (bucket.values.scalar_type() == torch::kDouble) return average(bucket.values.data_ptr<double>());
  if (state_.steps <= config_.exact_steps) return average(bucket.values.data_ptr<float>());
  exchange_matrices(bucket, collective);
}

RAYTRAIN_TORCH_INLINE void PowerSGD::exchange_matrices(GradientBucket const& bucket, Collective& collective) {
  torch::NoGradGuard const no_grad;
  std::vector<Matrix> matrices;
  std::vector<at::Tensor> exact;
  std::int64_t exact_size = 0;
  std::int64_t base_size = 0;
  std::int64_t factor_size = 0;
  for (auto const& part : bucket.parts) {
    if (!part.is_used) continue;
    if (rank_of(part.gradient) > 0) {
      auto const& added = matrices.emplace_back(matrix_of(part));
      base_size += added.sum.size(0) * added.rank;
      factor_size += added.factor.numel();
    } else {
      exact.push_back(part.gradient);
      exact_size += part.gradient.numel();
    }
  }
  auto const most = std::max(exact_size + base_size, factor_size);
  auto const sent = memory_.at_least(most, bucket.values.options(), collective);
  std::int64_t filled = 0;
  auto const next = [&](at::IntArrayRef sizes) {
    auto const size = c10::multiply_integers(sizes);
    return sent.narrow(0, std::exchange(filled, filled + size), size).view(sizes);
  };
  auto const average = [&] {
    collective.all_reduce(detail::elements_of<float>(sent.narrow(0, 0, std::exchange(filled, 0))), ReduceOp::average);
  };

  std::vector<at::Tensor> averaged;
  for (auto const& gradient : exact) averaged.push_back(next(gradient.sizes()).copy_(gradient));
  for (auto& matrix : matrices) {
    matrix.base = next({matrix.sum.size(0), matrix.rank});
    matrix.base.copy_(matrix.sum.mm(matrix.factor_before));
  }
  average();
  for (std::size_t i = 0; i < exact.size(); ++i) exact[i].copy_(averaged[i]);
  for (auto& matrix : matrices) {
    matrix.base = matrix.base.clone();
    detail::orthonormalize(matrix.base);
  }

  std::vector<at::Tensor> factors;
  for (auto const& matrix : matrices) {
    factors.push_back(next(matrix.factor.sizes()).copy_(matrix.sum.t().mm(matrix.base)));
  }
  average();
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    auto const& matrix = matrices[i];
    auto const& gradient = matrix.part->gradient;
    auto product = gradient.reshape(matrix.sum.sizes());  // where that is, unless it lies in another order
    at::mm_out(product, matrix.base, factors[i].t());
    if (!product.is_alias_of(gradient)) gradient.copy_(product.view(gradient.sizes()));
    auto const largest = product.norm(std::numeric_limits<float>::infinity());  // isfinite() makes copies
    if (!std::isfinite(largest.item<float>())) continue;
    matrix.error.copy_(matrix.sum.sub_(product));
    // A column of zeros would stay one for ever.
    auto const is_used = factors[i].norm(2, 0, /*keepdim=*/true).gt(0);
    matrix.factor.copy_(torch::where(is_used, factors[i], matrix.factor_before));
  }
}

}  // namespace raytrain
