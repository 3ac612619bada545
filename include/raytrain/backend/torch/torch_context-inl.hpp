// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/detail/data_loaders.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/model_checks.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/torch_context.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// In the metadata of a checkpoint behind the last batch of an epoch that goes on: the dataset.
inline constexpr auto unfinished_key = "unfinished_epoch_of";

/// Beside step times: which part of the models of `Overlap::measured` exchange their gradients during backwards.
inline constexpr auto overlapped_name = "overlapped";

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE TorchContext::TorchContext(WorkerSetup setup, TorchConfig const& config,
                                                 ScalingConfig const& scaling)
    : TorchContext{detail::make_step_timer(), std::move(setup), config, scaling} {
  reports_step_times_ = config.report_step_times;
  auto names = field_names<StepTimes>();
  names.emplace_back(detail::overlapped_name);
  leave_out_of_identity(std::move(names));
}

RAYTRAIN_TORCH_INLINE TorchContext::TorchContext(std::shared_ptr<detail::StepTimer> timer, WorkerSetup setup,
                                                 TorchConfig const& config, ScalingConfig const& scaling)
    : TrainContext{{setup.link, std::move(setup.run), std::move(setup.group),
                    std::make_unique<detail::UnlockingCollective>(
                        std::make_unique<detail::TimedCollective>(std::move(setup.collective), timer))}},
      unlocking_{static_cast<detail::UnlockingCollective*>(&TrainContext::collective())},
      device_{{.scaling = scaling,
               .exchange = config.gpu_exchange,
               .link = setup.link,
               .collective = *unlocking_,
               .collective_timeout = collective_timeout()}},
      generators_{{.seed = seed(),
                   .rank = world_rank(),
                   .world_size = world_size(),
                   .virtual_shards = virtual_shards(),
                   .shares_process = process_workers() > WorldSize{1},
                   .gpu = device_.drawing_gpu()}},
      step_timer_{std::move(timer)},
      models_{
          {.collective = *unlocking_,
           .device = device_,
           .worker_step = worker_step_,
           .timer = step_timer_,
           .virtual_shards = virtual_shards(),
           .warn = [this](std::string text) { warn(std::move(text)); },
           .print = [this](std::string text) { print("{}", std::move(text)); },
           .has_spare_core = usable_core_count() >= local_world_size().value * (static_cast<std::size_t>(cpus()) + 1),
           .spans_hosts = local_world_size() != world_size()}} {
  at::set_num_threads(cpus());
  if (device_.gpu()) copies_ = std::make_shared<detail::DeviceCopies const>(device());
  if (virtual_shards() == 0) return;
  worker_step_->on_turn = [this](std::optional<ShardTurn> turn) {
    generators_.put_in_place(turn);
    models_.begin_turn(turn);
  };
}

RAYTRAIN_TORCH_INLINE auto TorchContext::dataset_shard(std::string_view name) const -> TorchShard {
  return shard_with_follower(TrainContext::dataset_shard(name));
}

RAYTRAIN_TORCH_INLINE auto TorchContext::loader_shard(std::string_view name, std::optional<std::size_t> examples)
    -> TorchShard {
  loaders_.add(collective(), name, examples, dataset_names());
  std::optional<std::uint64_t> before;
  if (checkpoint()) {
    auto const stored = checkpoint()->metadata().find(detail::DataLoaders::key_of(name));
    if (stored != checkpoint()->metadata().end()) before = std::strtoull(stored->second.c_str(), nullptr, 10);
  }
  return shard_with_follower(split_shard(name, *examples, before));
}

RAYTRAIN_TORCH_INLINE auto TorchContext::shard_with_follower(DatasetShard shard) const -> TorchShard {
  auto follower = std::make_shared<detail::BatchFollower>(shard.is_split() ? worker_step_ : nullptr, shard.name(),
                                                          shard.progress());
  std::erase_if(followers_, [](auto const& each) { return each.expired(); });
  followers_.push_back(follower);
  return TorchShard{std::move(shard), {.listener = std::move(follower), .timer = step_timer_, .copies = copies_}};
}

