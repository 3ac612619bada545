// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

/// Named files as one run of bytes: a mark, their number, for each the sizes of name and content, name and content, and
/// the XXH3-128 of all before it, as digits. Integers are little-endian.
namespace raytrain::detail {

inline constexpr std::string_view archive_mark = "raytrain checkpoint 1\n";
inline constexpr std::size_t archive_hash_bytes = 32;

void append(Bytes& out, BytesView bytes);

void append_integer(Bytes& out, std::uint64_t value);

/// `content` of a name is asked for in order, so that one file at a time is in memory beside the archive.
template <std::invocable<std::string const&> Content>
[[nodiscard]] auto write_archive(std::map<std::string, std::uint64_t> const& sizes, Content const& content) -> Bytes {
  auto total = archive_mark.size() + sizeof(std::uint64_t) + archive_hash_bytes;
  for (auto const& [name, size] : sizes) total += 2 * sizeof(std::uint64_t) + name.size() + size;
  Bytes archive;
  archive.reserve(total);
  append(archive, bytes_of(archive_mark));
  append_integer(archive, sizes.size());
  for (auto const& [name, size] : sizes) {
    Bytes const bytes = content(name);
    append_integer(archive, name.size());
    append_integer(archive, bytes.size());
    append(archive, bytes_of(name));
    append(archive, bytes);
  }
  append(archive, bytes_of(xxh3_of(archive)));
  return archive;
}

/// The files of an archive that holds exactly what was written, with names that are safe to create; views into it.
///
/// Errors: `corrupt_checkpoint`. No size that the archive claims is believed before it is compared with what is there.
class ArchiveReader {
 public:
  explicit ArchiveReader(BytesView archive) : rest_{archive} {}

  [[nodiscard]] auto files() -> std::map<std::string, BytesView>;

 private:
  [[nodiscard]] auto take(std::uint64_t count) -> BytesView;

  [[nodiscard]] auto take_integer() -> std::uint64_t;

  [[noreturn]] static void refuse(std::string happened);

  BytesView rest_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/archive-inl.hpp>
#endif
