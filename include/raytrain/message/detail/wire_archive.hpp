// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

/// Refuses bytes that are not a message.
[[noreturn]] void refuse_message(std::string happened, std::string remedy = {});

/// Bytes in the order of the wire, little end first, from or to that of this machine.
template <std::size_t N>
void to_wire_order(std::array<std::byte, N>& bytes) {
  if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(bytes);
}

/// A cereal archive that appends to bytes: numbers little end first, sizes as 64 bits.
class WireOutput : public cereal::OutputArchive<WireOutput, cereal::AllowEmptyClassElision> {
 public:
  explicit WireOutput(Bytes& out);
  ~WireOutput();

  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    static_assert(!std::is_floating_point_v<T> || std::numeric_limits<T>::is_iec559);
    auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    to_wire_order(bytes);
    append(bytes.data(), bytes.size());
  }

  void bytes(void const* data, std::size_t size_bytes) { append(static_cast<std::byte const*>(data), size_bytes); }

 private:
  // Where it is inlined, g++ 12 takes the growing of an empty vector for an overflow, and warns users of it.
  [[gnu::noinline]] void append(std::byte const* data, std::size_t size_bytes) {
    out_.insert(out_.end(), data, data + size_bytes);
  }

  Bytes& out_;
};

/// A cereal archive over bytes that nobody vouches for: it never reads past their end, and a size that is larger than
/// what is left is refused before anything of that size is allocated.
class WireInput : public cereal::InputArchive<WireInput, cereal::AllowEmptyClassElision> {
 public:
  explicit WireInput(BytesView in);
  ~WireInput();

  [[nodiscard]] auto left() const noexcept -> std::size_t { return in_.size(); }

  template <class T>
  requires std::is_arithmetic_v<T>
  [[nodiscard]] auto number() -> T {
    std::array<std::byte, sizeof(T)> raw{};
    bytes(raw.data(), raw.size());
    to_wire_order(raw);
    if constexpr (std::same_as<T, bool>) {
      // A bool of another value than 0 and 1 would be undefined behaviour.
      if (raw[0] > std::byte{1}) refuse_message("a truth value is " + std::to_string(std::to_integer<int>(raw[0])));
      return raw[0] == std::byte{1};
    } else {
      return std::bit_cast<T>(raw);
    }
  }

  /// Number of elements that follow, each of at least one byte.
  [[nodiscard]] auto count() -> std::size_t;

  void bytes(void* data, std::size_t size_bytes);

 private:
  BytesView in_;
};

template <class A>
concept WireArchive = std::same_as<A, WireOutput> || std::same_as<A, WireInput>;

// How cereal is taught an archive: found by argument-dependent lookup.

template <class T>
requires std::is_arithmetic_v<T>
void save(WireOutput& archive, T const& value) { archive.number(value); }
template <class T>
requires std::is_arithmetic_v<T>
void load(WireInput& archive, T& value) { value = archive.number<T>(); }

template <class T>
void save(WireOutput& archive, cereal::SizeTag<T> const& tag) {
  archive.number(static_cast<std::uint64_t>(tag.size));
}
template <class T>
void load(WireInput& archive, cereal::SizeTag<T>& tag) {
  tag.size = archive.count();
}

template <class T>
void save(WireOutput& archive, cereal::BinaryData<T> const& data) {
  archive.bytes(data.data, static_cast<std::size_t>(data.size));
}
template <class T>
void load(WireInput& archive, cereal::BinaryData<T>& data) {
  archive.bytes(data.data, static_cast<std::size_t>(data.size));
}

template <WireArchive A, class T>
void serialize(A& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}

// Element by element, and not as cereal has it by a resize first: memory grows only with bytes that are there.

template <class T>
void save(WireOutput& archive, std::vector<T> const& values) {
  archive(cereal::make_size_tag(static_cast<cereal::size_type>(values.size())));
  for (auto const& value : values) archive(value);
}
template <class T>
void load(WireInput& archive, std::vector<T>& values) {
  values.clear();
  for (auto left = archive.count(); left > 0; --left) archive(values.emplace_back());
}

}  // namespace raytrain::detail

CEREAL_SETUP_ARCHIVE_TRAITS(raytrain::detail::WireInput, raytrain::detail::WireOutput)

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/wire_archive-inl.hpp>
#endif
