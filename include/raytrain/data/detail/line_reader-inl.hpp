// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/line_reader.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto LineReader::next() -> std::optional<std::string_view> {
  std::size_t searched = 0;
  auto const* feed = static_cast<char const*>(nullptr);
  while (true) {
    auto const unsearched = end_ - begin_ - searched;
    if (unsearched > 0) {
      feed = static_cast<char const*>(std::memchr(buffer_.data() + begin_ + searched, '\n', unsearched));
    }
    if (feed != nullptr) break;
    searched = end_ - begin_;
    if (!refill()) break;
  }
  if (feed == nullptr && searched == 0) return std::nullopt;
  std::string_view line{buffer_.data() + begin_,
                        feed == nullptr ? searched : static_cast<std::size_t>(feed - buffer_.data()) - begin_};
  begin_ += line.size() + (feed == nullptr ? 0 : 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (++number_ > 1) return line;
  return without_byte_order_mark(line, fmt::format("read '{}'", file_.path().string()));
}

RAYTRAIN_INLINE auto LineReader::next_piece(std::size_t bytes, bool (*is_row)(std::string_view line))
    -> std::optional<PieceOfRows> {
  auto const there = [&] { return std::string_view{buffer_.data() + begin_, end_ - begin_}; };
  auto feed = there().find('\n', bytes - 1);
  while (feed == std::string_view::npos && refill()) feed = there().find('\n', bytes - 1);
  auto const text = feed == std::string_view::npos ? there() : there().substr(0, feed + 1);
  if (text.empty()) return std::nullopt;
  PieceOfRows piece{{std::string{text}, number_ + 1}, 0, 0};
  begin_ += text.size();
  LinesOfPiece lines{piece};
  while (auto const line = lines.next()) *piece.rows += is_row(*line) ? 1 : 0;
  number_ = lines.number();
  return piece;
}

RAYTRAIN_INLINE auto LineReader::refill() -> bool {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  constexpr std::size_t most = std::size_t{256} << 20U;
  if (end_ == most) {
    throw Error{Errc::invalid_data, fmt::format("read '{}'", file_.path().string()),
                fmt::format("line {} has more than {} bytes", number_ + 1, most), "look whether it is a file of lines"};
  }
  if (end_ == buffer_.size()) buffer_.resize(std::min(most, 2 * end_));
  auto const got = file_.read(std::as_writable_bytes(std::span{buffer_}.subspan(end_)));
  end_ += got;
  return got > 0;
}

}  // namespace raytrain::detail
