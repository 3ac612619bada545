// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
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
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>
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

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(std::string source, Next next, Options options)
    : DatasetBlocks{source, State{.next = std::move(next),
                                  .skip = std::move(options.skip),
                                  .check = std::move(options.check),
                                  .origin = source,
                                  .before_first = std::move(options.expect)}} {
  detail::check_source_text(source_, "DatasetBlocks", "the source");
}

RAYTRAIN_INLINE DatasetBlocks::DatasetBlocks(Dataset const& dataset)
    : DatasetBlocks{"dataset " + detail::whole_digest(dataset),
                    [left = std::optional{dataset}]() mutable { return std::exchange(left, std::nullopt); }} {}

RAYTRAIN_INLINE auto DatasetBlocks::map(std::string const& name,
                                        std::function<Dataset(Dataset const& block)> function) const -> DatasetBlocks {
  detail::check_source_text(name, "DatasetBlocks::map", "the function's name");
  check_is_not_placed("DatasetBlocks::map");
  if (!function) {
    throw Error{Errc::invalid_call, "DatasetBlocks::map", fmt::format("there is no function '{}'", name),
                "give what makes a block of each"};
  }
  auto const changed = "; " + json_string(name);
  auto const blocks = std::make_shared<DatasetBlocks>(*this);
  return {source_ + changed,
          State{.next = [blocks, function = std::move(function)]() -> std::optional<Dataset> {
                  auto const block = blocks->next();
                  if (!block) return std::nullopt;
                  return function(*block);
                },
                .skip = [blocks] { return blocks->skip(); },
                .check = state_->check,
                .origin = state_->origin + changed,
                .turns = state_->turns,
                .before_first = [blocks](BlockTurns const& turns) { blocks->take_over("DatasetBlocks::map", turns); },
                .pass_over = [blocks](std::uint64_t count) { blocks->pass_over(count); }}};
}

RAYTRAIN_INLINE auto DatasetBlocks::shard(Rank rank, WorldSize workers, BlockSharing sharing) const -> DatasetBlocks {
  if (rank.value >= workers.value) {
    throw Error{Errc::invalid_call, "DatasetBlocks::shard",
                fmt::format("rank {} is none of {} workers", rank.value, workers.value),
                "give the worker's own rank, and the number of all"};
  }
  check_is_not_placed("DatasetBlocks::shard");
  auto const blocks = std::make_shared<DatasetBlocks>(*this);
  auto const skip = [blocks](std::uint32_t count) {
    for (; count > 0; --count) {
      if (!blocks->skip()) return false;
    }
    return true;
  };
  auto const stride = state_->turns.stride;
  auto const of_turn = stride * workers.value;
  State state{.next = nullptr,
              .check = state_->check,
              .origin = state_->origin,
              .turns = {state_->turns.first + stride * rank.value, of_turn},
              .before_first = [blocks](BlockTurns const& turns) { blocks->take_over("DatasetBlocks::shard", turns); }};
  if (sharing.equal) {
    auto const behind = workers.value - 1 - rank.value;
    state.next = [=]() -> std::optional<Dataset> {
      if (!skip(rank.value)) return std::nullopt;
      auto block = blocks->next();
      return block && skip(behind) ? std::move(block) : std::nullopt;
    };
    state.skip = [=] { return skip(workers.value); };
    state.pass_over = [blocks](std::uint64_t count) { blocks->pass_over(count); };
    return {fmt::format("{}; equally many blocks, of rank {} of {}", source_, rank.value, workers.value),
            std::move(state)};
  }
  auto const others_before = std::make_shared<std::uint32_t>(rank.value);
  auto const is_at_own = [=] { return skip(std::exchange(*others_before, workers.value - 1)); };
  state.next = [=] { return is_at_own() ? blocks->next() : std::nullopt; };
  state.skip = [=] { return is_at_own() && blocks->skip(); };
  state.pass_over = [=, until_own = stride * (rank.value + 1)](std::uint64_t count) {
    if (count < of_turn) return blocks->pass_over(count);
    // Up to its own block of the last turn, behind which others may have had none.
    *others_before = workers.value - 1;
    blocks->pass_over(count - of_turn + until_own);
  };
  return {fmt::format("{}; blocks of rank {} of {}", source_, rank.value, workers.value), std::move(state)};
}

RAYTRAIN_INLINE auto DatasetBlocks::prefetch(int blocks) const -> DatasetBlocks {
  constexpr int most = 1024;
  if (blocks < 1 || blocks > most) {
    throw Error{Errc::invalid_call, "DatasetBlocks::prefetch", fmt::format("{} blocks ahead", blocks),
                fmt::format("write 2, or any other number from 1 to {}", most)};
  }
  check_is_not_placed("DatasetBlocks::prefetch");
  struct Ahead {
    explicit Ahead(DatasetBlocks const& from) : blocks{from} {}

    DatasetBlocks blocks;
    std::optional<OrderedPrefetch<std::optional<Dataset>>> thread{};  // once a block was taken
  };
  auto const ahead = std::make_shared<Ahead>(*this);
  auto const take = [ahead, blocks] {
    if (!ahead->thread) {
      auto const next = [from = &ahead->blocks](std::size_t) { return from->next(); };
      ahead->thread.emplace(std::numeric_limits<std::size_t>::max(),
                            PrefetchOptions{.threads = 1, .prefetch_factor = blocks},
                            [next](auto const& run) { run(next); });
    }
    return ahead->thread->take();
  };
  return {source_, State{.next = take,
                         .skip = [ahead, take] { return ahead->thread ? take().has_value() : ahead->blocks.skip(); },
                         .check = state_->check,
                         .origin = state_->origin,
                         .turns = state_->turns,
                         .before_first =
                             [ahead, stride = state_->turns.stride](BlockTurns const& turns) {
                               // The thread takes also what a shard of this range skips.
                               auto const taken = turns.stride == stride ? turns : BlockTurns{};
                               ahead->blocks.take_over("DatasetBlocks::prefetch", taken);
                             },
                         .pass_over = [ahead](std::uint64_t count) { ahead->blocks.pass_over(count); }}};
}

