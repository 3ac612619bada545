// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <utility>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/shard_generators.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

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

}  // namespace raytrain::detail
