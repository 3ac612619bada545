// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <raytrain/config/data_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// A run's datasets as its preprocessor makes them, for all workers of one process in one attempt.
///
/// Threads: `prepare` from any worker's thread; what it has made is there when it returns, and does not change.
class PreparedDatasets {
 public:
  /// `asked`: as `TrainerConfig::preprocessor` is.
  explicit PreparedDatasets(AnyPreprocessor asked) : asked_{std::move(asked)} {}

  /// On each worker, before its context is made, and together with those of other processes: takes what the
  /// preprocessor has learnt from the run's checkpoint, or lets it learn from the dataset "train" unless it is fitted.
  /// The first worker that comes so far changes the datasets for all of its process.
  ///
  /// Errors: `not_retryable`, for what the preprocessor refuses, and for another one than that of the checkpoint.
  void prepare(WorkerSetup const& setup);

  [[nodiscard]] auto datasets() const noexcept -> Datasets const& { return datasets_; }
  [[nodiscard]] auto preprocessor() const noexcept -> AnyPreprocessor const& { return fitted_; }
  /// What checkpoints have of it.
  [[nodiscard]] auto json() const noexcept -> SharedBytes const& { return json_; }

 private:
  [[nodiscard]] auto fitted(WorkerSetup const& setup) const -> CheckpointedPreprocessor;
  /// Changes the datasets. Errors: `Stopped`.
  void transform(CheckpointedPreprocessor learnt, WorkerSetup const& setup);
  [[nodiscard]] auto of_checkpoint(Checkpoint const& checkpoint) const -> CheckpointedPreprocessor;

  AnyPreprocessor asked_;
  std::mutex mutex_;
  bool is_done_ = false;
  std::exception_ptr failure_;  ///< Of the worker that has tried to change the datasets.
  AnyPreprocessor fitted_;
  Datasets datasets_;
  SharedBytes json_;
};

/// None for none.
[[nodiscard]] auto preparation_by(AnyPreprocessor const& preprocessor) -> std::shared_ptr<PreparedDatasets>;

/// Checks what `TrainerConfig::preprocessor` needs.
///
/// Errors: `invalid_config` for one that is to learn without a dataset "train".
void validate_preprocessor(AnyPreprocessor const& preprocessor, Datasets const& datasets);

/// Checks what `DataConfig::prepared_folder` needs.
///
/// Errors: `invalid_config` where there is no preprocessor, and for a dataset whose name cannot be that of a folder.
void validate_prepared_folder(DataConfig const& data, AnyPreprocessor const& preprocessor, Datasets const& datasets);

/// Calls `PreparedDatasets::prepare` where the run has a preprocessor.
///
/// Errors: as it; `not_retryable` where it has none, and the checkpoint that it goes on from has one.
void prepare_datasets(WorkerSetup const& setup);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/prepared_datasets-inl.hpp>
#endif
