// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/message/detail/wire_messages.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Raised whenever the bytes of a message change their meaning. Both sides must have the same.
inline constexpr std::uint8_t protocol_version = 2;

namespace detail {

template <std::size_t... I>
void load_alternative(WireInput& archive, std::size_t index, Message& message, std::index_sequence<I...>) {
  ((I == index ? archive(message.emplace<I>()) : archive), ...);
}

}  // namespace detail

/// The message as a frame, for sockets. Its payload: protocol version, index in `Message`, each one byte, then the
/// fields; numbers little end first, sizes as 64 bits.
///
/// Errors: `bad_message` for one larger than `max_frame_bytes`, `invalid_report` for more than `max_metrics` metrics.
[[nodiscard]] inline auto encode(Message const& message) -> Bytes {
  Bytes frame(frame_header_bytes);
  detail::WireOutput archive{frame};
  archive.number(protocol_version);
  archive.number(static_cast<std::uint8_t>(message.index()));
  std::visit([&](auto const& m) { archive(m); }, message);
  auto const size_bytes = frame.size() - frame_header_bytes;
  if (size_bytes > max_frame_bytes) {
    throw Error{Errc::bad_message, "encoding a message",
                "it takes " + std::to_string(size_bytes) + " bytes, more than " + std::to_string(max_frame_bytes),
                "put what is large into a checkpoint's files"};
  }
  detail::write_frame_header(frame, static_cast<std::uint32_t>(size_bytes));
  return frame;
}

/// The message that a frame's payload holds, of which nothing is taken for granted.
///
/// Errors: `bad_message`.
/// Cost: allocates at most a few times as much as the payload is long.
[[nodiscard]] inline auto decode(BytesView payload) -> Message {
  if (payload.size() > max_frame_bytes) detail::refuse_message(std::to_string(payload.size()) + " bytes are too many");
  detail::WireInput archive{payload};
  auto const version = archive.number<std::uint8_t>();
  if (version != protocol_version) {
    detail::refuse_message("it has protocol version " + std::to_string(version) + ", and this side has " +
                               std::to_string(protocol_version),
                           "run the same build on every host");
  }
  auto const index = archive.number<std::uint8_t>();
  if (index >= std::variant_size_v<Message>) {
    detail::refuse_message("its kind is " + std::to_string(index) + ", and there are " +
                           std::to_string(std::variant_size_v<Message>));
  }
  Message message;
  try {
    detail::load_alternative(archive, index, message, std::make_index_sequence<std::variant_size_v<Message>>{});
  } catch (cereal::Exception const& error) {
    detail::refuse_message(error.what());
  }
  if (archive.left() != 0) detail::refuse_message(std::to_string(archive.left()) + " bytes follow its end");
  return message;
}

}  // namespace raytrain
