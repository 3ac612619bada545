// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>

#include <cereal/types/string.hpp>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/detail/wire_archive.hpp>

namespace raytrain {

/// A value that ranks can send each other: numbers, strings, vectors, structs with a `serialize` function, and whatever
/// else cereal can carry when the header for it (cereal/types/map.hpp ...) is included.
template <class T>
concept Transferable = std::default_initializable<T> && std::movable<T> &&
    cereal::traits::is_output_serializable<T, detail::WireOutput>::value &&
    cereal::traits::is_input_serializable<T, detail::WireInput>::value;

/// The value's fields, one after the other: numbers little end first, sizes as 64 bits.
template <Transferable T>
[[nodiscard]] auto to_bytes(T const& value) -> Bytes {
  Bytes bytes;
  detail::WireOutput archive{bytes};
  archive(value);
  return bytes;
}

/// The value that `to_bytes` made these bytes of.
///
/// Errors: `bad_message` for bytes that cannot be those of a `T`. Those of another type may be: they have no mark of
/// it.
template <Transferable T>
[[nodiscard]] auto from_bytes(BytesView bytes) -> T {
  detail::WireInput archive{bytes};
  T value{};
  try {
    archive(value);
  } catch (cereal::Exception const& error) {
    detail::refuse_message(error.what());
  }
  if (archive.left() > 0) detail::refuse_message(std::to_string(archive.left()) + " bytes follow the last field");
  return value;
}

}  // namespace raytrain
