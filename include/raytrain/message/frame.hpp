// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <raytrain/core/bytes.hpp>

namespace raytrain {

/// A frame is the length of its payload in bytes, 32 bits little end first, and the payload.
inline constexpr std::size_t frame_header_bytes = 4;

/// Largest payload of a frame.
inline constexpr std::size_t max_frame_bytes = std::size_t{16} << 20U;

namespace detail {

void write_frame_header(std::span<std::byte> frame, std::uint32_t size_bytes);

[[nodiscard]] auto read_frame_header(BytesView frame) -> std::size_t;

}  // namespace detail

/// Cuts a stream of bytes, which comes in chunks of any size, into the payloads of its frames.
///
/// After an error the stream has no next frame: each further call throws it again.
class FrameDecoder {
 public:
  /// Takes in the stream's next bytes. Call `next` until it has nothing left before feeding more.
  ///
  /// Errors: `bad_message` once the four bytes of a length above `max_frame_bytes` are there.
  void feed(BytesView chunk);

  /// The next payload that is complete; nothing if more bytes are needed for it.
  ///
  /// Errors: as `feed`.
  [[nodiscard]] auto next() -> std::optional<Bytes>;

  /// Bytes of a frame that is not complete: none where a stream may end.
  [[nodiscard]] auto unread_bytes() const noexcept -> std::size_t { return buffer_.size() - consumed_; }

 private:
  [[nodiscard]] auto unread() const noexcept -> BytesView { return BytesView{buffer_}.subspan(consumed_); }

  void refuse_oversize() const;

  Bytes buffer_;
  std::size_t consumed_ = 0;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/frame-inl.hpp>
#endif
