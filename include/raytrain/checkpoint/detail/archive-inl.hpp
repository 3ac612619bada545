// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <raytrain/checkpoint/detail/archive.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void append(Bytes& out, BytesView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

RAYTRAIN_INLINE void append_integer(Bytes& out, std::uint64_t value) {
  for (auto shift = 0U; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}

RAYTRAIN_INLINE auto ArchiveReader::files() -> std::map<std::string, BytesView> {
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

RAYTRAIN_INLINE auto ArchiveReader::take(std::uint64_t count) -> BytesView {
  if (count > rest_.size()) refuse("a file in them is longer than they are");
  auto const taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

RAYTRAIN_INLINE auto ArchiveReader::take_integer() -> std::uint64_t {
  std::uint64_t value = 0;
  auto shift = 0U;
  for (auto const byte : take(sizeof(std::uint64_t))) {
    value |= std::to_integer<std::uint64_t>(byte) << shift;
    shift += 8;
  }
  return value;
}

RAYTRAIN_INLINE void ArchiveReader::refuse(std::string happened) {
  throw Error{Errc::corrupt_checkpoint, "making a checkpoint from bytes", std::move(happened),
              "pass what Checkpoint::to_bytes gave, whole"};
}

}  // namespace raytrain::detail
