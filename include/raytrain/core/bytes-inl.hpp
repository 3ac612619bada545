// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto bytes_of(std::string_view text) noexcept -> BytesView {
  return std::as_bytes(std::span{text.data(), text.size()});
}

RAYTRAIN_INLINE auto text_of(BytesView bytes) noexcept -> std::string_view {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

RAYTRAIN_INLINE SharedBytes::SharedBytes(Bytes bytes) : SharedBytes{std::make_shared<Bytes const>(std::move(bytes))} {}

}  // namespace raytrain
