// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/worker_generators.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

inline constexpr auto generators_name = "generators.pt";
inline constexpr auto device_generator_name = "device_generator.pt";
inline constexpr auto shard_generators_name = "shard_generators.pt";

RAYTRAIN_TORCH_INLINE WorkerGenerators::WorkerGenerators(Worker const& worker)
    : worker_{worker}, own_{at::detail::createCPUGenerator(own_seed(worker_seed()))} {
  if (worker_.shares_process) {
    default_.emplace(worker_seed(), worker_.gpu);
  } else {
    seed_default_generator(worker_seed(), worker_.gpu.value_or(at::kCPU));
  }
  if (worker_.virtual_shards == 0) return;
  shards_.emplace(own_, [this](std::uint32_t shard) {
    auto const first = ~stream_seed(~worker_.seed, shard);  // no worker's
    // Of a checkpoint without their states: other numbers than before it.
    return iteration_ ? stream_seed(first, *iteration_) : first;
  });
}

RAYTRAIN_TORCH_INLINE auto WorkerGenerators::of_device() const -> at::Generator {
  return worker_.gpu ? OwnDefaultGenerator::current(*worker_.gpu) : own_;
}

RAYTRAIN_TORCH_INLINE auto WorkerGenerators::worker_seed() const noexcept -> std::uint64_t {
  return stream_seed(~worker_.seed, worker_.rank.value);
}

RAYTRAIN_TORCH_INLINE void WorkerGenerators::add_to(CheckpointDraft& draft) {
  auto const folder = draft.is_per_rank() ? std::string{} : rank_folder_name(worker_.rank) + "/";
  auto const add = [&](std::string const& name, auto const& make_bytes) {
    if (!draft.files().contains(folder + name)) draft.add(folder + name, make_bytes());
  };
  if (shards_) {
    auto const turn = shards_->in_place();
    shards_->put_in_place(std::nullopt);
    add(shard_generators_name, [&] {
      Bytes all;
      for (auto const shard : own_shards()) {
        auto const& state = shards_->state(shard);
        all.insert(all.end(), state.begin(), state.end());
      }
      return all;
    });
    add(generators_name, [&] { return generators_to_bytes(own_); });
    shards_->put_in_place(turn);
  }
  add(generators_name, [&] { return generators_to_bytes(own_); });
  if (worker_.gpu) add(device_generator_name, [&] { return generator_to_bytes(of_device()); });
}

RAYTRAIN_TORCH_INLINE auto WorkerGenerators::own_shards() const -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> shards;
  for (auto shard = worker_.rank.value; shard < worker_.virtual_shards; shard += worker_.world_size.value) {
    shards.push_back(shard);
  }
  return shards;
}

RAYTRAIN_TORCH_INLINE void WorkerGenerators::restore_shards(Checkpoint const& checkpoint) {
  iteration_ = checkpoint.training_iteration();
  auto const savers = checkpoint.world_size();
  auto const state_bytes = generators_to_bytes(own_).size();
  std::vector<Bytes> states;  // by rank that saved them
  std::size_t total = 0;
  for (std::uint32_t rank = 0; rank < savers.value; ++rank) {
    auto const path = rank_folder_name(Rank{rank}) + "/" + shard_generators_name;
    if (!checkpoint.contains(path)) return;
    states.push_back(checkpoint.read(path));
    total += states.back().size();
  }
  if (total != worker_.virtual_shards * state_bytes) return;  // of another number of shards, or another LibTorch
  for (auto const shard : own_shards()) {
    auto const of_saver = BytesView{states[shard % savers.value]};
    shards_->set_state(shard, of_saver.subspan(shard / savers.value * state_bytes, state_bytes));
  }
}

RAYTRAIN_TORCH_INLINE void WorkerGenerators::restore(Checkpoint const& checkpoint) {
  if (shards_) restore_shards(checkpoint);
  auto const path = rank_folder_name(worker_.rank) + "/" + generators_name;
  auto const path_of_device = rank_folder_name(worker_.rank) + "/" + device_generator_name;
  auto const seed = stream_seed(worker_seed(), checkpoint.training_iteration());
  auto const is_same_world = checkpoint.world_size() == worker_.world_size;
  if (worker_.gpu) {
    auto generator = of_device();
    generator.set_current_seed(seed);
    if (is_same_world && checkpoint.contains(path_of_device)) {
      generator_from_bytes(checkpoint.read(path_of_device), generator, "loading a GPU's random numbers");
    }
  }
  if (is_same_world && checkpoint.contains(path)) {
    return generators_from_bytes(checkpoint.read(path), own_);
  }
  seed_generators(seed, own_);
}

}  // namespace raytrain::detail
