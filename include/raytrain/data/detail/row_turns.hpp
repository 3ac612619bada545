// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain::detail {

/// Which rows of a file are kept, where its blocks take turns: those of the first block in any case, from which the
/// types follow.
class RowTurns {
 public:
  /// All rows.
  RowTurns() = default;

  /// `block_rows`: from 1.
  RowTurns(std::uint64_t block_rows, BlockTurns const& turns) : block_rows_{block_rows}, turns_{turns} {}

  /// The same, but for the first block, which takes its turn as the others do.
  [[nodiscard]] auto with_known_types() const noexcept -> RowTurns {
    auto turns = *this;
    turns.knows_types_ = true;
    return turns;
  }

  [[nodiscard]] auto keeps(std::uint64_t row) const noexcept -> bool {
    auto const block = row / block_rows_;
    return (block == 0 && !knows_types_) || turns_.takes(block);
  }

  /// Errors: `invalid_call` for a row that it does not keep.
  void check_keeps(std::uint64_t row, std::string const& attempted) const {
    if (keeps(row)) return;
    throw Error{Errc::invalid_call, attempted, "rows are taken that a shard of them, or a position, skips",
                "take blocks from a range or from one shard of it, not from both"};
  }

  /// The first row of the next block.
  [[nodiscard]] auto end_of_block(std::uint64_t row) const noexcept -> std::uint64_t {
    return row - row % block_rows_ + block_rows_;
  }

  /// Whether it keeps one of `count` rows.
  [[nodiscard]] auto keeps_any(std::uint64_t first, std::uint64_t count) const noexcept -> bool {
    for (auto row = first; row < first + count; row = end_of_block(row)) {
      if (keeps(row)) return true;
    }
    return false;
  }

 private:
  std::uint64_t block_rows_ = std::uint64_t{1} << 63U;
  BlockTurns turns_{};
  bool knows_types_ = false;
};

}  // namespace raytrain::detail
