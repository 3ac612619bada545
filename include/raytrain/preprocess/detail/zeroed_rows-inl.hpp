// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/pages.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto zeroed_bytes(std::size_t rows, std::size_t row_bytes) -> std::shared_ptr<std::byte> {
  if (rows > 0 && row_bytes > std::numeric_limits<std::size_t>::max() / rows) throw std::bad_alloc{};
  auto const bytes = rows * row_bytes;
  if (bytes >= huge_page_bytes) return std::static_pointer_cast<std::byte>(allocate_pages(bytes));
  auto const owner = std::make_shared<std::vector<std::byte>>(bytes);
  return {owner, owner->data()};
}

}  // namespace raytrain::detail
