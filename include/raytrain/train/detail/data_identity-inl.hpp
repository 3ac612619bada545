// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/train/detail/data_identity.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto rows_of(Datasets const& datasets) -> std::map<std::string, std::uint64_t> {
  std::map<std::string, std::uint64_t> rows;
  for (auto const& [name, dataset] : datasets) rows.emplace(name, dataset.rows());
  return rows;
}

RAYTRAIN_INLINE auto digests_of(Datasets const& datasets) -> std::map<std::string, std::string> {
  std::map<std::string, std::string> digests;
  for (auto const& [name, dataset] : datasets) digests.emplace(name, dataset.digest());
  return digests;
}

RAYTRAIN_INLINE auto changes_since(Checkpoint const& checkpoint, std::uint64_t seed, Datasets const& datasets)
    -> std::vector<std::string> {
  std::vector<std::string> changes;
  auto const add = [&, before = fmt::format("goes on from checkpoint {}, before which ", checkpoint.number())](
                       std::string const& change) { changes.push_back(before + change + " now"); };
  if (auto const seed_before = checkpoint.seed().value_or(seed); seed_before != seed) {
    add("RunConfig::seed was " + std::to_string(seed_before) + "; it is " + std::to_string(seed));
  }
  for (auto const& [name, dataset] : datasets) {
    auto const rows = std::uint64_t{dataset.rows()};
    auto const rows_before = checkpoint.dataset_rows(name);
    auto const digest_before = checkpoint.dataset_digest(name);
    if (rows_before && *rows_before != rows) {
      add("dataset '" + name + "' had " + std::to_string(*rows_before) + " rows; it has " + std::to_string(rows));
    } else if (digest_before && *digest_before != dataset.digest()) {
      add("dataset '" + name + "' had other columns or values: its digest was " + *digest_before + "; it is " +
          dataset.digest());
    }
  }
  return changes;
}

}  // namespace raytrain::detail
