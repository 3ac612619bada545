// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/frame.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void write_frame_header(std::span<std::byte> frame, std::uint32_t size_bytes) {
  for (std::size_t i = 0; i < frame_header_bytes; ++i) frame[i] = static_cast<std::byte>(size_bytes >> (8 * i));
}

RAYTRAIN_INLINE auto read_frame_header(BytesView frame) -> std::size_t {
  std::uint32_t size_bytes = 0;
  for (std::size_t i = 0; i < frame_header_bytes; ++i) {
    size_bytes |= std::to_integer<std::uint32_t>(frame[i]) << (8 * i);
  }
  return size_bytes;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void FrameDecoder::feed(BytesView chunk) {
  refuse_oversize();
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(consumed_));
  consumed_ = 0;
  buffer_.insert(buffer_.end(), chunk.begin(), chunk.end());
  refuse_oversize();
}

RAYTRAIN_INLINE auto FrameDecoder::next() -> std::optional<Bytes> {
  refuse_oversize();
  auto const rest = unread();
  if (rest.size() < frame_header_bytes) return std::nullopt;
  auto const size_bytes = detail::read_frame_header(rest);
  if (rest.size() - frame_header_bytes < size_bytes) return std::nullopt;
  auto const payload = rest.subspan(frame_header_bytes, size_bytes);
  consumed_ += frame_header_bytes + size_bytes;
  return Bytes{payload.begin(), payload.end()};
}

RAYTRAIN_INLINE void FrameDecoder::refuse_oversize() const {
  if (unread_bytes() < frame_header_bytes) return;
  auto const size_bytes = detail::read_frame_header(unread());
  if (size_bytes <= max_frame_bytes) return;
  throw Error{Errc::bad_message, "receiving a message",
              "its length is " + std::to_string(size_bytes) + " bytes, more than " + std::to_string(max_frame_bytes),
              "what is at the other end is not this version of raytrain"};
}

}  // namespace raytrain
