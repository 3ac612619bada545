// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace raytrain {

/// The batch size by which a worker last took each dataset. Its checkpoints keep them for the next start.
///
/// Threads: every function from any thread.
class BatchSizes {
 public:
  void set(std::string const& dataset, std::uint64_t batch_size);

  [[nodiscard]] auto all() const -> std::map<std::string, std::uint64_t>;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> sizes_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/batch_sizes-inl.hpp>
#endif
