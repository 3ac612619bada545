// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto FileDescriptor::operator=(FileDescriptor&& other) noexcept -> FileDescriptor& {
  std::swap(value_, other.value_);
  return *this;
}

RAYTRAIN_INLINE FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(value_);
}

}  // namespace raytrain
