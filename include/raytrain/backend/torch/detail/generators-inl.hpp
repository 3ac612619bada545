// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto default_generator_state() -> at::Tensor {
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  return generator.get_state();
}

RAYTRAIN_TORCH_INLINE void set_default_generator_state(at::Tensor const& state) {
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  generator.set_state(state);
}

RAYTRAIN_TORCH_INLINE void seed_default_generator(std::uint64_t seed, at::Device device) {
  auto const set = [seed](at::Generator generator) {
    std::scoped_lock const lock{generator.mutex()};
    generator.set_current_seed(seed);
  };
  set(OwnDefaultGenerator::current());
  if (!device.is_cpu()) set(OwnDefaultGenerator::current(device));
}

RAYTRAIN_TORCH_INLINE void seed_generators(std::uint64_t seed, at::Generator& own) {
  own.set_current_seed(own_seed(seed));
  seed_default_generator(seed);
}

RAYTRAIN_TORCH_INLINE auto generator_to_bytes(at::Generator const& generator) -> Bytes {
  auto const state = generator.get_state();
  auto const* const first = static_cast<std::byte const*>(state.data_ptr());
  return {first, first + state.nbytes()};
}

RAYTRAIN_TORCH_INLINE void generator_from_bytes(BytesView bytes, at::Generator& generator, std::string_view attempted) {
  torch_call(attempted, [&] {
    auto state = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kByte);
    std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
    generator.set_state(state);
  });
}

RAYTRAIN_TORCH_INLINE auto generators_to_bytes(at::Generator const& own) -> Bytes {
  auto bytes = generator_to_bytes(own);
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  auto const shared = generator_to_bytes(generator);
  bytes.insert(bytes.end(), shared.begin(), shared.end());
  return bytes;
}

RAYTRAIN_TORCH_INLINE void generators_from_bytes(BytesView bytes, at::Generator& own) {
  constexpr auto attempted = "loading the states of random numbers";
  generator_from_bytes(bytes.first(bytes.size() / 2), own, attempted);
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  generator_from_bytes(bytes.subspan(bytes.size() / 2), generator, attempted);
}

RAYTRAIN_TORCH_INLINE void DefaultGeneratorLock::unlock() {
  state_ = default_generator_state();
  lock_.unlock();
}

RAYTRAIN_TORCH_INLINE void DefaultGeneratorLock::relock() {
  lock_.lock();
  set_default_generator_state(state_);
}

RAYTRAIN_TORCH_INLINE auto DefaultGeneratorLock::mutex() -> std::recursive_mutex& {
  static std::recursive_mutex one_at_a_time;
  return one_at_a_time;
}

class UnlockingCollective::Unlocked {
 public:
  explicit Unlocked(std::vector<DefaultGeneratorLock*> const& held) : locks_{held} {
    for (auto* const lock : std::views::reverse(locks_)) lock->unlock();
  }
  Unlocked(Unlocked const&) = delete;
  auto operator=(Unlocked const&) -> Unlocked& = delete;
  ~Unlocked() {
    for (auto* const lock : locks_) lock->relock();
  }

 private:
  std::vector<DefaultGeneratorLock*> const& locks_;
};

RAYTRAIN_TORCH_INLINE auto UnlockingCollective::duplicate() -> std::unique_ptr<Collective> {
  Unlocked const unlocked{held_};
  return collective_->duplicate();
}

RAYTRAIN_TORCH_INLINE auto UnlockingCollective::start(Task const& task) -> Pending {
  if (held_.empty()) [[likely]]
    return collective_->start(task);
  Unlocked const unlocked{held_};
  collective_->start(task).wait();
  return {};
}

RAYTRAIN_TORCH_INLINE void ShardGenerators::put_in_place(std::optional<ShardTurn> turn) {
  auto const was_padding = in_place_ && in_place_->is_padding;
  auto const before = std::exchange(in_place_, turn);
  auto const stays = turn && before && turn->shard == before->shard && turn->is_padding == was_padding;
  if (stays) return;
  if (!was_padding) (before ? shards_[before->shard] : worker_state_) = generators_to_bytes(own_);
  if (!turn) return generators_from_bytes(worker_state_, own_);
  if (turn->is_padding) return;
  auto const found = shards_.find(turn->shard);
  if (found == shards_.end()) return seed_generators(seed_of_(turn->shard), own_);
  generators_from_bytes(found->second, own_);
}

RAYTRAIN_TORCH_INLINE auto ShardGenerators::state(std::uint32_t shard) -> Bytes const& {
  auto const [found, is_new] = shards_.try_emplace(shard);
  if (is_new) {
    auto const before = generators_to_bytes(own_);
    seed_generators(seed_of_(shard), own_);
    found->second = generators_to_bytes(own_);
    generators_from_bytes(before, own_);
  }
  return found->second;
}

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
    if (!draft.contains(folder + name)) draft.add(folder + name, make_bytes());
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