RAYTRAIN_TORCH_INLINE auto TorchContext::unfinished_epochs() const -> std::set<std::string> {
  std::set<std::string> datasets;
  for (auto const& each : followers_) {
    auto const follower = each.lock();
    if (follower && follower->is_in_last_batch() && keeps_position(follower->dataset(), follower->of_shard()))
      datasets.insert(follower->dataset());
  }
  return datasets;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::autocast(Precision precision) -> Autocast {
  if (world_rank() == Rank{0} && std::ranges::find(told_of_, precision) == told_of_.end()) {
    told_of_.push_back(precision);
    if (auto const advice = precision_advice(precision, computes_in(precision, device()))) warn(*advice);
  }
  return {precision, device()};
}

RAYTRAIN_TORCH_INLINE auto TorchContext::filled(CheckpointDraft draft) -> CheckpointDraft {
  models_.check_unchanged();
  if (models_.is_within_step()) {
    throw Error{Errc::invalid_call, "a checkpoint of virtual shards",
                "is asked for within a step, of which only some shards' gradients are there",
                "report it, or hand it over, behind a batch of which ends_step() is true"};
  }
  if (auto const& window = worker_step_->window; window.is_open() || models_.holder_of_sum() != nullptr) {
    throw Error{Errc::invalid_call, "a checkpoint while gradients are accumulated",
                fmt::format("is asked for within a window of accumulate({}), behind batch {} of it, and would be "
                            "without its gradients",
                            window.length(), window.count()),
                "report it, or hand it over, behind a batch of which accumulate() was true, and its backward"};
  }
  fill(draft);
  if (world_rank() == Rank{0}) {
    auto const unfinished = fmt::format("{}", fmt::join(unfinished_epochs(), "\n"));
    if (!unfinished.empty() || draft.metadata().contains(detail::unfinished_key)) {
      draft.set_metadata(detail::unfinished_key, unfinished);
    }
    for (auto const& [loader, examples] : loaders_.examples())
      draft.set_metadata(detail::DataLoaders::key_of(loader), std::to_string(examples));
  }
  generators_.add_to(draft);
  return draft;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::restore(TrainingState const& state) -> int {
  rates_.clear();
  for (auto const* const schedule : state.schedules()) rates_.push_back(schedule->followed_rates());
  scaler_ = state.followed_scaler();
  for (auto* const shard : state.shards()) keep_position_of(shard->shard_);
  auto const is_apart = [&](auto* optimizer) { return models_.leaves_out(*optimizer); };
  auto const sets_apart = [&](auto* schedule) { return models_.leaves_out(schedule->optimizer()); };
  if (world_rank() == Rank{0} && world_size() > WorldSize{1} &&
      (std::ranges::any_of(state.optimizers(), is_apart) || std::ranges::any_of(state.schedules(), sets_apart))) {
    warn(
        "an optimizer trains a model that is not prepared, and each worker trains another one; make it by "
        "ctx.prepare_model(), or prepare_local_model(), before the optimizer");
  }
  if (!checkpoint()) return 0;
  if (begins_from_other_run()) {
    for (auto const& text : state.load_models(*checkpoint())) {
      if (world_rank() == Rank{0}) warn(text);
    }
    return 0;
  }
  auto const rates = [&] {
    std::vector<double> all;
    for (auto* const optimizer : state.optimizers()) {
      auto const own = detail::learning_rates(*optimizer);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  auto const before = rates();
  for (auto const& text : state.load_parts(*checkpoint(), {world_rank(), world_size()}, TrainingState::Extent::all)) {
    if (world_rank() == Rank{0}) warn(text);
  }
  if (!state.has_scheduler()) compare_rates(before, rates());
  generators_.restore(*checkpoint());
  std::optional<int> epoch;
  for (auto* const shard : state.shards()) {
    auto const own = TrainContext::restore(shard->shard_);
    if (epoch) continue;
    auto const unfinished = checkpoint()->metadata().find(detail::unfinished_key);
    auto const goes_on = unfinished != checkpoint()->metadata().end() &&
                         ("\n" + unfinished->second + "\n").find("\n" + shard->name() + "\n") != std::string::npos;
    epoch = goes_on ? own - 1 : own;
  }
  return epoch ? *epoch : epoch_without_position();
}

RAYTRAIN_TORCH_INLINE auto TorchContext::restart_step_timer() const -> StepTimes {
  auto const times = step_timer_->times();
  step_timer_->restart();
  return times;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::with_automatic(Reported reported, StepTimes const& times) const -> Reported {
  auto const rates = followed_rates();
  auto const scaler = scaler_.lock();
  if (rates.empty() && scaler == nullptr && !reports_step_times_) return reported;
  auto& metrics = reported.metrics;
  reported.has_checked_names = false;  // what is added may have a name of the program's
  detail::add_rates(metrics, rates);
  if (scaler) detail::add_scaler(metrics, *scaler);
  if (!reports_step_times_) return reported;
  detail::add_step_times(metrics, times);
  auto const overlapped = models_.measured_share();
  if (overlapped && !metrics.contains(detail::overlapped_name)) metrics.set(detail::overlapped_name, *overlapped);
  return reported;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::followed_rates() const -> std::vector<double> {
  std::vector<double> all;
  for (auto const& each : rates_) {
    if (auto const rates = each.lock()) all.insert(all.end(), rates->begin(), rates->end());
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::accumulate(int batches, bool ends_data) -> bool {
  constexpr auto attempted = "accumulating gradients";
  if (batches < 1) {
    throw Error{Errc::invalid_call, attempted, fmt::format("accumulate() was called with {} batches", batches),
                "give at least 1, by which each batch is a step"};
  }
  auto& window = worker_step_->window;
  if (virtual_shards() > 0) {
    if (batches == 1) return !worker_step_->turn || worker_step_->turn->ends_step();
    throw Error{Errc::invalid_call, attempted,
                fmt::format("accumulate({}) was called in a run of {} virtual shards, of which each step accumulates "
                            "the gradients already",
                            batches, virtual_shards()),
                fmt::format("set ScalingConfig::virtual_shards to {}, by which a step has {} times as many batches",
                            std::int64_t{virtual_shards()} * batches, batches)};
  }
  if (window.is_open() && window.length() != batches) {
    throw Error{Errc::invalid_call, attempted,
                fmt::format("accumulate({}) was called within a window of {} batches, behind batch {} of it", batches,
                            window.length(), window.count()),
                "change the number behind a batch of which accumulate() was true"};
  }
  if (!window.is_open()) models_.check_windows_are_averaged();
  if (batches > 1) {
    models_.begin_accumulating_alone();
    models_.check_none_is_shared(attempted);
  }
  auto const ends_window = !std::exchange(worker_step_->ends_window, {}).empty();
  return window.add(batches, worker_step_->samples_of_batch, ends_data || ends_window);
}

RAYTRAIN_TORCH_INLINE auto TorchContext::join(bool has_batch) -> bool {
  detail::RanksWithBatch::check_may_ask(virtual_shards(), worker_step_->window);
  models_.check_none_is_shared("workers with other numbers of batches");
  models_.check_windows_are_averaged();
  return worker_step_->with_batch.ask(collective(), has_batch);
}

RAYTRAIN_TORCH_INLINE void TorchContext::check_finite(at::Tensor const& loss, NonFinite then) {
  if (auto text = loss_check_.check(loss, then, world_rank(), *worker_step_)) warn(*std::move(text));
}

RAYTRAIN_TORCH_INLINE void TorchContext::finish() {
  auto const& window = worker_step_->window;
  auto const is_lost = window.is_open() || models_.holder_of_sum() != nullptr;
  if (is_lost && world_rank() == Rank{0} && !told_to_stop()) {
    warn(fmt::format(
        "the training function has returned within a window of accumulate({}), behind batch {} of it, whose "
        "gradients no optimizer step had; give accumulate() true for is_last in the last batch",
        window.length(), window.count()));
  }
  TrainContext::finish();
}

RAYTRAIN_TORCH_INLINE void TorchContext::compare_rates(std::vector<double> const& before,
                                                       std::vector<double> const& restored) {
  if (before == restored || world_rank() != Rank{0}) return;
  warn(
      fmt::format("the optimizer goes on with the learning rate {} of the checkpoint instead of {}; to train with "
                  "another one, set it after restore()",
                  fmt::join(restored, ", "), fmt::join(before, ", ")));
}

}  // namespace raytrain
