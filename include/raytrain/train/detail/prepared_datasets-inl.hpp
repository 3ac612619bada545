// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// The dataset that preprocessors learn from.
inline constexpr auto fitted_dataset = "train";

/// Calls `work`, of which a failure would come again with every attempt: a preprocessor's own.
template <class Work>
auto without_retry(std::string const& attempted, Work const& work) {
  try {
    return work();
  } catch (Error const& error) {
    // Of the preprocessor, and not of the group in which it learns.
    auto const code = error.code();
    if (code == Errc::rank_mismatch || code == Errc::timed_out) throw;
    throw NotRetryable{attempted + ": " + error.attempted(), error.happened(), error.remedy()};
  }
}

/// A worker that shows nothing while it prepares is none that hangs.
class ExpectedSilence {
 public:
  explicit ExpectedSilence(SignsOfLife& signs) : signs_{signs} {
    signs_.expect_silence(SignsOfLife::longest, SignsOfLife::Clock::now());
  }
  ExpectedSilence(ExpectedSilence const&) = delete;
  auto operator=(ExpectedSilence const&) -> ExpectedSilence& = delete;
  ~ExpectedSilence() { signs_.expect_silence(std::chrono::milliseconds{0}, SignsOfLife::Clock::now()); }

 private:
  SignsOfLife& signs_;
};

RAYTRAIN_INLINE auto preparation_by(AnyPreprocessor const& preprocessor) -> std::shared_ptr<PreparedDatasets> {
  return preprocessor ? std::make_shared<PreparedDatasets>(preprocessor) : nullptr;
}

RAYTRAIN_INLINE void validate_preprocessor(AnyPreprocessor const& preprocessor, Datasets const& datasets) {
  if (!preprocessor) return;
  if (datasets.empty()) {
    throw Error{Errc::invalid_config, "TrainerConfig::preprocessor", "is set, and there are no datasets",
                "add them to TrainerConfig::datasets, or call transform yourself"};
  }
  if (preprocessor.is_fitted() || datasets.contains(fitted_dataset)) return;
  throw Error{Errc::invalid_config, "TrainerConfig::preprocessor",
              fmt::format("learns from the dataset '{}', and there are {}", fitted_dataset, dataset_names(datasets)),
              "name one of them so, or give a preprocessor that is fitted"};
}

RAYTRAIN_INLINE void prepare_datasets(WorkerSetup const& setup) {
  auto const& run = *setup.run;
  if (run.prepared) return run.prepared->prepare(setup);
  if (!run.checkpoint || run.begins_from_other_run) return;
  if (!run.checkpoint->contains(CheckpointedPreprocessor::file_name)) return;
  throw NotRetryable{
      "TrainerConfig::preprocessor",
      fmt::format("is not set, and the run has trained with one until checkpoint {}", run.checkpoint->number()),
      "set it, or begin anew by Resume::fresh"};
}

RAYTRAIN_INLINE auto PreparedDatasets::of_checkpoint(Checkpoint const& checkpoint) const -> AnyPreprocessor {
  auto const refuse = [&](std::string const& happened) {
    throw NotRetryable{"TrainerConfig::preprocessor",
                       fmt::format("{} until checkpoint {}, from which it goes on", happened, checkpoint.number()),
                       "set that one, or begin anew by Resume::fresh"};
  };
  if (!checkpoint.contains(CheckpointedPreprocessor::file_name)) refuse("is set, and the run has trained without one");
  auto before = read_preprocessor(checkpoint);
  if (to_json(before.asked) != to_json(asked_)) {
    refuse(fmt::format("is a {} with other settings than the {} with which the run has trained", asked_.type_name(),
                       before.asked.type_name()));
  }
  return std::move(before.fitted);
}

RAYTRAIN_INLINE auto PreparedDatasets::fitted(WorkerSetup const& setup) const -> AnyPreprocessor {
  auto const& run = *setup.run;
  if (run.checkpoint && !run.begins_from_other_run) return of_checkpoint(*run.checkpoint);
  auto result = asked_;
  if (result.is_fitted()) return result;
  auto const& train = find_dataset(run.datasets, fitted_dataset);
  FitRows::AllGather const all_gather = [&](Bytes mine) {
    return all_gather_bytes(*setup.collective, std::move(mine));
  };
  auto const& placement = setup.link.placement();
  // Of what is not split each worker may hold other rows.
  auto const rows = is_split(run.data, fitted_dataset)
                        ? FitRows{train, placement.world_rank, placement.world_size, all_gather}
                        : FitRows{train, all_gather};
  result.fit(rows);
  return result;
}

RAYTRAIN_INLINE void PreparedDatasets::prepare(WorkerSetup const& setup) {
  ExpectedSilence const silence{setup.link.signs_of_life()};
  auto learnt = without_retry("TrainerConfig::preprocessor", [&] { return fitted(setup); });
  std::lock_guard const lock{mutex_};
  if (is_done_) return;
  auto const& placement = setup.link.placement();
  auto const threads = placement.cpus * static_cast<int>(placement.process_workers.value);
  Datasets prepared;
  for (auto const& [name, dataset] : setup.run->datasets) {
    prepared.emplace(name, without_retry(fmt::format("preparing the dataset '{}'", name), [&, &dataset = dataset] {
                       return map_batches(dataset, [&](Dataset const& rows) { return learnt.transform(rows); },
                                          {.batch_size = 1U << 16U, .threads = std::max(threads, 1)});
                     }));
  }
  json_ = without_retry("storing TrainerConfig::preprocessor", [&] {
    return write_json(CheckpointedPreprocessor{asked_, learnt});
  });
  datasets_ = std::move(prepared);
  fitted_ = std::move(learnt);
  is_done_ = true;
}

}  // namespace raytrain::detail
