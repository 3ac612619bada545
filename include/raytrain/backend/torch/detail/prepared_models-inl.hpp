// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/detail/model_checks.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/prepared_models.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void PreparedModels::check_windows_are_averaged() const {
  auto const* const holder = holder_of_sum();
  if (holder == nullptr) return;
  throw Error{Errc::invalid_call, "accumulating gradients",
              fmt::format("model {} had no backward in the last batch of the window before, and the gradients of "
                          "earlier ones are not averaged",
                          holder->model_number()),
              "call backward() for each model where accumulate() is true"};
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::holder_of_sum() const -> GradientAverager const* {
  auto const found =
      std::ranges::find_if(averagers_, [](auto const& each) { return each->holds_sum() && !each->is_unused(); });
  return found == averagers_.end() ? nullptr : found->get();
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::measured_share() const -> std::optional<double> {
  double sum = 0;
  int models = 0;
  for (auto const& averager : averagers_) {
    if (auto const share = averager->measured_share()) {
      sum += *share;
      ++models;
    }
  }
  return models == 0 ? std::nullopt : std::optional{sum / models};
}

RAYTRAIN_TORCH_INLINE void PreparedModels::begin_accumulating_alone() {
  accumulates_alone_ = worker_.collective.size() == WorldSize{1};
  for (auto const& [model, number] : std::exchange(alone_, {})) {
    if (auto const module = model.lock()) make_averager(*module, number, {});
  }
}

RAYTRAIN_TORCH_INLINE void PreparedModels::check_unchanged() const {
  for (auto const& averager : averagers_) {
    averager->check_unchanged();
    averager->check_has_all_buffers();
  }
}

RAYTRAIN_TORCH_INLINE void PreparedModels::train_together(torch::nn::Module const& module,
                                                          ModelOptions const& options) {
  auto const number = static_cast<std::uint16_t>(++count_);
  check_has_parameter(module, number);
  connect_norms(module, number);
  if (worker_.virtual_shards > 0) check_sums_by_shards(module);
  auto const was_timed = leave(module);
  auto const is_alone = worker_.collective.size() == WorldSize{1} && worker_.virtual_shards == 0 && !accumulates_alone_;
  if (is_alone && options.exchange == nullptr) {
    if (!was_timed) time_backwards(module, worker_.timer);
    alone_.push_back({module.weak_from_this(), number});
    return;
  }
  ModelExchange exchange{options, worker_.collective.size()};
  TaggedCollective preparing{worker_.collective, {.of = CallOf::preparation, .model = number}};
  exchange.check_same_on_all_ranks(preparing);
  share_state(module, number, WithGradients::yes);
  make_averager(module, number, std::move(exchange));
  if (worker_.virtual_shards > 0 && worker_.worker_step->turn)
    averagers_.back()->begin_turn(*worker_.worker_step->turn);
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::train_apart(torch::nn::Module const& module) -> std::uint16_t {
  if (worker_.virtual_shards > 0) {
    throw Error{
        Errc::invalid_call, "preparing a local model",
        fmt::format("the run has {} virtual shards, whose gradients are averaged in each step", worker_.virtual_shards),
        "prepare it by ctx.prepare_model(), or leave ScalingConfig::virtual_shards unset"};
  }
  auto const number = static_cast<std::uint16_t>(++count_);
  check_has_parameter(module, number);
  for (auto const& submodule : module.modules()) {
    if (auto* const norm = dynamic_cast<SyncBatchNormImpl*>(submodule.get())) norm->connect({}, {});
  }
  if (!leave(module)) time_backwards(module, worker_.timer);
  local_.push_back(module.weak_from_this());
  share_state(module, number, WithGradients::no);
  return number;
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::is_local(torch::nn::Module const& module) const -> bool {
  return std::ranges::any_of(local_, [&](auto const& each) { return each.lock().get() == &module; });
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::leave(torch::nn::Module const& module) -> bool {
  std::erase_if(averagers_, [&](auto const& each) { return each->is_of(module) || each->is_unused(); });
  auto const was_alone =
      std::ranges::any_of(alone_, [&](auto const& each) { return each.model.lock().get() == &module; });
  auto const was_timed = was_alone || is_local(module);
  auto const is_over = [&](auto const& weak) {
    auto const other = weak.lock();
    return other == nullptr || other.get() == &module;
  };
  shared_parameter_text_ = text_of_shared_parameter(averagers_);
  std::erase_if(alone_, [&](auto const& each) { return is_over(each.model); });
  std::erase_if(local_, is_over);
  return was_timed;
}

RAYTRAIN_TORCH_INLINE void PreparedModels::check_has_parameter(torch::nn::Module const& module,
                                                               std::uint16_t number) const {
  if (worker_.collective.rank() != Rank{0} || !module.parameters().empty() || !module.buffers().empty()) return;
  worker_.warn(
      fmt::format("model {} has no parameter, and no buffer, so that nothing of it is trained or saved; if it has "
                  "layers, give each to "
                  "register_module() in its constructor: fc = register_module(\"fc\", torch::nn::Linear{{784, 10}})",
                  number));
}

RAYTRAIN_TORCH_INLINE void PreparedModels::share_state(torch::nn::Module const& module, std::uint16_t number,
                                                       WithGradients with_gradients) {
  if (worker_.collective.size() == WorldSize{1}) return;
  CallTag const tag{.of = CallOf::preparation, .model = number};
  TaggedCollective comparing{worker_.collective, tag};
  auto const state = state_by_lines(module, number, with_gradients);
  check_same_on_ranks(comparing, state.lines, "preparing a model",
                      "build the same model on every rank, with the same parameters frozen");
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (state.tensors[i].layout() == at::kStrided) continue;
    throw Error{Errc::backend, "preparing a model",
                fmt::format("{} is sparse, of which other workers cannot be given the values", state.lines[i + 1]),
                "make it dense, or keep it as a member that is not registered, the same on every worker"};
  }
  TaggedCollective preparing{worker_.device.arrays(), tag};
  broadcast_tensors(preparing, state.tensors, Rank{0});
}

RAYTRAIN_TORCH_INLINE void PreparedModels::connect_norms(torch::nn::Module const& module, std::uint16_t number) const {
  std::uint16_t layer = 0;
  for (auto const& submodule : module.modules()) {
    auto* const norm = dynamic_cast<SyncBatchNormImpl*>(submodule.get());
    if (norm == nullptr) continue;
    if (worker_.virtual_shards > 0) {
      throw Error{Errc::invalid_call, "preparing a model",
                  fmt::format("it has a SyncBatchNorm, which normalises over as many batches as there are workers, in "
                              "a run of {} virtual shards, whose bits depend on no number of workers",
                              worker_.virtual_shards),
                  "take torch::nn::BatchNorm1d, 2d or 3d, or leave ScalingConfig::virtual_shards out"};
    }
    if (worker_.collective.size() > WorldSize{1}) norm->connect(joined_batch_, {.model = number, .layer = ++layer});
  }
}

RAYTRAIN_TORCH_INLINE void PreparedModels::check_sums_by_shards(torch::nn::Module const& module) const {
  for (auto const& item : module.named_parameters()) {
    auto const& parameter = item.value();
    if (!parameter.requires_grad() || !is_short(parameter.scalar_type())) continue;
    throw Error{Errc::invalid_call, "preparing a model",
                fmt::format("parameter '{}' is {}, in a run of {} virtual shards, whose sums would be rounded as often "
                            "as the number of workers says",
                            item.key(), c10::toString(parameter.scalar_type()), worker_.virtual_shards),
                "train it in float, with ctx.autocast() where that is to be fast, or leave "
                "ScalingConfig::virtual_shards out"};
  }
}

RAYTRAIN_TORCH_INLINE void PreparedModels::make_averager(torch::nn::Module const& module, std::uint16_t number,
                                                         ModelExchange exchange) {
  GradientAverager::Worker worker{.collective = worker_.collective,
                                  .device_arrays = worker_.device.on_device(),
                                  .worker_step = worker_.worker_step,
                                  .timer = worker_.timer,
                                  .warn = worker_.warn,
                                  .before_backward = {},
                                  .exchange = std::move(exchange),
                                  .print = worker_.print,
                                  .has_spare_core = worker_.has_spare_core,
                                  .spans_hosts = worker_.spans_hosts};
  if (worker_.virtual_shards > 0) {
    worker.before_backward = [this] {
      for (auto const& averager : averagers_) averager->check_parameters();
    };
  }
  averagers_.push_back(std::make_unique<GradientAverager>(module, number, std::move(worker)));
  shared_parameter_text_ = text_of_shared_parameter(averagers_);
  if (worker_.virtual_shards > 0) check_none_is_shared("averaging gradients over virtual shards");
  check_no_shared_overlap(averagers_);
  if (!shared_parameter_text_.empty()) keep_shared_behind(averagers_);
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::find_averager(torch::nn::Module const& module) const -> GradientAverager* {
  auto const found = std::ranges::find_if(averagers_, [&](auto const& each) { return each->is_of(module); });
  return found == averagers_.end() ? nullptr : found->get();
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::averager_of(torch::nn::Module const& module) const
    -> GradientAverager const* {
  if (worker_.collective.size() == WorldSize{1} && worker_.virtual_shards == 0) return nullptr;
  if (auto const* const found = find_averager(module)) return found;
  throw Error{Errc::backend, "preparing an optimizer", "its model is not prepared, and gradients would not be averaged",
              "make the model by ctx.prepare_model(), and give what that returns"};
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::leaves_out(torch::optim::Optimizer const& optimizer) const -> bool {
  return trains_unprepared(optimizer, averagers_, local_);
}

RAYTRAIN_TORCH_INLINE void PreparedModels::check_none_is_shared(char const* attempted) const {
  detail::check_none_is_shared(shared_parameter_text_, attempted);
}

RAYTRAIN_TORCH_INLINE auto PreparedModels::is_within_step() const -> bool {
  return std::ranges::any_of(averagers_, [](auto const& averager) { return averager->is_within_step(); });
}

RAYTRAIN_TORCH_INLINE void PreparedModels::begin_turn(std::optional<ShardTurn> const& turn) const {
  for (auto const& averager : averagers_) turn ? averager->begin_turn(*turn) : averager->end_turns();
}

}  // namespace raytrain::detail
