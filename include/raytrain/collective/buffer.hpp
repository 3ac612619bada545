// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include <raytrain/core/element_type.hpp>

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

namespace raytrain::detail {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

/// What an array of `size` elements takes.
///
/// Errors: `std::bad_alloc` when no `std::size_t` can hold it.
template <class T>
[[nodiscard]] constexpr auto array_bytes(std::size_t size) -> std::size_t {
  if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc{};
  return size * sizeof(T);
}

/// Memory of this process alone, zero, aligned as a cache line; from the size of a huge page on it asks for those, with
/// which a kernel that walks through several large arrays at once spends less time on translating addresses.
[[nodiscard]] auto allocate_pages(std::size_t bytes) -> std::shared_ptr<void>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/buffer-inl.hpp>
#endif
