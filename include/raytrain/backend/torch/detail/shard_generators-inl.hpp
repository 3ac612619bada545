// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/shard_generators.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_turn.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void ShardGenerators::put_in_place(std::optional<ShardTurn> turn) {
  if (turn && !turn->is_padding && !is_padding_ && in_place_ == turn->shard) return;
  if (!is_padding_) {
    auto& kept = in_place_ ? shards_[*in_place_] : workers_;
    kept = generators_to_bytes(own_);
  }
  is_padding_ = turn && turn->is_padding;
  in_place_ = turn ? std::optional{turn->shard} : std::nullopt;
  if (is_padding_) return;
  if (!turn) return generators_from_bytes(workers_, own_);
  auto const found = shards_.find(turn->shard);
  if (found == shards_.end()) return begin(seed_of_(turn->shard));
  generators_from_bytes(found->second, own_);
}

RAYTRAIN_TORCH_INLINE auto ShardGenerators::state(std::uint32_t shard) -> Bytes const& {
  auto const [found, is_new] = shards_.try_emplace(shard);
  if (is_new) {
    auto const before = generators_to_bytes(own_);
    begin(seed_of_(shard));
    found->second = generators_to_bytes(own_);
    generators_from_bytes(before, own_);
  }
  return found->second;
}

RAYTRAIN_TORCH_INLINE void ShardGenerators::begin(std::uint64_t seed) {
  own_.set_current_seed(seed);
  DefaultGeneratorLock const lock;
  torch::manual_seed(seed);
}

}  // namespace raytrain::detail
