// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CheckpointCopies::add(CheckpointOrdinal checkpoint, Files files) {
  std::lock_guard const lock{mutex_};
  uncommitted_[checkpoint].merge(files);
}

RAYTRAIN_INLINE void CheckpointCopies::drop(CheckpointOrdinal checkpoint) {
  std::lock_guard const lock{mutex_};
  uncommitted_.erase(checkpoint);
}

RAYTRAIN_INLINE void CheckpointCopies::settle(CheckpointSettled const& settled) {
  if (!settled.number) return drop(settled.checkpoint);
  std::lock_guard const lock{mutex_};
  auto const found = uncommitted_.find(settled.checkpoint);
  files_ = found == uncommitted_.end() ? Files{} : std::move(found->second);
  number_ = *settled.number;
  uncommitted_.erase(uncommitted_.begin(), uncommitted_.upper_bound(settled.checkpoint));
}

RAYTRAIN_INLINE void CheckpointCopies::drop_uncommitted() {
  std::lock_guard const lock{mutex_};
  uncommitted_.clear();
}

RAYTRAIN_INLINE void CheckpointCopies::add(CheckpointNumber number, std::string name, SharedBytes content) {
  std::lock_guard const lock{mutex_};
  if (std::exchange(number_, number) != number) files_.clear();
  files_.insert_or_assign(std::move(name), std::move(content));
}

RAYTRAIN_INLINE auto CheckpointCopies::find(CheckpointNumber number, std::string const& name) const
    -> std::optional<SharedBytes> {
  std::lock_guard const lock{mutex_};
  auto const found = number_ == number ? files_.find(name) : files_.end();
  return found == files_.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace raytrain
