// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain {

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(std::string source, Next next)
    : source_{std::move(source)}, next_{std::make_shared<Next>(std::move(next))} {
  if (source_.empty()) {
    throw Error{Errc::invalid_call, "DatasetBlocks", "it is not said what the rows follow from",
                "name their source, as \"simulation 7, version 2\""};
  }
}

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(Dataset const& dataset)
    : DatasetBlocks{"dataset " + dataset.digest(),
                    [left = std::optional{dataset}]() mutable { return std::exchange(left, std::nullopt); }} {}

RAYTRAIN_INLINE auto DatasetBlocks::map(std::string const& name,
                                        std::function<Dataset(Dataset const& block)> function) const -> DatasetBlocks {
  if (name.empty()) {
    throw Error{Errc::invalid_call, "DatasetBlocks::map", "the function has no name", "name it, as \"scaled by 2\""};
  }
  return {source_ + "; " + name, [blocks = *this, function = std::move(function)]() mutable -> std::optional<Dataset> {
            auto const block = blocks.next();
            if (!block) return std::nullopt;
            return function(*block);
          }};
}

RAYTRAIN_INLINE auto DatasetBlocks::next() -> std::optional<Dataset> {
  if (!*next_) return std::nullopt;
  auto block = (*next_)();
  if (!block) *next_ = nullptr;
  return block;
}

}  // namespace raytrain
