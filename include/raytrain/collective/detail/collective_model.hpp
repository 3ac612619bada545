// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// A `Task` whose element type only its call knows.
struct UntypedTask {
  Call call;
  void const* from = nullptr;
  std::size_t from_size = 0;  ///< In elements, as `to_size`.
  void* to = nullptr;
  std::size_t to_size = 0;
  std::span<std::size_t const> counts{};

  template <Element T>
  explicit UntypedTask(Task<T> const& task) noexcept
      : call{task.call},
        from{task.from.data()},
        from_size{task.from.size()},
        to{task.to.data()},
        to_size{task.to.size()},
        counts{task.counts} {}

  template <Element T>
  [[nodiscard]] auto as() const noexcept -> Task<T> {
    return {call, {static_cast<T const*>(from), from_size}, {static_cast<T*>(to), to_size}, counts};
  }
};

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
  virtual void barrier() = 0;
  virtual void run(UntypedTask const& task) = 0;
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
  void barrier() override { collective_.barrier(); }
  void run(UntypedTask const& task) override {
    with_element_type(task.call.element, [&]<Element T>(T*) { run_task(collective_, task.template as<T>()); });
  }
  [[nodiscard]] auto allocate(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return collective_.template allocate<std::uint8_t>(size_bytes).release();
  }

 private:
  C collective_;
};

}  // namespace raytrain::detail
