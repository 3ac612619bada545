// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

namespace detail {

/// An array and its name in a checkpoint, as `{"weights", weights}`. `Byte` is const where it is only read.
template <class Byte>
class NamedArrayOf {
 public:
  template <ElementArray R>
  requires std::is_const_v<Byte> || MutableElementArray<R> NamedArrayOf(std::string_view name, R&& array)
      : file_{std::string{name} + ".npy"},
        type_{element_type<ArrayElement<R>>},
        size_{std::ranges::size(array)},
        data_{reinterpret_cast<Byte*>(std::ranges::data(array))} {}

  [[nodiscard]] auto file() const noexcept -> std::string const& { return file_; }
  [[nodiscard]] auto type() const noexcept -> ElementType { return type_; }
  [[nodiscard]] auto size() const noexcept -> std::size_t { return size_; }
  [[nodiscard]] auto bytes() const noexcept -> std::span<Byte> { return {data_, size_ * size_bytes(type_)}; }

 private:
  std::string file_;
  ElementType type_;
  std::size_t size_;
  Byte* data_;
};

/// What NumPy writes before an array of one dimension; bfloat16, which it does not know, as plain bits.
///
/// Source: NumPy's npy format, version 1.0.
[[nodiscard]] inline auto npy_header(ElementType type, std::size_t size) -> std::string {
  constexpr std::string_view magic{"\x93NUMPY\x01\x00", 8};
  constexpr std::size_t length_bytes = 2;
  constexpr std::size_t alignment = 64;
  auto const kind = [&] {
    switch (type) {
      case ElementType::float32:
      case ElementType::float64:
      case ElementType::float16: return 'f';
      case ElementType::int8:
      case ElementType::int16:
      case ElementType::int32:
      case ElementType::int64: return 'i';
      default: return type == ElementType::bfloat16 ? 'V' : 'u';
    }
  }();
  auto const order = size_bytes(type) == 1 || kind == 'V'         ? '|'
                     : std::endian::native == std::endian::little ? '<'
                                                                  : '>';
  auto text = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({},), }}", order, kind,
                          size_bytes(type), size);
  auto const unpadded = magic.size() + length_bytes + text.size() + 1;
  text.append((alignment - unpadded % alignment) % alignment, ' ');
  text += '\n';
  std::string header{magic};
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

/// What the header of such a file says, for messages.
[[nodiscard]] inline auto npy_description(std::string_view content) -> std::string {
  auto const from = content.find('{');
  auto const to = content.find('}', from);
  if (!content.starts_with("\x93NUMPY") || to == std::string_view::npos) return "no array of NumPy's format";
  return std::string{content.substr(from, to - from + 1)};
}

}  // namespace detail

using NamedArray = detail::NamedArrayOf<std::byte>;
using ConstNamedArray = detail::NamedArrayOf<std::byte const>;

/// Arrays that are the same on every rank, for `report`: `save({{"weights", weights}, {"bias", bias}})` gives
/// weights.npy and bias.npy, which NumPy reads. Rank 0 stores them inside `report`; until then they must live.
[[nodiscard]] inline auto save(std::initializer_list<ConstNamedArray> arrays) -> CheckpointDraft {
  return CheckpointDraft::replicated([arrays = std::vector<ConstNamedArray>{arrays}](CheckpointDraft& draft) {
    for (auto const& array : arrays) {
      auto const header = detail::npy_header(array.type(), array.size());
      auto const head = bytes_of(header);
      Bytes content{head.begin(), head.end()};
      content.insert(content.end(), array.bytes().begin(), array.bytes().end());
      draft.add(array.file(), std::move(content));
    }
  });
}

/// Fills arrays with what `save` put into a checkpoint: `load(checkpoint, {{"weights", weights}, {"bias", bias}})`.
///
/// Errors: those of `Checkpoint::read`, `not_found` among them for an array that is not in it; `invalid_call` for one
///         of another type or size, which then is as it was.
inline void load(Checkpoint const& checkpoint, std::initializer_list<NamedArray> arrays) {
  for (auto const& array : arrays) {
    auto const content = checkpoint.read(array.file());
    auto const header = detail::npy_header(array.type(), array.size());
    auto const to = array.bytes();
    if (!text_of(content).starts_with(header) || content.size() != header.size() + to.size()) {
      throw Error{Errc::invalid_call, "loading " + checkpoint.location() + "/" + array.file(),
                  fmt::format("it holds {}, and the array takes {}", detail::npy_description(text_of(content)),
                              detail::npy_description(header)),
                  "give an array as it was when it was saved, or start a new run"};
    }
    std::ranges::copy(std::span{content}.subspan(header.size()), to.begin());
  }
}

}  // namespace raytrain
