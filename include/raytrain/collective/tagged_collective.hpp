// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/wrapped_collective.hpp>

namespace raytrain {

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
