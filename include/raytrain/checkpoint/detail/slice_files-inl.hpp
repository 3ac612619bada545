// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/slice_files.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

inline constexpr std::string_view slice_mark = ".slice-";
inline constexpr std::string_view total_mark = "-of-";
inline constexpr std::string_view slice_ending = ".safetensors";

/// The part of a name from `mark`'s last place on, without it; `name` keeps what is before. Nothing where it is not.
RAYTRAIN_INLINE auto split_last(std::string_view& name, std::string_view mark) -> std::optional<std::string_view> {
  auto const at = name.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  auto const rest = name.substr(at + mark.size());
  name = name.substr(0, at);
  return rest;
}

RAYTRAIN_INLINE auto parse_element_type(std::string_view name) -> std::optional<ElementType> {
  for (std::uint8_t number = 0;; ++number) {
    auto const type = static_cast<ElementType>(number);
    if (size_bytes(type) == 0) return std::nullopt;
    if (to_string(type) == name) return type;
  }
}

RAYTRAIN_INLINE auto elements_text(std::uint64_t begin, std::uint64_t end) -> std::string {
  return end - begin == 1 ? fmt::format("element {}", begin) : fmt::format("elements {} to {}", begin, end - 1);
}

RAYTRAIN_INLINE auto slice_problem(Slice const& slice) -> std::optional<std::string> {
  auto rest = std::string_view{slice.array};
  if (rest.empty()) return "the array has no name";
  if (take_rank_folder(rest)) return "its name begins with the folder of a rank";
  if (slice.total == 0) return "the array has a total of 0 elements";
  if (slice.total > std::numeric_limits<std::uint64_t>::max() / 2 / size_bytes(slice.type)) {
    return fmt::format("{} elements of {} are more than can be stored", slice.total, to_string(slice.type));
  }
  if (slice.begin == slice.end) return "the slice has no elements";
  if (slice.begin < slice.end && slice.end <= slice.total) return std::nullopt;
  return fmt::format("{} elements from {} on do not lie in a total of {}", slice.end - slice.begin, slice.begin,
                     slice.total);
}

RAYTRAIN_INLINE auto slice_file_name(Slice const& slice) -> std::string {
  return fmt::format("{}{}{}-{}{}{}.{}{}", slice.array, slice_mark, slice.begin, slice.end, total_mark, slice.total,
                     to_string(slice.type), slice_ending);
}

RAYTRAIN_INLINE auto parse_slice_file_name(std::string_view name) -> std::optional<Slice> {
  if (!name.ends_with(slice_ending)) return std::nullopt;
  auto array = name.substr(0, name.size() - slice_ending.size());
  auto const type_name = split_last(array, ".");
  auto const total_digits = split_last(array, total_mark);
  auto const end_digits = split_last(array, "-");
  auto const begin_digits = split_last(array, slice_mark);
  if (!type_name || !total_digits || !end_digits || !begin_digits) return std::nullopt;
  auto const type = parse_element_type(*type_name);
  auto const begin = parse_number(*begin_digits);
  auto const end = parse_number(*end_digits);
  auto const total = parse_number(*total_digits);
  if (!type || !begin || !end || !total) return std::nullopt;
  Slice slice{std::string{array}, *type, *begin, *end, *total};
  if (slice_problem(slice) || slice_file_name(slice) != name) return std::nullopt;
  return slice;
}

RAYTRAIN_INLINE auto slice_index(Slice const& slice) -> TensorIndex {
  std::vector<StoredTensor> tensors{
      {slice.array, std::string{stored_type(slice.type)}, {slice.end - slice.begin}, 0, 0}};
  return place_tensors(std::move(tensors),
                       {{"begin", std::to_string(slice.begin)}, {"total", std::to_string(slice.total)}});
}

RAYTRAIN_INLINE auto slice_files(std::vector<FileEntry> files) -> SliceFiles {
  SliceFiles arrays;
  for (auto& file : files) {
    std::string_view name = file.name;
    auto const rank = take_rank_folder(name);
    auto slice = rank ? parse_slice_file_name(name) : std::nullopt;
    if (!slice) continue;
    auto& slices = arrays[slice->array];
    slices.push_back({*std::move(slice), *rank, std::move(file)});
  }
  for (auto& [array, slices] : arrays) {
    std::ranges::sort(slices, {}, [](auto const& each) {
      return std::tuple{each.slice.begin, each.slice.end, each.rank};
    });
  }
  return arrays;
}

RAYTRAIN_INLINE auto array_problem(std::vector<SliceFile> const& slices) -> std::optional<std::string> {
  auto const& first = slices.front();
  std::uint64_t end = 0;
  auto const* before = &first;
  for (auto const& each : slices) {
    auto const& slice = each.slice;
    if (slice.type != first.slice.type) {
      return fmt::format("rank {} gave elements of {}, and rank {} of {}", first.rank.value,
                         to_string(first.slice.type), each.rank.value, to_string(slice.type));
    }
    if (slice.total != first.slice.total) {
      return fmt::format("rank {} gave a total of {}, and rank {} of {}", first.rank.value, first.slice.total,
                         each.rank.value, slice.total);
    }
    if (slice.begin < end) {
      auto const elements = elements_text(slice.begin, std::min(slice.end, end));
      if (before->rank == each.rank) return fmt::format("rank {} gave {} twice", each.rank.value, elements);
      return fmt::format("ranks {} and {} both gave {}", before->rank.value, each.rank.value, elements);
    }
    if (slice.begin > end) return fmt::format("no rank gave {} of {}", elements_text(end, slice.begin), slice.total);
    end = slice.end;
    before = &each;
  }
  if (end == first.slice.total) return std::nullopt;
  return fmt::format("no rank gave {} of {}", elements_text(end, first.slice.total), first.slice.total);
}

}  // namespace raytrain::detail
