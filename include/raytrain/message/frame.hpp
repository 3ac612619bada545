// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// A frame is the length of its payload in bytes, 32 bits little end first, and the payload.
inline constexpr std::size_t frame_header_bytes = 4;

/// Largest payload of a frame.
inline constexpr std::size_t max_frame_bytes = std::size_t{16} << 20U;

namespace detail {

inline void write_frame_header(std::span<std::byte> frame, std::uint32_t size_bytes) {
  for (std::size_t i = 0; i < frame_header_bytes; ++i) frame[i] = static_cast<std::byte>(size_bytes >> (8 * i));
}

[[nodiscard]] inline auto read_frame_header(BytesView frame) -> std::size_t {
  std::uint32_t size_bytes = 0;
  for (std::size_t i = 0; i < frame_header_bytes; ++i) {
    size_bytes |= std::to_integer<std::uint32_t>(frame[i]) << (8 * i);
  }
  return size_bytes;
}

}  // namespace detail

/// Cuts a stream of bytes, which comes in chunks of any size, into the payloads of its frames.
///
/// After an error the stream has no next frame: each further call throws it again.
class FrameDecoder {
 public:
  /// Takes in the stream's next bytes. Call `next` until it has nothing left before feeding more.
  ///
  /// Errors: `bad_message` once the four bytes of a length above `max_frame_bytes` are there.
  void feed(BytesView chunk) {
    refuse_oversize();
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(consumed_));
    consumed_ = 0;
    buffer_.insert(buffer_.end(), chunk.begin(), chunk.end());
    refuse_oversize();
  }

  /// The next payload that is complete; nothing if more bytes are needed for it.
  ///
  /// Errors: as `feed`.
  [[nodiscard]] auto next() -> std::optional<Bytes> {
    refuse_oversize();
    auto const rest = unread();
    if (rest.size() < frame_header_bytes) return std::nullopt;
    auto const size_bytes = detail::read_frame_header(rest);
    if (rest.size() - frame_header_bytes < size_bytes) return std::nullopt;
    auto const payload = rest.subspan(frame_header_bytes, size_bytes);
    consumed_ += frame_header_bytes + size_bytes;
    return Bytes{payload.begin(), payload.end()};
  }

  /// Bytes of a frame that is not complete: none where a stream may end.
  [[nodiscard]] auto unread_bytes() const noexcept -> std::size_t { return buffer_.size() - consumed_; }

 private:
  [[nodiscard]] auto unread() const noexcept -> BytesView { return BytesView{buffer_}.subspan(consumed_); }

  void refuse_oversize() const {
    if (unread_bytes() < frame_header_bytes) return;
    auto const size_bytes = detail::read_frame_header(unread());
    if (size_bytes <= max_frame_bytes) return;
    throw Error{Errc::bad_message, "receiving a message",
                "its length is " + std::to_string(size_bytes) + " bytes, more than " + std::to_string(max_frame_bytes),
                "what is at the other end is not this version of raytrain"};
  }

  Bytes buffer_;
  std::size_t consumed_ = 0;
};

}  // namespace raytrain
