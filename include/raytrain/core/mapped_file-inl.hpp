// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/mapped_file.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto map_file(FileDescriptor const& file, std::size_t bytes) -> std::optional<SharedBytes> {
  if (bytes == 0) return SharedBytes{};
  auto* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) return std::nullopt;
  std::shared_ptr<void> owner{memory, [bytes](void* begin) { ::munmap(begin, bytes); }};
  return SharedBytes{{static_cast<std::byte const*>(memory), bytes}, std::move(owner)};
}

}  // namespace raytrain::detail
