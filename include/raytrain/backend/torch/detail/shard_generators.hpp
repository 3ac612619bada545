// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// The random numbers of each virtual shard of a worker: states of the worker's own generator and of LibTorch's default
/// one, which are put in place while the worker computes for the shard. Outside of a step's batches the generators go
/// on with numbers of the worker's own.
///
/// Threads: the worker's.
class ShardGenerators {
 public:
  /// `seed_of`: where a shard's numbers begin.
  ShardGenerators(at::Generator& own, std::function<std::uint64_t(std::uint32_t shard)> seed_of)
      : own_{own}, seed_of_{std::move(seed_of)} {}

  /// Keeps the state of the shard, or of the worker, that had the generators, and puts that of this one in place. None:
  /// the worker's. A padding batch gets any, and what it draws is forgotten.
  void put_in_place(std::optional<ShardTurn> turn);

  /// Whose state is in place; none: the worker's.
  [[nodiscard]] auto in_place() const noexcept -> std::optional<ShardTurn> const& { return in_place_; }

  /// The shard's state. Not while the generators are in its place.
  [[nodiscard]] auto state(std::uint32_t shard) -> Bytes const&;
  void set_state(std::uint32_t shard, BytesView state) { shards_[shard].assign(state.begin(), state.end()); }

 private:
  at::Generator& own_;
  std::function<std::uint64_t(std::uint32_t)> seed_of_;
  std::optional<ShardTurn> in_place_;
  Bytes worker_state_;
  std::map<std::uint32_t, Bytes> shards_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/shard_generators-inl.hpp>
#endif
