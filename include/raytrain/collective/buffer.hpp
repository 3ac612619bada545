// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/pages.hpp>

namespace raytrain {

/// An array in memory that a `Collective` has chosen so that its operations on it are fastest: what `allocate` returns.
/// Zero at first. It may outlive the collective.
///
/// Threads: as an array of its own.
template <Element T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<void> memory, std::size_t size) noexcept : memory_{std::move(memory)}, size_{size} {}
  Buffer(Buffer&& other) noexcept : memory_{std::move(other.memory_)}, size_{std::exchange(other.size_, 0)} {}
  auto operator=(Buffer&& other) noexcept -> Buffer& {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Buffer() = default;

  /// What owns the array, which then is no longer this one's.
  [[nodiscard]] auto release() && noexcept -> std::shared_ptr<void> {
    size_ = 0;
    return std::move(memory_);
  }

  [[nodiscard]] auto data() const noexcept -> T* { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] auto size() const noexcept -> std::size_t { return size_; }
  [[nodiscard]] auto span() const noexcept -> std::span<T> { return {data(), size_}; }
  [[nodiscard]] auto begin() const noexcept -> T* { return data(); }
  [[nodiscard]] auto end() const noexcept -> T* { return data() + size_; }
  [[nodiscard]] auto operator[](std::size_t index) const noexcept -> T& { return data()[index]; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

}  // namespace raytrain
