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
#include <raytrain/core/shard_position.hpp>
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
}

RAYTRAIN_TORCH_INLINE auto TorchContext::dataset_shard(std::string_view name) const -> TorchShard {
  auto shard = TrainContext::dataset_shard(name);
  auto taken = shard.is_split() ? taken_ : nullptr;
  return TorchShard{std::move(shard), std::move(taken)};
}

RAYTRAIN_TORCH_INLINE auto TorchContext::worker_seed() const noexcept -> std::uint64_t {
  return detail::stream_seed(~seed(), world_rank().value);
}

RAYTRAIN_TORCH_INLINE auto TorchContext::with_generators(CheckpointDraft draft) -> CheckpointDraft {
  check_models();
  materialize(draft);
  auto const name = draft.is_per_rank() ? generators_name : generators_path();
  if (!draft.files().contains(name)) draft.add(name, detail::generators_to_bytes(generator_));
  return draft;
}

RAYTRAIN_TORCH_INLINE auto TorchContext::generators_path() const -> std::string {
  return rank_folder_name(world_rank()) + "/" + generators_name;
}

RAYTRAIN_TORCH_INLINE void TorchContext::restore_generators() {
  if (checkpoint()->contains(generators_path()) && checkpoint()->world_size() == world_size()) {
    return detail::generators_from_bytes(checkpoint()->read(generators_path()), generator_);
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
  if (world_size() == WorldSize{1}) return;
  std::erase_if(averagers_, [&](auto const& each) { return each->is_of(module) || each->is_unused(); });
  auto state = module.parameters();
  for (auto const& buffer : module.buffers()) state.push_back(buffer);
  auto const number = static_cast<std::uint16_t>(models_);
  TaggedCollective preparing{collective(), {.model = number}};
  detail::broadcast_tensors(preparing, state, Rank{0});
  detail::GradientAverager::Worker worker{
      .collective = collective(), .taken = taken_, .warn = [this](std::string text) { warn(std::move(text)); }};
  averagers_.push_back(std::make_unique<detail::GradientAverager>(module, number, std::move(worker)));
}

}  // namespace raytrain
