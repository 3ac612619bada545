// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// Of every byte, other than `Dataset::digest`.
[[nodiscard]] RAYTRAIN_INLINE auto whole_digest(Dataset const& dataset) -> std::string {
  Xxh3 hash;
  for (auto const& column : dataset.columns()) {
    hash.update(bytes_of(fmt::format("{} {}\n", column.describe(), column.rows())));
    hash.update(column.bytes());
    if (!column.is_text()) continue;
    for (auto const& text : column.categories()) hash.update(bytes_of(fmt::format("{} {}", text.size(), text)));
  }
  return hash.hex();
}

RAYTRAIN_INLINE void check_source_text(std::string const& text, char const* attempted, char const* what) {
  if (!text.empty() && is_utf8(text)) return;
  throw Error{Errc::invalid_call, attempted, fmt::format("{} is {}", what, text.empty() ? "empty" : "not UTF-8"),
              "say what the rows follow from, as \"simulation 7, version 2\""};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(std::string source, Next next, std::function<void()> check)
    : source_{std::move(source)}, state_{std::make_shared<State>(State{std::move(next), std::move(check)})} {
  detail::check_source_text(source_, "DatasetBlocks", "the source");
}

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(Dataset const& dataset)
    : DatasetBlocks{"dataset " + detail::whole_digest(dataset),
                    [left = std::optional{dataset}]() mutable { return std::exchange(left, std::nullopt); }} {}

RAYTRAIN_INLINE auto DatasetBlocks::map(std::string const& name,
                                        std::function<Dataset(Dataset const& block)> function) const -> DatasetBlocks {
  detail::check_source_text(name, "DatasetBlocks::map", "the function's name");
  return {fmt::format("{}; {}", source_, json_string(name)),
          [blocks = *this, function = std::move(function), is_first = true]() mutable -> std::optional<Dataset> {
            if (std::exchange(is_first, false)) blocks.check_is_fresh("DatasetBlocks::map");
            auto const block = blocks.next();
            if (!block) return std::nullopt;
            return function(*block);
          },
          state_->check};
}

RAYTRAIN_INLINE auto DatasetBlocks::shard(Rank rank, WorldSize workers) const -> DatasetBlocks {
  if (rank.value >= workers.value) {
    throw Error{Errc::invalid_call, "DatasetBlocks::shard",
                fmt::format("rank {} is none of {} workers", rank.value, workers.value),
                "give the worker's own rank, and the number of all"};
  }
  return {fmt::format("{}; blocks of rank {} of {}", source_, rank.value, workers.value),
          [blocks = *this, others_before = rank.value, workers = workers.value,
           is_first = true]() mutable -> std::optional<Dataset> {
            if (std::exchange(is_first, false)) blocks.check_is_fresh("DatasetBlocks::shard");
            for (auto left = std::exchange(others_before, workers - 1); left > 0; --left) {
              if (!blocks.next()) return std::nullopt;
            }
            return blocks.next();
          },
          state_->check};
}

RAYTRAIN_INLINE auto DatasetBlocks::next() -> std::optional<Dataset> {
  state_->is_begun = true;
  if (state_->failure) std::rethrow_exception(state_->failure);
  if (!state_->next) return std::nullopt;
  try {
    auto block = state_->next();
    if (!block) state_->next = nullptr;
    return block;
  } catch (...) {
    state_->failure = std::current_exception();
    state_->next = nullptr;  // with what it holds
    throw;
  }
}

RAYTRAIN_INLINE void DatasetBlocks::check_is_unchanged() const {
  if (state_->check) state_->check();
}

RAYTRAIN_INLINE void DatasetBlocks::check_is_fresh(std::string const& attempted) const {
  if (!state_->is_begun) return;
  throw Error{Errc::invalid_call, attempted, "some of the blocks were taken already", "make the range anew"};
}

}  // namespace raytrain
