// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/tensor_broadcast.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/torch_context.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/collective/tagged_collective.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_turn.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE TorchContext::TorchContext(WorkerSetup setup)
    : TorchContext{std::make_unique<detail::UnlockingCollective>(std::move(setup.collective)), std::move(setup)} {}

RAYTRAIN_TORCH_INLINE TorchContext::TorchContext(std::unique_ptr<detail::UnlockingCollective> collective,
                                                 WorkerSetup setup)
    : TrainContext{{setup.link, std::move(setup.run), std::move(setup.group), std::move(collective)}},
      unlocking_{static_cast<detail::UnlockingCollective*>(&TrainContext::collective())},
      generator_{at::detail::createCPUGenerator(worker_seed())} {
  at::set_num_threads(cpus());
  if (virtual_shards() == 0) return;
  shard_generators_.emplace(generator_, [this](std::uint32_t shard) {
    auto const first = detail::stream_seed(~seed(), shard);
    // Of a checkpoint without their states: other numbers than before it.
    return goes_on_ ? detail::stream_seed(first, checkpoint()->training_iteration()) : first;
  });
  taken_->on_turn = [this](std::optional<ShardTurn> turn) {
    shard_generators_->put_in_place(turn);
    if (!turn) return;
    for (auto const& averager : averagers_) averager->begin_turn(*turn);
  };
}

RAYTRAIN_TORCH_INLINE auto TorchContext::dataset_shard(std::string_view name) const -> TorchShard {
  auto shard = TrainContext::dataset_shard(name);
  std::shared_ptr<detail::BatchListener> taken = shard.is_split() ? taken_ : nullptr;
  return TorchShard{std::move(shard), std::move(taken)};
}

RAYTRAIN_TORCH_INLINE auto TorchContext::worker_seed() const noexcept -> std::uint64_t {
  return detail::stream_seed(~seed(), world_rank().value);
}

RAYTRAIN_TORCH_INLINE auto TorchContext::with_generators(CheckpointDraft draft) -> CheckpointDraft {
  check_models();
  if (std::ranges::any_of(averagers_, [](auto const& averager) { return averager->is_within_step(); })) {
    throw Error{Errc::invalid_call, "a checkpoint of virtual shards",
                "is asked for within a step, of which only some shards' gradients are there",
                "report it, or hand it over, behind a batch of which ends_step() is true"};
  }
  materialize(draft);
  auto const folder = draft.is_per_rank() ? std::string{} : rank_folder_name(world_rank()) + "/";
  auto const add = [&](std::string const& name, auto const& make_bytes) {
    if (!draft.files().contains(folder + name)) draft.add(folder + name, make_bytes());
  };
  if (shard_generators_) {
    shard_generators_->put_in_place(std::nullopt);
    add(shard_generators_name, [&] {
      Bytes all;
      for (auto const shard : own_shards()) {
        auto const& state = shard_generators_->state(shard);
        all.insert(all.end(), state.begin(), state.end());
      }
      return all;
    });
  }
  add(generators_name, [&] { return detail::generators_to_bytes(generator_); });
  return draft;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::shards_of(Rank rank, WorldSize world) const -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> shards;
  for (auto shard = rank.value; shard < virtual_shards(); shard += world.value) shards.push_back(shard);
  return shards;
}

RAYTRAIN_TORCH_INLINE void TorchContext::restore_shard_generators() {
  goes_on_ = true;
  auto const state_bytes = detail::generators_to_bytes(generator_).size();
  auto const savers = std::min(checkpoint()->world_size().value, virtual_shards());
  for (std::uint32_t saver = 0; saver < savers; ++saver) {
    auto const path = rank_folder_name(Rank{saver}) + "/" + shard_generators_name;
    auto const saved = shards_of(Rank{saver}, checkpoint()->world_size());
    if (!checkpoint()->contains(path)) return;
    auto const states = checkpoint()->read(path);
    if (states.size() != saved.size() * state_bytes) return;  // another number of virtual shards
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (saved[i] % world_size().value != world_rank().value) continue;
      shard_generators_->set_state(saved[i], BytesView{states}.subspan(i * state_bytes, state_bytes));
    }
  }
}

RAYTRAIN_TORCH_INLINE void TorchContext::restore_generators() {
  if (shard_generators_) restore_shard_generators();
  auto const path = rank_folder_name(world_rank()) + "/" + generators_name;
  if (checkpoint()->contains(path) && checkpoint()->world_size() == world_size()) {
    return detail::generators_from_bytes(checkpoint()->read(path), generator_);
  }
  auto const seed = detail::stream_seed(worker_seed(), checkpoint()->training_iteration());
  detail::DefaultGeneratorLock const lock;
  generator_.set_current_seed(seed);
  torch::manual_seed(seed);
}

RAYTRAIN_TORCH_INLINE void TorchContext::compare_rates(std::vector<double> const& before,
                                                       std::vector<double> const& restored) {
  if (before == restored || world_rank() != Rank{0}) return;
  warn(
      fmt::format("the optimizer goes on with the learning rate {} of the checkpoint instead of {}; to train with "
                  "another one, set it after restore()",
                  fmt::join(restored, ", "), fmt::join(before, ", ")));
}

RAYTRAIN_TORCH_INLINE void TorchContext::check_models() const {
  for (auto const& averager : averagers_) averager->check_unchanged();
}

RAYTRAIN_TORCH_INLINE void TorchContext::join(torch::nn::Module const& module) {
  ++models_;
  if (world_size() == WorldSize{1} && virtual_shards() == 0) return;
  std::erase_if(averagers_, [&](auto const& each) { return each->is_of(module) || each->is_unused(); });
  auto state = module.parameters();
  for (auto const& buffer : module.buffers()) state.push_back(buffer);
  auto const number = static_cast<std::uint16_t>(models_);
  TaggedCollective preparing{collective(), {.model = number}};
  detail::broadcast_tensors(preparing, state, Rank{0});
  detail::GradientAverager::Worker worker{.collective = collective(),
                                          .taken = taken_,
                                          .warn = [this](std::string text) { warn(std::move(text)); },
                                          .has_virtual_shards = virtual_shards() > 0};
  averagers_.push_back(std::make_unique<detail::GradientAverager>(module, number, std::move(worker)));
  if (virtual_shards() > 0 && taken_->turn) averagers_.back()->begin_turn(*taken_->turn);
}

}  // namespace raytrain
