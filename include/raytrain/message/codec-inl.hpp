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

/// What distinguishes the directions on the wire.
template <class M>
struct Direction;

template <>
struct Direction<WorkerMessage> {
  static constexpr std::uint8_t first_kind = 0;
  static constexpr auto other_sender = "a controller";
};

template <>
struct Direction<ControllerMessage> {
  static constexpr std::uint8_t first_kind = first_controller_kind;
  static constexpr auto other_sender = "a worker";
};

template <class M>
[[nodiscard]] auto encode_one(M const& message) -> Bytes {
  Bytes frame(frame_header_bytes);
  WireOutput archive{frame};
  archive.number(protocol_version);
  archive.number(static_cast<std::uint8_t>(Direction<M>::first_kind + message.index()));
  std::visit([&](auto const& m) { archive(m.attempt, m); }, message);
  auto const size_bytes = frame.size() - frame_header_bytes;
  if (size_bytes > max_frame_bytes) {
    throw Error{Errc::bad_message, "encoding a message",
                "it takes " + std::to_string(size_bytes) + " bytes, more than " + std::to_string(max_frame_bytes),
                "put what is large into a checkpoint's files"};
  }
  write_frame_header(frame, static_cast<std::uint32_t>(size_bytes));
  return frame;
}

template <class M>
void load_alternative(WireInput& archive, std::size_t index, M& message) {
  auto const load = [&archive](auto& m) { archive(m.attempt, m); };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == index ? load(message.template emplace<I>()) : void()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<M>>{});
}

template <class M>
[[nodiscard]] auto kind_index(std::uint8_t kind) -> std::size_t {
  constexpr auto is_of_other = [](std::uint8_t k) {
    return (k >= first_controller_kind) != (Direction<M>::first_kind > 0);
  };
  constexpr auto count = std::variant_size_v<M>;
  auto const index = static_cast<std::size_t>(kind % first_controller_kind);
  auto const is_known = kind < 2 * first_controller_kind;
  if (is_known && is_of_other(kind)) {
    refuse_message("its kind is " + std::to_string(kind) + ", which " + Direction<M>::other_sender + " sends");
  }
  if (!is_known || index >= count) {
    refuse_message("its kind is " + std::to_string(kind) + ", and there are " + std::to_string(count));
  }
  return index;
}

template <class M>
[[nodiscard]] auto decode_one(BytesView payload) -> M {
  if (payload.size() > max_frame_bytes) refuse_message(std::to_string(payload.size()) + " bytes are too many");
  WireInput archive{payload};
  auto const version = archive.number<std::uint8_t>();
  if (version != protocol_version) {
    refuse_message("it has protocol version " + std::to_string(version) + ", and this side has " +
                       std::to_string(protocol_version),
                   "run the same build on every host");
  }
  auto const index = kind_index<M>(archive.number<std::uint8_t>());
  M message;
  try {
    load_alternative(archive, index, message);
  } catch (cereal::Exception const& error) {
    refuse_message(error.what());
  }
  if (archive.left() != 0) refuse_message(std::to_string(archive.left()) + " bytes follow its end");
  return message;
}

}  // namespace detail

RAYTRAIN_INLINE auto encode(WorkerMessage const& message) -> Bytes { return detail::encode_one(message); }

RAYTRAIN_INLINE auto encode(ControllerMessage const& message) -> Bytes { return detail::encode_one(message); }

template <>
RAYTRAIN_INLINE auto decode<WorkerMessage>(BytesView payload) -> WorkerMessage {
  return detail::decode_one<WorkerMessage>(payload);
}

template <>
RAYTRAIN_INLINE auto decode<ControllerMessage>(BytesView payload) -> ControllerMessage {
  return detail::decode_one<ControllerMessage>(payload);
}

}  // namespace raytrain
