// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/detail/wire_archive.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void refuse_message(std::string happened, std::string remedy) {
  throw Error{Errc::bad_message, "decoding a message", std::move(happened), std::move(remedy)};
}

RAYTRAIN_INLINE WireOutput::WireOutput(Bytes& out) : OutputArchive{this}, out_{out} {}
RAYTRAIN_INLINE WireOutput::~WireOutput() = default;

RAYTRAIN_INLINE WireInput::WireInput(BytesView in) : InputArchive{this}, in_{in} {}
RAYTRAIN_INLINE WireInput::~WireInput() = default;

RAYTRAIN_INLINE auto WireInput::count() -> std::size_t {
  auto const count = number<std::uint64_t>();
  if (count > left()) {
    refuse_message("a size is " + std::to_string(count) + " where " + std::to_string(left()) + " bytes are left");
  }
  return static_cast<std::size_t>(count);
}

RAYTRAIN_INLINE void WireInput::bytes(void* data, std::size_t size_bytes) {
  if (size_bytes > left()) {
    refuse_message("it ends where " + std::to_string(size_bytes) + " more bytes should be (" + std::to_string(left()) +
                   " are left)");
  }
  std::copy_n(in_.begin(), size_bytes, static_cast<std::byte*>(data));
  in_ = in_.subspan(size_bytes);
}

}  // namespace raytrain::detail
