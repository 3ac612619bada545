// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/xxh3.hpp>

/// Named files as one run of bytes: a mark, their number, for each the sizes of name and content, name and content, and
/// the XXH3-128 of all before it, as digits. Integers are little-endian.
namespace raytrain::detail {

inline constexpr std::string_view archive_mark = "raytrain checkpoint 1\n";
inline constexpr std::size_t archive_hash_bytes = 32;

inline void append(Bytes& out, BytesView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

inline void append_integer(Bytes& out, std::uint64_t value) {
  for (auto shift = 0U; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}

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

  [[nodiscard]] auto files() -> std::map<std::string, BytesView> {
    if (rest_.size() < archive_mark.size() + archive_hash_bytes ||
        text_of(rest_.first(archive_mark.size())) != archive_mark) {
      refuse("they are not a checkpoint");
    }
    auto const hash = rest_.last(archive_hash_bytes);
    rest_ = rest_.first(rest_.size() - archive_hash_bytes);
    if (text_of(hash) != xxh3_of(rest_)) refuse("they are cut short, or not those that were written");
    (void)take(archive_mark.size());
    std::map<std::string, BytesView> files;
    for (auto left = take_integer(); left > 0; --left) {
      auto const name_bytes = take_integer();
      auto const content_bytes = take_integer();
      std::string const name{text_of(take(name_bytes))};
      if (auto const problem = file_name_problem(name); problem && name != manifest_name) {
        refuse("they hold a file '" + shown_name(name) + "', which " + *problem);
      }
      if (auto const* const clash = find_clash(files, name)) {
        refuse("they hold both '" + name + "' and '" + clash->first + "'");
      }
      files.emplace(name, take(content_bytes));
    }
    if (!rest_.empty()) refuse("there are " + std::to_string(rest_.size()) + " too many");
    return files;
  }

 private:
  [[nodiscard]] auto take(std::uint64_t count) -> BytesView {
    if (count > rest_.size()) refuse("a file in them is longer than they are");
    auto const taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] auto take_integer() -> std::uint64_t {
    std::uint64_t value = 0;
    auto shift = 0U;
    for (auto const byte : take(sizeof(std::uint64_t))) {
      value |= std::to_integer<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }

  [[noreturn]] static void refuse(std::string happened) {
    throw Error{Errc::corrupt_checkpoint, "making a checkpoint from bytes", std::move(happened),
                "pass what Checkpoint::to_bytes gave, whole"};
  }

  BytesView rest_;
};

}  // namespace raytrain::detail