RAYTRAIN_INLINE void DatasetBlocks::take_over(std::string const& attempted, BlockTurns const& turns) {
  check_is_fresh(attempted);
  auto own = std::make_shared<State>(std::move(*state_));
  auto const refuse = [attempted]() -> std::optional<Dataset> {
    throw Error{Errc::invalid_call, "DatasetBlocks::next",
                "the blocks are taken by a range that was made of these by " + attempted,
                "take them from one range alone"};
  };
  *state_ = State{.next = refuse,
                  .check = own->check,
                  .origin = own->origin,
                  .turns = own->turns,
                  .is_begun = true,
                  .position = own->position};
  state_ = std::move(own);
  note_begin(turns);
}

RAYTRAIN_INLINE void DatasetBlocks::note_begin(BlockTurns const& turns) {
  if (std::exchange(state_->is_begun, true)) return;
  if (state_->before_first) state_->before_first(turns);
}

RAYTRAIN_INLINE void DatasetBlocks::note_begin_behind(std::uint64_t blocks) {
  note_begin({state_->turns.first + blocks, state_->turns.stride});
}

RAYTRAIN_INLINE void DatasetBlocks::pass_over(std::uint64_t blocks) {
  note_begin_behind(blocks);
  if (state_->pass_over) return state_->pass_over(blocks);
  for (std::uint64_t count = 0; count < blocks; ++count) {
    if (skip()) continue;
    throw Error{Errc::invalid_data, "DatasetBlocks::begin_at",
                fmt::format("the position is behind {} blocks, and there are {}: {}", blocks, count, source_),
                "look at what has become of the others, or begin the epoch anew"};
  }
}

template <class Work>
auto DatasetBlocks::keeping_failure(Work const& work) {
  if (state_->failure) std::rethrow_exception(state_->failure);
  try {
    return work();
  } catch (...) {
    state_->failure = std::current_exception();
    release();
    throw;
  }
}

RAYTRAIN_INLINE void DatasetBlocks::begin_at(BlocksPosition const& position) {
  check_is_fresh("DatasetBlocks::begin_at");
  if (position.blocks > 0 && position.source != state_->origin) {
    throw Error{Errc::invalid_data, "DatasetBlocks::begin_at",
                fmt::format("the position is {} blocks into epoch {} of another source: {}; now it is {}",
                            position.blocks, position.epoch, position.source, state_->origin),
                fmt::format("go on with the same files and options, or begin the epoch anew by "
                            "BlocksPosition{{.epoch = {}}}",
                            position.epoch)};
  }
  if (position.blocks > 0) keeping_failure([&] { pass_over(position.blocks); });
  state_->position = position;
  state_->is_placed = true;
}

RAYTRAIN_INLINE auto DatasetBlocks::next() -> std::optional<Dataset> {
  return keeping_failure([&]() -> std::optional<Dataset> {
    note_begin_behind(0);
    if (!state_->next) return std::nullopt;
    auto block = state_->next();
    note_end_or_block(block.has_value());
    return block;
  });
}

RAYTRAIN_INLINE auto DatasetBlocks::skip() -> bool {
  return keeping_failure([&] {
    note_begin_behind(0);
    if (!state_->next) return false;
    auto const is_block = state_->skip ? state_->skip() : state_->next().has_value();
    note_end_or_block(is_block);
    return is_block;
  });
}

RAYTRAIN_INLINE void DatasetBlocks::release() {
  state_->next = nullptr;
  state_->skip = nullptr;
  state_->before_first = nullptr;
  state_->pass_over = nullptr;
}

RAYTRAIN_INLINE void DatasetBlocks::note_end_or_block(bool is_block) {
  if (!is_block) return release();
  state_->position.blocks += state_->turns.stride;
  state_->position.source = state_->origin;
}

RAYTRAIN_INLINE void DatasetBlocks::check_is_unchanged() const {
  if (state_->check) state_->check();
}

RAYTRAIN_INLINE void DatasetBlocks::check_is_not_placed(std::string const& attempted) const {
  if (!state_->is_placed) return;
  throw Error{Errc::invalid_call, attempted, "begin_at has said already where these blocks begin",
              "call begin_at of the range that the program takes blocks from"};
}

RAYTRAIN_INLINE void DatasetBlocks::check_is_fresh(std::string const& attempted) const {
  if (!state_->is_begun) return;
  throw Error{Errc::invalid_call, attempted, "some of the blocks were taken already", "make the range anew"};
}

}  // namespace raytrain
