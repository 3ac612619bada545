// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace raytrain::detail {

/// A file in memory and without a name that grows, mapped in whole and as far as it may ever grow: what a process adds,
/// the others find where it is.
///
/// Threads: every function from any thread, of any process that has it.
class SharedFile {
 public:
  /// Errors: `io`.
  [[nodiscard]] static auto create(std::size_t bytes) -> std::shared_ptr<SharedFile>;

  /// `capacity`: what it was created with, so that an address that one process has is none that another lacks.
  ///
  /// Errors: `io`.
  [[nodiscard]] static auto attach(int descriptor, std::size_t capacity) -> std::shared_ptr<SharedFile>;

  struct Private {
    explicit Private() = default;
  };
  SharedFile(Private, int descriptor) noexcept : descriptor_{descriptor} {}
  SharedFile(SharedFile const&) = delete;
  auto operator=(SharedFile const&) -> SharedFile& = delete;
  ~SharedFile();

  [[nodiscard]] auto descriptor() const noexcept -> int { return descriptor_; }
  [[nodiscard]] auto data() const noexcept -> std::byte* { return data_; }

  /// Bytes that it may grow to.
  [[nodiscard]] auto capacity() const noexcept -> std::size_t { return capacity_; }

  [[nodiscard]] auto has(std::byte const* address) const noexcept -> bool;

  /// Zeros, in pages of their own from `end` on, which all processes share and which moves on; or where this process
  /// has freed some. Who is forked has the array as well, which stays until this process lets go of it.
  ///
  /// Errors: `std::bad_alloc`.
  [[nodiscard]] static auto allocate(std::shared_ptr<SharedFile> const& file, std::atomic<std::uint64_t>& end,
                                     std::size_t bytes) -> std::shared_ptr<void>;

  /// Zeros as `allocate` gives them, for as long as there is the file; where they begin.
  ///
  /// Errors: `std::bad_alloc`.
  [[nodiscard]] auto reserve(std::atomic<std::uint64_t>& end, std::size_t bytes) -> std::size_t {
    return take(in_pages(bytes), end);
  }

 private:
  static constexpr std::size_t page_bytes = 4096;

  static constexpr auto in_pages(std::size_t bytes) noexcept -> std::size_t {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
  }

  [[noreturn]] static void fail(std::string attempted);

  auto map(std::size_t capacity) noexcept -> bool;

  /// Where so many bytes are, all of them there.
  auto take(std::size_t bytes, std::atomic<std::uint64_t>& end) -> std::size_t;

  /// Addresses that no process has had; a refusal takes none.
  auto extend(std::size_t bytes, std::atomic<std::uint64_t>& end) const -> std::size_t;

  /// The system gets the memory back, this process keeps the addresses.
  void give_back(std::size_t begin, std::size_t bytes) noexcept;

  /// So that a large array finds room where small ones were.
  void join_neighbours(std::map<std::size_t, std::size_t>::iterator range) noexcept;

  int descriptor_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> freed_;  ///< Bytes by begin.
  ::pid_t owner_ = 0;                         ///< The process that has freed them, which is the last that took any.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/shared_file-inl.hpp>
#endif
