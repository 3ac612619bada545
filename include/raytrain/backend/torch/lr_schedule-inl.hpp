// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain::detail {

/// What schedule.json holds.
struct StoredSchedule {
  std::string kind;
  std::string settings;
  std::vector<double> base_rates;
  std::int64_t steps_done{};
  std::vector<double> progress;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(kind), CEREAL_NVP(settings), CEREAL_NVP(base_rates), CEREAL_NVP(steps_done), CEREAL_NVP(progress));
  }
};

RAYTRAIN_TORCH_INLINE void add_rates(Metrics& metrics, std::vector<double> const& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    auto const name = i == 0 ? std::string{"lr"} : fmt::format("lr_{}", i);
    if (!metrics.contains(name)) metrics.set(name, rates[i]);
  }
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE LrSchedule::LrSchedule(torch::optim::Optimizer& optimizer, std::string_view kind,
                                             std::string settings)
    : optimizer_{optimizer}, kind_{kind}, settings_{std::move(settings)} {
  auto const refuse = [&](std::string happened,
                          char const* remedy =
                              "make it of an optimizer as LibTorch's, which has the parameters of a "
                              "model") {
    throw Error{Errc::invalid_config, "a " + kind_ + " of an optimizer", std::move(happened), remedy};
  };
  auto& groups = optimizer.param_groups();
  if (std::ranges::all_of(groups, [](auto const& group) { return group.params().empty(); })) {
    refuse("it has no parameters");
  }
  try {
    for (auto& group : groups) base_rates_.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    refuse("its options have no learning rate");
  }
  if (std::ranges::all_of(base_rates_, [](double rate) { return rate == 0; })) {
    refuse("its learning rates are 0, and so they would stay",
           "make one schedule of an optimizer, before anything else changes its rates");
  }
}

RAYTRAIN_TORCH_INLINE void LrSchedule::set_rates() {
  auto& groups = optimizer_.param_groups();
  auto const refuse = [&](Errc code, std::string happened, std::string remedy) {
    throw Error{code, fmt::format("{} at step {}", kind_, steps_done_), std::move(happened), std::move(remedy)};
  };
  if (groups.size() != base_rates_.size()) {
    refuse(Errc::invalid_call,
           fmt::format("its optimizer has {} parameter groups, and had {} when the schedule was made", groups.size(),
                       base_rates_.size()),
           "make the schedule behind the last add_param_group()");
  }
  auto const now = factor();
  std::vector<double> rates;
  for (auto const base_rate : base_rates_) {
    rates.push_back(base_rate * now);
    if (std::isfinite(rates.back()) && rates.back() >= 0) continue;
    refuse(Errc::invalid_config,
           fmt::format("its factor makes of the base rate {} the rate {}, which must be finite and not negative",
                       base_rate, rates.back()),
           "its settings are " + settings_ + ": choose others, or end before");
  }
  for (std::size_t i = 0; i < rates.size(); ++i) groups[i].options().set_lr(rates[i]);
  *rates_ = std::move(rates);
}

RAYTRAIN_TORCH_INLINE void LrSchedule::add_to(CheckpointDraft& draft, std::string const& file) const {
  draft.add(file, write_json(detail::StoredSchedule{kind_, settings_, base_rates_, steps_done_, progress()}));
}

RAYTRAIN_TORCH_INLINE auto LrSchedule::load_from(Checkpoint const& checkpoint, std::string const& file) -> std::string {
  auto const path = checkpoint.location() + "/" + file;
  auto const bytes = checkpoint.read(file);
  auto const stored = read_json<detail::StoredSchedule>(text_of(bytes), path);
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::backend, "loading " + path, std::move(happened), detail::state_remedy};
  };
  if (stored.kind != kind_) {
    refuse("it is of the schedule " + stored.kind + ", and this one is a " + kind_);
  }
  if (stored.base_rates.size() != base_rates_.size()) {
    refuse(fmt::format("it is of {} parameter groups, and this optimizer has {}", stored.base_rates.size(),
                       base_rates_.size()));
  }
  if (stored.steps_done < 0 || !set_progress(stored.progress)) {
    refuse("what it holds of the progress is none of a " + kind_);
  }
  steps_done_ = stored.steps_done;
  set_rates();
  if (stored.settings == settings_ && stored.base_rates == base_rates_) return {};
  return fmt::format(
      "the schedule {} goes on at step {} with other settings than the checkpoint's: {}, base rates {}; they were {}, "
      "base rates {}",
      kind_, steps_done_, settings_, fmt::join(base_rates_, ", "), stored.settings, fmt::join(stored.base_rates, ", "));
}

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
