// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <raytrain/core/bytes.hpp>

namespace raytrain {

/// Bytes of any origin, by value: copies share them, and the last one lets them go. Who holds one does not change them.
class SharedBytes {
 public:
  SharedBytes() = default;
  explicit SharedBytes(Bytes bytes) : SharedBytes{std::make_shared<Bytes const>(std::move(bytes))} {}
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
