// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// Wraps another collective and puts a `detail::CallTag` on every call, so that ranks compare the tag with the rest of
/// it.
///
/// Threads: as the other one, which must live as long.
/// Errors:  as the other one.
class TaggedCollective final : public Collective {
 public:
  explicit TaggedCollective(Collective& collective, detail::CallTag tag = {}) noexcept
      : collective_{collective}, tag_{tag} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return collective_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return collective_.stop_agreed(); }
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool override { return collective_.takes_device_arrays(); }
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return collective_.allocate_zeros(size_bytes);
  }

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override { return collective_.duplicate(); }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    auto tagged = task;
    tagged.call.tag = tag_;
    return collective_.start(tagged);
  }

  /// The tag of the calls that follow.
  [[nodiscard]] auto tag() noexcept -> detail::CallTag& { return tag_; }

 private:
  Collective& collective_;
  detail::CallTag tag_;
};

}  // namespace raytrain
