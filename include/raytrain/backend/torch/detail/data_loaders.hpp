// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// The data loaders that a worker has made, and how many examples each has.
class DataLoaders {
 public:
  /// Before one more is made, under that name; a group operation. `examples`: none where its dataset does not say.
  /// `datasets`: names that the run's datasets have.
  ///
  /// Errors: as `TorchContext::data_loader`.
  void add(Collective& collective, std::string_view name, std::optional<std::size_t> examples,
           std::vector<std::string> const& datasets);

  /// By name.
  [[nodiscard]] auto examples() const noexcept -> std::map<std::string, std::uint64_t> const& { return examples_; }

  /// In the metadata of a checkpoint: how many examples a loader has.
  [[nodiscard]] static auto key_of(std::string_view loader) -> std::string {
    return "examples_of_" + std::string{loader};
  }

 private:
  std::uint32_t count_ = 0;
  std::map<std::string, std::uint64_t> examples_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/data_loaders-inl.hpp>
#endif
