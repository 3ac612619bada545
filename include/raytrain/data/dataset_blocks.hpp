// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// Rows that come block by block, each a `Dataset` of the same columns, so that one block is in memory at a time. An
/// input range that is gone through once:
///
///     for (raytrain::Dataset const& block : raytrain::csv_blocks("clicks/*.csv")) ...
///
/// Threads: one at a time.
class DatasetBlocks {
 public:
  /// The next block, or none behind the last one; it is not called again then.
  using Next = std::function<std::optional<Dataset>()>;

  /// `source`: what the rows follow from, so that two ranges with the same one have the same rows: "simulation 7,
  /// version 2". `materialize` asks for it.
  DatasetBlocks(std::string source, Next next);

  /// One block, whose source is the dataset's digest.
  DatasetBlocks(Dataset const& dataset);

  [[nodiscard]] auto source() const noexcept -> std::string const& { return source_; }

  /// What `function` makes of each block, which may have other rows and columns. `name`, "scaled by 2", becomes part of
  /// the source: whoever changes the function changes it.
  [[nodiscard]] auto map(std::string const& name, std::function<Dataset(Dataset const& block)> function) const
      -> DatasetBlocks;

  /// Errors: those of what makes it.
  [[nodiscard]] auto next() -> std::optional<Dataset>;

  class Iterator {
   public:
    using value_type = Dataset;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(DatasetBlocks* blocks) : blocks_{blocks}, block_{blocks->next()} {}

    [[nodiscard]] auto operator*() const noexcept -> Dataset const& { return *block_; }
    auto operator++() -> Iterator& {
      block_.reset();  // before there is another one
      block_ = blocks_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend auto operator==(Iterator const& it, std::default_sentinel_t) noexcept -> bool { return !it.block_; }

   private:
    DatasetBlocks* blocks_ = nullptr;
    std::optional<Dataset> block_{};
  };

  [[nodiscard]] auto begin() -> Iterator { return Iterator{this}; }
  [[nodiscard]] auto end() const noexcept -> std::default_sentinel_t { return {}; }

 private:
  std::string source_;
  std::shared_ptr<Next> next_;  ///< Of this range and those that `map` has made of it; empty behind the last block.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/dataset_blocks-inl.hpp>
#endif
