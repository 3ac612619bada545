// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/detail/wire_messages.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

namespace detail {

template <std::size_t... I>
void load_alternative(WireInput& archive, std::size_t index, Message& message, std::index_sequence<I...>) {
  ((I == index ? archive(message.emplace<I>()) : archive), ...);
}

}  // namespace detail

RAYTRAIN_INLINE auto encode(Message const& message) -> Bytes {
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

RAYTRAIN_INLINE auto decode(BytesView payload) -> Message {
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
