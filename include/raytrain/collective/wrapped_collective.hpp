// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// The base of a collective that hands operations on to another one, which it does not own, and adds something to
/// `start`.
///
/// Threads: as the other one, which must live as long.
/// Errors:  as the other one.
class WrappedCollective : public Collective {
 public:
  [[nodiscard]] auto rank() const noexcept -> Rank override { return wrapped_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return wrapped_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return wrapped_.stop_agreed(); }
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool override { return wrapped_.takes_device_arrays(); }
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return wrapped_.allocate_zeros(size_bytes);
  }

  /// Of the other one, with nothing added.
  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override { return wrapped_.duplicate(); }

 protected:
  explicit WrappedCollective(Collective& wrapped) noexcept : wrapped_{wrapped} {}

  [[nodiscard]] auto wrapped() const noexcept -> Collective& { return wrapped_; }

 private:
  Collective& wrapped_;
};

/// Puts a `detail::CallTag` on every call of another collective, so that ranks compare the tag with the rest of it.
class TaggedCollective final : public WrappedCollective {
 public:
  explicit TaggedCollective(Collective& collective, detail::CallTag tag = {}) noexcept
      : WrappedCollective{collective}, tag_{tag} {}

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    auto tagged = task;
    tagged.call.tag = tag_;
    return wrapped().start(tagged);
  }

  /// The tag of the calls that follow.
  [[nodiscard]] auto tag() noexcept -> detail::CallTag& { return tag_; }

 private:
  detail::CallTag tag_;
};

}  // namespace raytrain
