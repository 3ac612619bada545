// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/fields.hpp>

namespace raytrain {

template <class A>
void serialize(A& a, ShardPosition& position) {
  a(cereal::make_nvp("epoch", position.epoch), cereal::make_nvp("samples", position.samples));
}

/// What a checkpoint's manifest.json says of one of its files.
struct StoredFile {
  std::uint64_t size_bytes{};
  std::string xxh3;  ///< XXH3-128 of the content, 32 hexadecimal digits.
  friend auto operator==(StoredFile const&, StoredFile const&) -> bool = default;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(size_bytes), CEREAL_NVP(xxh3));
  }
};

/// What a committed checkpoint says of itself in manifest.json, the file that is written last.
struct Manifest {
  static constexpr std::uint32_t newest_format = 5;

  std::uint32_t format = newest_format;
  std::optional<std::string> run_id;  ///< The run that wrote it; unset in format 1.
  std::uint64_t number{};
  std::uint64_t start{};  ///< Number of the start that wrote it.
  std::uint64_t training_iteration{};
  double time_total_s{};
  std::uint32_t world_size{};
  std::optional<std::vector<std::uint64_t>> training_iterations;  ///< Reports of each rank; unset in format 1.
  std::optional<std::vector<std::uint64_t>> kept_reports;  ///< Of each rank in progress.jsonl; unset in format 1.
  std::optional<std::uint64_t> seed;                       ///< `RunConfig::seed` of that start; unset in format 1.
  std::optional<std::map<std::string, std::uint64_t>> dataset_rows;   ///< By name; unset in format 1.
  std::optional<std::map<std::string, std::string>> dataset_digests;  ///< By name; unset in format 1.
  std::optional<std::map<std::string, std::uint64_t>> batch_sizes;    ///< By dataset, of rank 0; unset in format 1.
  std::optional<std::map<std::string, ShardPosition>> positions;      ///< Likewise; unset before format 4.
  std::optional<std::map<std::string, std::string>> orders;  ///< Of the positions' epochs; unset before format 5.
  std::optional<bool> handed_over;                           ///< It came without a report; unset before format 4.
  std::string created_at;                                    ///< UTC.
  Metrics metrics;
  std::map<std::string, std::string> metadata;
  std::optional<std::map<std::string, std::string>> run_metadata;  ///< `RunConfig::metadata`; unset before format 3.
  std::map<std::string, StoredFile> files;                         ///< By name, relative to the checkpoint.
  friend auto operator==(Manifest const&, Manifest const&) -> bool = default;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(format), CEREAL_NVP(run_id), CEREAL_NVP(number), cereal::make_nvp("generation", start),
      CEREAL_NVP(training_iteration), CEREAL_NVP(time_total_s), CEREAL_NVP(world_size), CEREAL_NVP(training_iterations),
      CEREAL_NVP(kept_reports), CEREAL_NVP(seed), CEREAL_NVP(dataset_rows), CEREAL_NVP(dataset_digests),
      CEREAL_NVP(batch_sizes), CEREAL_NVP(positions), CEREAL_NVP(orders), CEREAL_NVP(handed_over),
      CEREAL_NVP(created_at), CEREAL_NVP(metrics), CEREAL_NVP(metadata), CEREAL_NVP(run_metadata), CEREAL_NVP(files));
  }
};

namespace detail {

/// Errors: `corrupt_checkpoint` for a manifest that is not as it was written, or that names a file outside;
///         `foreign_run` for one by a newer raytrain; `io`.
[[nodiscard]] auto read_manifest(CheckpointFiles const& files) -> Manifest;

}  // namespace detail

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/manifest-inl.hpp>
#endif
