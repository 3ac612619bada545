// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain::detail {

/// A file of fewer bytes is read by one thread: more would not pay.
inline constexpr std::uint64_t least_bytes_of_pieces = std::uint64_t{4} << 20U;

/// Of a file, which a thread takes at a time; more where a line is longer.
inline constexpr std::size_t bytes_of_piece = std::size_t{512} << 10U;

/// What several threads make of the pieces of a file, in the file's order, ahead of the one that takes it.
///
/// Threads: one at a time.
/// Cancel:  the destructor waits for the pieces that are being made right now.
template <class Piece, std::move_constructible Part>
class PiecesAhead {
 public:
  /// The next piece, or none behind the last one. Called by one thread at a time, and not again once it has thrown.
  using Next = std::function<std::optional<Piece>()>;
  using Make = std::function<Part(Piece piece)>;

  /// `maker()` gives each thread what it makes parts by. Where the system has no thread, the caller makes them.
  PiecesAhead(int threads, Next next, std::function<Make()> maker) : next_{std::move(next)} {
    auto const on_thread = [this, maker](auto const& run) {
      run([this, make = maker()](std::size_t index) { return part(index, make); });
    };
    try {
      ahead_.emplace(std::numeric_limits<std::size_t>::max(), PrefetchOptions{.threads = threads}, on_thread);
    } catch (std::system_error const&) {
      make_here_ = maker();
    }
  }
  PiecesAhead(PiecesAhead const&) = delete;
  auto operator=(PiecesAhead const&) -> PiecesAhead& = delete;
  ~PiecesAhead() = default;

  /// The next part, or none behind the last one. Errors: what made it throws; not to be called again then.
  [[nodiscard]] auto take() -> std::optional<Part> { return ahead_ ? ahead_->take() : part(index_, make_here_); }

 private:
  /// Each index is asked for once; waits until all smaller ones have been.
  [[nodiscard]] auto part(std::size_t index, Make const& make) -> std::optional<Part> {
    std::optional<Piece> piece;
    {
      std::unique_lock lock{mutex_};
      turn_.wait(lock, [&] { return index_ == index; });
      ++index_;
      turn_.notify_all();  // they go on when this one unlocks
      if (std::exchange(is_at_end_, true)) return std::nullopt;
      piece = next_();
      is_at_end_ = !piece;
    }
    if (!piece) return std::nullopt;
    return make(*std::move(piece));
  }

  Next next_;
  Make make_here_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t index_ = 0;  ///< Whose turn it is.
  bool is_at_end_ = false;
  std::optional<OrderedPrefetch<std::optional<Part>>> ahead_;  ///< Its threads use all of the above.
};

}  // namespace raytrain::detail
