// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace raytrain {

/// Memory for the states that one worker puts into its checkpoints: the same from one checkpoint to the next, since to
/// get the pages of new memory takes as long as to copy a state there. By value: copies give the same memory.
///
/// Threads: every function from any thread, and what it gave may be let go on any thread.
class SnapshotBuffers {
 public:
  static constexpr std::size_t alignment_bytes = 4096;  ///< A page, and what direct writes to disks ask for.

  SnapshotBuffers();

  /// Before the first `take` for another checkpoint: lets go of what the one before did without.
  void begin_checkpoint();

  /// Memory for a file of that name, its content undefined, until the last copy of the result is gone: that which was
  /// given for the name before if it is free again, large enough and not far too large, else new one.
  ///
  /// Errors: std::bad_alloc.
  [[nodiscard]] auto take(std::string const& name, std::size_t size_bytes) -> std::shared_ptr<std::byte>;

  /// Of memory that is kept and not in use.
  [[nodiscard]] auto free_bytes() const -> std::size_t;

 private:
  class Free;

  std::shared_ptr<Free> free_;  // what is in use comes back here, or is freed when this is gone
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/snapshot_buffers-inl.hpp>
#endif
