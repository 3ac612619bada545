// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

inline constexpr std::string_view seal_begin = ",\n  \"xxh3\": \"";
inline constexpr std::string_view seal_end = "\"\n}\n";
inline constexpr std::size_t seal_digits = 32;

/// JSON of a struct, with a last field "xxh3" that is the XXH3-128 of all text before it: no byte of the file can
/// change unnoticed, and it stays JSON for every other reader.
template <class T>
[[nodiscard]] auto write_sealed(T const& value) -> std::string {
  auto text = write_json(value);
  text.resize(text.rfind("\n}"));
  auto const seal = xxh3_of(bytes_of(text));
  return text.append(seal_begin).append(seal).append(seal_end);
}

/// The JSON without its seal; nothing if a byte of it changed.
[[nodiscard]] auto unseal(std::string_view text) -> std::optional<std::string>;

/// Value of the field "format" of the outermost object; no text in JSON holds a line break, so the line is unique.
[[nodiscard]] auto format_of(std::string_view json) -> std::uint32_t;

/// Reads what `write_sealed` writes; `T::newest_format` is the newest value of its field `format` that is understood.
///
/// Errors: `invalid_data`, for one that `what` names; `foreign_run` for one by a newer raytrain.
template <class T>
[[nodiscard]] auto read_sealed(std::string_view text, std::string const& what) -> T {
  auto const json = unseal(text);
  if (!json) {
    throw Error{Errc::invalid_data, "reading " + what, "its bytes are not those that were written"};
  }
  if (auto const format = format_of(*json); format > T::newest_format) {
    throw Error{Errc::foreign_run, "reading " + what,
                "it was written by a newer raytrain (format " + std::to_string(format) + ", this one reads up to " +
                    std::to_string(T::newest_format) + ")",
                "use that version"};
  }
  return read_json<T>(*json, what);
}

/// No more are read from a file: a checkpoint of two million files has them. A sparse file claims any size.
inline constexpr std::uint64_t most_sealed_bytes = 256U << 20U;

/// The same from a file. Errors: `io`, too.
template <class T>
[[nodiscard]] auto read_sealed_file(std::filesystem::path const& path) -> T {
  auto const text = read_file(path, most_sealed_bytes);
  return read_sealed<T>(text_of(text), path.filename().string());
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/sealed_json-inl.hpp>
#endif
