// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/barrier_collective.hpp>
#include <raytrain/collective/detail/shared_file.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain {

namespace detail {

/// The memory of processes that map one file: the ranks' bounce buffers, and arrays that were allocated in it. What it
/// holds is found by its offset, since each process has the file at another address.
class SharedMapping {
 public:
  static constexpr bool sees_all = false;

  SharedMapping(std::shared_ptr<SharedFile> file, std::size_t buffers) noexcept
      : file_{std::move(file)}, buffers_{buffers} {}

  [[nodiscard]] auto location_of(std::span<std::byte const> array) const noexcept -> ArrayLocation;
  [[nodiscard]] auto address(ArrayLocation location) const noexcept -> std::byte* {
    return file_->data() + location.offset;
  }

  [[nodiscard]] auto bounce_buffer(Rank owner, bool odd) const noexcept -> std::span<std::byte>;

  [[nodiscard]] static constexpr auto buffer_bytes_for(WorldSize members) noexcept -> std::size_t {
    return members.value * 2 * half_bytes;
  }

 private:
  /// What a core's own cache holds several of.
  static constexpr std::size_t half_bytes = std::size_t{128} << 10U;

  std::shared_ptr<SharedFile> file_;
  std::size_t buffers_;
};

}  // namespace detail

/// The world of workers that are processes of one host: memory which their `SharedMemoryCollective`s share. It has no
/// name and is gone with the last process that has it, however that one ends.
///
/// A process that is killed does not tell: whoever started it calls `abort`, and may do so at any time.
class SharedMemoryGroup : public detail::BarrierGroup {
 public:
  /// For this process and those that it forks, or that `attach` its `descriptor`. `cores`: on which all ranks together
  /// may run; with fewer than ranks, who waits gives its core away at once.
  ///
  /// Errors: `invalid_call` unless the size is from 1 to `max_size`, and what `WaitLimits::validate` throws; `io`.
  [[nodiscard]] static auto create(WorldSize size, WaitLimits limits = {}, std::size_t cores = usable_core_count())
      -> std::shared_ptr<SharedMemoryGroup>;

  /// `descriptor`: what `SharedMemoryGroup::descriptor` gave in this process or the one that started it. It is
  /// duplicated, and can be closed.
  ///
  /// Errors: `invalid_call` when it is not of a group, or of one that another version of raytrain has made, and what
  ///         `WaitLimits::validate` throws; `io`.
  [[nodiscard]] static auto attach(int descriptor, WaitLimits limits = {}) -> std::shared_ptr<SharedMemoryGroup>;

  /// The file that the memory is; programs that this one starts do not get it unless FD_CLOEXEC is taken from it.
  [[nodiscard]] auto descriptor() const noexcept -> int { return file_->descriptor(); }

  /// A number that no other group has: who was told it can be sure to have attached the right one.
  [[nodiscard]] auto id() const noexcept -> std::uint64_t { return head().traits.id; }

 private:
  template <class Group>
  friend class detail::BarrierCollective;
  using Memory = detail::SharedMapping;
  static constexpr char const* name = "SharedMemoryGroup";
  static constexpr char const* collective_name = "SharedMemoryCollective";
  /// Another one whenever anything in the memory changes its meaning.
  static constexpr std::uint64_t magic = 0x7261'7974'0000'0004U;

  struct Traits {
    std::uint64_t magic = 0;
    std::uint64_t capacity = 0;
    std::uint64_t id = 0;
    std::uint32_t members = 0;
  };
  struct alignas(detail::two_cache_lines) Head {
    Traits traits;
    std::atomic<std::uint64_t> end;  ///< Where the allocated part ends.
  };

  static auto random_number() -> std::uint64_t;

  struct Layout {
    std::size_t barrier;
    std::size_t buffers;
    std::size_t end;
  };
  /// Of a group whose barrier begins there.
  static constexpr auto layout(WorldSize size, std::size_t barrier = sizeof(Head)) noexcept -> Layout {
    auto const in_pages = [](std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
    auto const buffers = in_pages(barrier + detail::BarrierState::bytes_for(size));
    return {barrier, buffers, buffers + detail::SharedMapping::buffer_bytes_for(size)};
  }

  /// `pages`: where in the file.
  SharedMemoryGroup(std::shared_ptr<detail::SharedFile> file, Layout pages, WaitLimits limits);

  /// A group of the same ranks, in the same memory; all of them call it. Its part of the memory stays this group's.
  [[nodiscard]] auto duplicate(Collective& ranks) -> std::shared_ptr<SharedMemoryGroup>;

  [[nodiscard]] auto head() const noexcept -> Head& { return *std::launder(reinterpret_cast<Head*>(file_->data())); }
  [[nodiscard]] auto memory() const -> Memory { return {file_, pages_.buffers}; }
  [[nodiscard]] auto allocate(std::size_t bytes) -> std::shared_ptr<void>;

  std::shared_ptr<detail::SharedFile> file_;
  Layout pages_{};
};

/// One worker's side of a `SharedMemoryGroup`: exchanges arrays with the group's other processes, through memory they
/// all see. Arrays from `allocate` are in that memory; others go through it, which takes longer: by how much depends on
/// their size and the machine, from nothing to 4 times, as `benchmarks/run allreduce` shows.
using SharedMemoryCollective = detail::BarrierCollective<SharedMemoryGroup>;

}  // namespace raytrain

#ifdef RAYTRAIN_COMPILED
extern template class raytrain::detail::BarrierCollective<raytrain::SharedMemoryGroup>;
#endif

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/shared_memory-inl.hpp>
#endif
