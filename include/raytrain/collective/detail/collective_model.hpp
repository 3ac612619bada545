// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// A model of `Collective` that is chosen at run time.
class CollectiveModel {
 public:
  CollectiveModel() = default;
  CollectiveModel(CollectiveModel const&) = delete;
  auto operator=(CollectiveModel const&) -> CollectiveModel& = delete;
  virtual ~CollectiveModel() = default;

  [[nodiscard]] virtual auto rank() const noexcept -> Rank = 0;
  [[nodiscard]] virtual auto size() const noexcept -> WorldSize = 0;
  [[nodiscard]] virtual auto stop_agreed() const noexcept -> bool = 0;
  [[nodiscard]] virtual auto takes_device_arrays() const noexcept -> bool = 0;
  virtual void barrier() = 0;
  virtual void run(Task const& task) = 0;
  /// Zeros.
  [[nodiscard]] virtual auto allocate(std::size_t size_bytes) -> std::shared_ptr<void> = 0;
};

template <Collective C>
class CollectiveModelOf final : public CollectiveModel {
 public:
  explicit CollectiveModelOf(C collective) : collective_{std::move(collective)} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return collective_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return collective_.stop_agreed(); }
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool override {
    return requires { C::takes_device_arrays(); };
  }
  void barrier() override { collective_.barrier(); }
  void run(Task const& task) override { run_task(collective_, task); }
  [[nodiscard]] auto allocate(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return collective_.template allocate<std::uint8_t>(size_bytes).release();
  }

 private:
  C collective_;
};

}  // namespace raytrain::detail
