// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/collective/detail/shared_file.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Whether there is memory for these bytes of the file; a signal is no reason to give up.
[[nodiscard]] inline auto take_room(int descriptor, std::size_t begin, std::size_t bytes) noexcept -> bool {
  int problem = EINTR;
  while (problem == EINTR)
    problem = ::posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return problem == 0;
}

RAYTRAIN_INLINE auto SharedFile::create(std::size_t bytes) -> std::shared_ptr<SharedFile> {
  int const descriptor = ::memfd_create("raytrain", MFD_CLOEXEC);
  if (descriptor < 0) fail("memfd_create");
  auto file = std::make_shared<SharedFile>(Private{}, descriptor);
  if (!take_room(descriptor, 0, bytes)) {
    throw Error{Errc::io, "creating shared memory", "there is no room for " + std::to_string(bytes) + " bytes",
                "free memory, or raise the limit that the job or container has"};
  }
  // Address space costs nothing: as much as the machine has memory, or what a limit allows for.
  auto capacity = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes;
  while (!file->map(capacity) && capacity > bytes) capacity = std::max(capacity / 2, bytes);
  if (file->data_ == nullptr) fail("mapping shared memory");
  return file;
}

RAYTRAIN_INLINE auto SharedFile::attach(int descriptor, std::size_t capacity) -> std::shared_ptr<SharedFile> {
  int const own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) fail("attaching descriptor " + std::to_string(descriptor));
  auto file = std::make_shared<SharedFile>(Private{}, own);
  if (!file->map(capacity)) fail("mapping " + std::to_string(capacity) + " bytes of shared memory");
  return file;
}

RAYTRAIN_INLINE SharedFile::~SharedFile() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
  ::close(descriptor_);
}

RAYTRAIN_INLINE auto SharedFile::has(std::byte const* address) const noexcept -> bool {
  std::less<> const before;
  return !before(address, data_) && before(address, data_ + capacity_);
}

RAYTRAIN_INLINE auto SharedFile::allocate(std::shared_ptr<SharedFile> const& file, std::atomic<std::uint64_t>& end,
                                          std::size_t bytes) -> std::shared_ptr<void> {
  if (bytes == 0) return nullptr;
  if (bytes > file->capacity_) throw std::bad_alloc{};
  auto const rounded = in_pages(bytes);
  auto const begin = file->take(rounded, end);
  auto const give_back = [file, begin, rounded, owner = ::getpid()](void*) {
    if (owner == ::getpid()) file->give_back(begin, rounded);
  };
  return {file->data_ + begin, give_back};
}

RAYTRAIN_INLINE void SharedFile::fail(std::string attempted) {
  throw Error{Errc::io, std::move(attempted), std::error_code{errno, std::generic_category()}.message()};
}

RAYTRAIN_INLINE auto SharedFile::map(std::size_t capacity) noexcept -> bool {
  auto* const address = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (address == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(address);
  capacity_ = capacity;
  return true;
}

RAYTRAIN_INLINE auto SharedFile::take(std::size_t bytes, std::atomic<std::uint64_t>& end) -> std::size_t {
  std::scoped_lock const lock{mutex_};
  // What the parent had freed before a fork is for the parent.
  if (std::exchange(owner_, ::getpid()) != ::getpid()) freed_.clear();
  auto range = std::ranges::find_if(freed_, [&](auto const& each) { return each.second >= bytes; });
  // There it stays if the memory is full.
  if (range == freed_.end()) range = freed_.emplace(extend(bytes, end), bytes).first;
  auto const [begin, space] = *range;
  if (!take_room(descriptor_, begin, bytes)) throw std::bad_alloc{};
  if (space > bytes) freed_.emplace(begin + bytes, space - bytes);
  freed_.erase(range);
  return begin;
}

RAYTRAIN_INLINE auto SharedFile::extend(std::size_t bytes, std::atomic<std::uint64_t>& end) const -> std::size_t {
  auto begin = end.load();
  do {
    if (begin > capacity_ || bytes > capacity_ - begin) throw std::bad_alloc{};
  } while (!end.compare_exchange_weak(begin, begin + bytes));
  return begin;
}

RAYTRAIN_INLINE void SharedFile::give_back(std::size_t begin, std::size_t bytes) noexcept {
  std::scoped_lock const lock{mutex_};
  (void)::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                    static_cast<off_t>(bytes));
  try {
    join_neighbours(freed_.emplace(begin, bytes).first);
  } catch (std::bad_alloc const&) {
    return;  // and loses them
  }
}

RAYTRAIN_INLINE void SharedFile::join_neighbours(std::map<std::size_t, std::size_t>::iterator range) noexcept {
  auto const join = [&](auto first, auto second) {
    if (first->first + first->second != second->first) return;
    first->second += second->second;
    freed_.erase(second);
  };
  if (auto const next = std::next(range); next != freed_.end()) join(range, next);
  if (range != freed_.begin()) join(std::prev(range), range);
}

}  // namespace raytrain::detail
