// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/backend/torch/reduce_on_plateau.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void ReduceOnPlateauConfig::validate() const {
  auto const require = [](bool is_right, char const* field, char const* range, auto value) {
    if (is_right) return;
    throw Error{Errc::invalid_config, std::string{"ReduceOnPlateauConfig::"} + field,
                fmt::format("must be {} (got {})", range, value), "set it to a number in that range"};
  };
  require(factor > 0 && factor < 1, "factor", "above 0 and below 1", factor);
  require(patience >= 0, "patience", "at least 0", patience);
  require(min_delta >= 0 && !std::isinf(min_delta), "min_delta", "finite and not negative", min_delta);
  require(cooldown >= 0, "cooldown", "at least 0", cooldown);
  require(least_factor >= 0 && least_factor <= 1, "least_factor", "from 0 to 1", least_factor);
}

RAYTRAIN_TORCH_INLINE auto ReduceOnPlateauConfig::settings() const -> std::string {
  return fmt::format("factor {}, patience {}, mode {}, min_delta {}, cooldown {}, least_factor {}", factor, patience,
                     mode == ScoreOrder::min ? "min" : "max", min_delta, cooldown, least_factor);
}

RAYTRAIN_TORCH_INLINE ReduceOnPlateau::ReduceOnPlateau(torch::optim::Optimizer& optimizer, ReduceOnPlateauConfig config)
    : LrSchedule{optimizer, "ReduceOnPlateau", (config.validate(), config.settings())},
      config_{config},
      metric_{config.mode, config.min_delta} {
  set_rates();
}

RAYTRAIN_TORCH_INLINE void ReduceOnPlateau::step(TrainContext& ctx, double metric) {
  metric_.note(ctx, metric);
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    metric_.begin_wait();
  }
  if (metric_.waited() > config_.patience) {
    ++reductions_;
    cooldown_left_ = config_.cooldown;
    metric_.begin_wait();
  }
  count_step();
}

RAYTRAIN_TORCH_INLINE auto ReduceOnPlateau::factor() const -> double {
  return std::max(std::pow(config_.factor, static_cast<double>(reductions_)), config_.least_factor);
}

RAYTRAIN_TORCH_INLINE auto ReduceOnPlateau::progress() const -> std::vector<double> {
  return {metric_.state()[0], metric_.state()[1], static_cast<double>(reductions_),
          static_cast<double>(cooldown_left_)};
}

RAYTRAIN_TORCH_INLINE auto ReduceOnPlateau::set_progress(std::vector<double> const& numbers) -> bool {
  auto const is_count = [](double number) { return number >= 0 && number <= 1e15 && number == std::floor(number); };
  if (numbers.size() != 4 || !std::all_of(numbers.begin() + 1, numbers.end(), is_count)) return false;
  std::copy_n(numbers.begin(), 2, metric_.state().begin());
  reductions_ = static_cast<std::int64_t>(numbers[2]);
  cooldown_left_ = static_cast<std::int64_t>(numbers[3]);
  return true;
}

}  // namespace raytrain
