// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/barrier_collective.hpp>
#include <raytrain/collective/detail/shared_file.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto SharedMapping::location_of(std::span<std::byte const> array) const noexcept -> ArrayLocation {
  if (array.empty()) return {};
  if (!file_->has(array.data())) return {0, ArrayLocation::Kind::hidden};
  return {static_cast<std::uint64_t>(array.data() - file_->data()), ArrayLocation::Kind::shared};
}

RAYTRAIN_INLINE auto SharedMapping::bounce_buffer(Rank owner, bool odd) const noexcept -> std::span<std::byte> {
  return {file_->data() + buffers_ + (owner.value * 2 + (odd ? 1 : 0)) * half_bytes, half_bytes};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto SharedMemoryGroup::create(WorldSize size, WaitLimits limits, std::size_t cores)
    -> std::shared_ptr<SharedMemoryGroup> {
  auto const pages = layout(detail::checked_size(name, size, max_size));
  auto file = detail::SharedFile::create(pages.end);
  new (file->data()) Head{{magic, file->capacity(), random_number(), size.value}, pages.end};
  detail::BarrierState::construct(file->data() + pages.barrier,
                                  {.count = size, .spin = size.value <= cores, .can_be_killed = true});
  return std::shared_ptr<SharedMemoryGroup>{new SharedMemoryGroup{std::move(file), pages, std::move(limits)}};
}

RAYTRAIN_INLINE auto SharedMemoryGroup::attach(int descriptor, WaitLimits limits)
    -> std::shared_ptr<SharedMemoryGroup> {
  auto const refuse = [](std::string happened) {
    throw Error{Errc::invalid_call, "attaching a SharedMemoryGroup", std::move(happened),
                "pass on what descriptor() gave, to a program built with the same version of raytrain"};
  };
  Traits traits;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw Error{Errc::io, "attaching descriptor " + std::to_string(descriptor),
                std::error_code{errno, std::generic_category()}.message()};
  }
  if (::pread(descriptor, &traits, sizeof traits, 0) != static_cast<::ssize_t>(sizeof traits)) {
    refuse("the descriptor is not that of a group");
  }
  if (traits.magic != magic) refuse("the descriptor is not that of a group of this version");
  auto const bytes = static_cast<std::size_t>(status.st_size);
  if (traits.members < 1 || traits.members > max_size || bytes < layout({traits.members}).end ||
      traits.capacity < bytes) {
    refuse("the group's memory is damaged");
  }
  auto file = detail::SharedFile::attach(descriptor, traits.capacity);
  return std::shared_ptr<SharedMemoryGroup>{
      new SharedMemoryGroup{std::move(file), layout({traits.members}), std::move(limits)}};
}

RAYTRAIN_INLINE auto SharedMemoryGroup::random_number() -> std::uint64_t {
  std::random_device device;
  return std::uniform_int_distribution<std::uint64_t>{}(device);
}

RAYTRAIN_INLINE SharedMemoryGroup::SharedMemoryGroup(std::shared_ptr<detail::SharedFile> file, Layout pages,
                                                     WaitLimits limits)
    : BarrierGroup{name, std::move(limits)}, file_{std::move(file)}, pages_{pages} {
  barrier_ = std::launder(reinterpret_cast<detail::BarrierState*>(file_->data() + pages_.barrier));
}

RAYTRAIN_INLINE auto SharedMemoryGroup::duplicate(Collective& ranks) -> std::shared_ptr<SharedMemoryGroup> {
  std::array<std::uint64_t, 1> where{};
  if (ranks.rank() == Rank{0}) {
    where[0] = file_->reserve(head().end, layout(size(), 0).end);
    detail::BarrierState::construct(file_->data() + where[0],
                                    {.count = size(), .spin = barrier_->spins(), .can_be_killed = true});
  }
  ranks.broadcast(where, Rank{0});
  std::shared_ptr<SharedMemoryGroup> made{
      new SharedMemoryGroup{file_, layout(size(), static_cast<std::size_t>(where[0])), limits_}};
  adopt(made);
  return made;
}

RAYTRAIN_INLINE auto SharedMemoryGroup::allocate(std::size_t bytes) -> std::shared_ptr<void> {
  return detail::SharedFile::allocate(file_, head().end, bytes);
}

}  // namespace raytrain
