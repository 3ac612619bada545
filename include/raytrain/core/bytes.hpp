// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace raytrain {

/// Bytes that are owned.
using Bytes = std::vector<std::byte>;

/// Bytes that somebody else owns.
using BytesView = std::span<std::byte const>;

[[nodiscard]] auto bytes_of(std::string_view text) noexcept -> BytesView;

[[nodiscard]] auto text_of(BytesView bytes) noexcept -> std::string_view;

/// Bytes of any origin, by value: copies share them, and the last one lets them go. Who holds one does not change them.
class SharedBytes {
 public:
  SharedBytes() = default;
  explicit SharedBytes(Bytes bytes);
  /// `owner` keeps them where they are.
  SharedBytes(BytesView bytes, std::shared_ptr<void const> owner) : bytes_{bytes}, owner_{std::move(owner)} {}

  [[nodiscard]] auto view() const noexcept -> BytesView { return bytes_; }
  [[nodiscard]] auto size() const noexcept -> std::size_t { return bytes_.size(); }

 private:
  explicit SharedBytes(std::shared_ptr<Bytes const> bytes) : bytes_{*bytes}, owner_{std::move(bytes)} {}

  BytesView bytes_;
  std::shared_ptr<void const> owner_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/bytes-inl.hpp>
#endif
