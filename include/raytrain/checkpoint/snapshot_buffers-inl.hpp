// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

/// What is not in use, at most one for a name.
class SnapshotBuffers::Free {
 public:
  struct Delete {
    void operator()(std::byte* bytes) const noexcept { ::operator delete (bytes, std::align_val_t{alignment_bytes}); }
  };
  struct Buffer {
    std::unique_ptr<std::byte, Delete> bytes;
    std::size_t size_bytes{};
    std::uint64_t checkpoint{};  ///< In which it was in use last.
  };

  static constexpr std::size_t least_of_huge_pages = std::size_t{4} << 20U;

  void begin_checkpoint() {
    std::lock_guard const lock{mutex_};
    ++checkpoint_;
    std::erase_if(buffers_, [&](auto const& named) { return named.second.checkpoint + 1 < checkpoint_; });
  }

  [[nodiscard]] auto take(std::string const& name, std::size_t size_bytes) -> Buffer {
    {
      std::lock_guard const lock{mutex_};
      auto const found = buffers_.find(name);
      if (found != buffers_.end()) {
        auto buffer = std::move(found->second);
        buffers_.erase(found);
        auto const is_too_large = buffer.size_bytes / 2 > size_bytes + alignment_bytes;
        if (buffer.size_bytes >= size_bytes && !is_too_large) return buffer;
      }
    }
    if (size_bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc{};
    // With room for one that is a little larger, such as by a number with one more digit. Pages that nobody writes to
    // cost nothing.
    auto const room_bytes = size_bytes + size_bytes / 8 + alignment_bytes;
    auto* const bytes = ::operator new (room_bytes, std::align_val_t{alignment_bytes});
    std::unique_ptr<std::byte, Delete> made{static_cast<std::byte*>(bytes)};
    // A wish: small pages take four times as long to get as a state to copy.
    if (room_bytes >= least_of_huge_pages) (void)::madvise(bytes, room_bytes, MADV_HUGEPAGE);
    return {std::move(made), room_bytes, {}};
  }

  [[nodiscard]] auto size_bytes() -> std::size_t {
    std::lock_guard const lock{mutex_};
    std::size_t sum = 0;
    for (auto const& [name, buffer] : buffers_) sum += buffer.size_bytes;
    return sum;
  }

  void give_back(std::string const& name, Buffer buffer) {
    std::lock_guard const lock{mutex_};
    buffer.checkpoint = checkpoint_;
    buffers_.insert_or_assign(name, std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::uint64_t checkpoint_ = 0;
  std::map<std::string, Buffer> buffers_;
};

RAYTRAIN_INLINE SnapshotBuffers::SnapshotBuffers() : free_{std::make_shared<Free>()} {}

RAYTRAIN_INLINE void SnapshotBuffers::begin_checkpoint() { free_->begin_checkpoint(); }

RAYTRAIN_INLINE auto SnapshotBuffers::free_bytes() const -> std::size_t { return free_->size_bytes(); }

RAYTRAIN_INLINE auto SnapshotBuffers::take(std::string const& name, std::size_t size_bytes)
    -> std::shared_ptr<std::byte> {
  auto buffer = free_->take(name, size_bytes);
  auto give_back = [name, size = buffer.size_bytes, free = std::weak_ptr{free_}](std::byte* bytes) {
    Free::Buffer back{std::unique_ptr<std::byte, Free::Delete>{bytes}, size, {}};
    try {
      if (auto const open = free.lock()) open->give_back(name, std::move(back));
    } catch (std::bad_alloc const&) {  // freed then
    }
  };
  return {buffer.bytes.release(), std::move(give_back)};
}

}  // namespace raytrain
