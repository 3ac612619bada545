// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Arrow's memory, of which what is read may take so much and no more.
///
/// Threads: any, for what Arrow calls.
class LimitedMemory final : public arrow::ProxyMemoryPool {
 public:
  LimitedMemory() : ProxyMemoryPool{arrow::default_memory_pool()} {}

  using ProxyMemoryPool::Allocate;
  using ProxyMemoryPool::Reallocate;

  /// From now on it gives so many bytes, beside those that are held.
  void limit(std::int64_t most) {
    most_ = most;
    is_exceeded_ = false;
    begin();
  }

  /// What is held now does not count.
  void begin() { held_ = bytes_allocated(); }

  [[nodiscard]] auto most() const noexcept -> std::int64_t { return most_; }

  /// Whether something was refused.
  [[nodiscard]] auto is_exceeded() const noexcept -> bool { return is_exceeded_; }

  auto Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) -> arrow::Status override {
    auto const status = check(size);
    return status.ok() ? ProxyMemoryPool::Allocate(size, alignment, out) : status;
  }

  auto Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment, std::uint8_t** bytes)
      -> arrow::Status override {
    auto const status = check(new_size - old_size);
    return status.ok() ? ProxyMemoryPool::Reallocate(old_size, new_size, alignment, bytes) : status;
  }

 private:
  [[nodiscard]] auto check(std::int64_t more) -> arrow::Status {
    if (more <= 0 || more <= most_ - (bytes_allocated() - held_)) return arrow::Status::OK();
    is_exceeded_ = true;
    return arrow::Status::OutOfMemory(fmt::format("{} bytes more would be more than {}", more, most_));
  }

  std::int64_t most_ = 0;
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<bool> is_exceeded_ = false;
};

/// Memory for a reader. Arrow's threads, and columns, give back what they hold at any time, also behind the reader's
/// end: so it lives as long as the program, and is lent again once nothing is held.
[[nodiscard]] inline auto lent_memory(std::int64_t most) -> std::shared_ptr<LimitedMemory> {
  struct Idle {
    std::mutex mutex;
    std::vector<LimitedMemory*> all;
  };
  static auto* const idle = new Idle;
  auto* memory = static_cast<LimitedMemory*>(nullptr);
  {
    std::lock_guard const lock{idle->mutex};
    auto const found = std::ranges::find(idle->all, 0, &LimitedMemory::bytes_allocated);
    if (found != idle->all.end()) {
      memory = *found;
      idle->all.erase(found);
    }
  }
  if (memory == nullptr) memory = new LimitedMemory;
  memory->limit(most);
  return {memory, [](LimitedMemory* returned) {
            std::lock_guard const lock{idle->mutex};
            idle->all.push_back(returned);
          }};
}

/// What reads a file may take: 512 MiB, or `ratio` times the file's bytes where that is more.
[[nodiscard]] inline auto most_memory(std::uint64_t file_bytes, std::uint64_t ratio) -> std::int64_t {
  constexpr auto always = std::uint64_t{1} << 29U;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(
      std::max(always, file_bytes > 0 && ratio > most / file_bytes ? most : ratio * file_bytes));
}

/// What is read, for errors.
struct LimitedReading {
  std::string_view what;  ///< "Parquet file 'x'".
  std::uint64_t file_bytes{};
  std::string_view options;   ///< "ParquetOptions".
  std::string_view blocks{};  ///< "parquet_blocks", where it is not read in blocks.
};

/// Errors: `invalid_data` where the status says that more than the memory was asked for; of no other status.
inline void check_limit(arrow::Status const& status, LimitedMemory const& memory, LimitedReading const& reading) {
  if (!status.IsOutOfMemory() || !memory.is_exceeded()) return;
  auto const raise = fmt::format("if you trust it, raise {}::max_unpack_ratio", reading.options);
  throw Error{Errc::invalid_data, fmt::format("reading {}", reading.what),
              fmt::format("{} take more than {} bytes of memory, and it has {}, as those of a file do that is made to "
                          "fill the memory",
                          reading.blocks.empty() ? "rows of a block" : "its rows", memory.most(), reading.file_bytes),
              reading.blocks.empty() ? "read smaller blocks or, " + raise
                                     : fmt::format("{}, or read it in blocks by {}", raise, reading.blocks)};
}

}  // namespace raytrain::detail
