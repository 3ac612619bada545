// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/container_bytes.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/worker_setup.hpp>
#include <raytrain/version.hpp>

namespace raytrain::detail {

/// The dataset that preprocessors learn from.
inline constexpr auto fitted_dataset = "train";

/// Calls `work`. What a preprocessor refuses becomes `NotRetryable`, since it would come again with every attempt.
template <class Work>
auto without_retry(std::string const& attempted, Work const& work) {
  try {
    return work();
  } catch (Error const& error) {
    switch (error.code()) {
      case Errc::invalid_config:
      case Errc::invalid_data:
      case Errc::invalid_call:
      case Errc::not_found:
      case Errc::exception: throw NotRetryable{attempted + ": " + error.attempted(), error.happened(), error.remedy()};
      default: throw;  // of the group or the disk
    }
  } catch (Stopped const&) {
    throw;
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::system_error const&) {
    throw;  // as of too many threads
  } catch (std::exception const& error) {
    throw NotRetryable{attempted, error.what()};
  }
}

/// While it lives, a worker that shows no sign of life is not taken for one that hangs.
class ExpectedSilence {
 public:
  explicit ExpectedSilence(SignsOfLife& signs) : signs_{signs} { begin(); }
  ExpectedSilence(ExpectedSilence const&) = delete;
  auto operator=(ExpectedSilence const&) -> ExpectedSilence& = delete;
  ~ExpectedSilence() { end(); }

  void begin() { signs_.expect_silence(SignsOfLife::longest, SignsOfLife::Clock::now()); }
  void end() { signs_.expect_silence(std::chrono::milliseconds{0}, SignsOfLife::Clock::now()); }

 private:
  SignsOfLife& signs_;
};

RAYTRAIN_INLINE auto preparation_by(AnyPreprocessor const& preprocessor) -> std::shared_ptr<PreparedDatasets> {
  return preprocessor ? std::make_shared<PreparedDatasets>(preprocessor) : nullptr;
}

RAYTRAIN_INLINE void validate_prepared_folder(DataConfig const& data, AnyPreprocessor const& preprocessor,
                                              Datasets const& datasets) {
  if (data.prepared_folder.empty()) return;
  constexpr auto attempted = "DataConfig::prepared_folder";
  if (!preprocessor) {
    throw Error{Errc::invalid_config, attempted, "is set, and there is no preprocessor",
                "set TrainerConfig::preprocessor, or call materialize yourself"};
  }
  auto const names_a_folder = [](std::string_view name) {
    return name != "." && name != ".." && name.find_first_of(std::string_view{"/\0", 2}) == std::string_view::npos;
  };
  for (auto const& [name, dataset] : datasets) {
    if (!names_a_folder(name)) {
      throw Error{Errc::invalid_config, attempted, fmt::format("the dataset '{}' cannot name a folder", name),
                  "name it otherwise"};
    }
  }
}

RAYTRAIN_INLINE void validate_preprocessor(AnyPreprocessor const& preprocessor, Datasets const& datasets) {
  if (!preprocessor || preprocessor.is_fitted() || datasets.contains(fitted_dataset)) return;
  if (datasets.empty()) {
    throw Error{Errc::invalid_config, "TrainerConfig::preprocessor",
                "is set and has not learnt yet, and there are no datasets",
                "add them to TrainerConfig::datasets, or give one that is fitted"};
  }
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
      fmt::format("is not set, and the run has trained with one until checkpoint {}", run.checkpoint->number().value),
      "set it, or begin anew by Resume::fresh"};
}

RAYTRAIN_INLINE auto PreparedDatasets::of_checkpoint(Checkpoint const& checkpoint) const -> CheckpointedPreprocessor {
  auto const refuse = [&](std::string const& happened) {
    throw NotRetryable{
        "TrainerConfig::preprocessor",
        fmt::format("{} until checkpoint {}, from which it goes on", happened, checkpoint.number().value),
        "set that one, or begin anew by Resume::fresh"};
  };
  if (!checkpoint.contains(CheckpointedPreprocessor::file_name)) refuse("is set, and the run has trained without one");
  auto const differs = [&](std::string const& type_before) {
    refuse(
        fmt::format("is a {} that differs, in its settings or in what it has learnt, from the {} with which the run "
                    "has trained",
                    asked_.type_name(), type_before));
  };
  return without_retry("TrainerConfig::preprocessor", [&] {
    PreprocessorDocument const document{checkpoint};
    auto const asked = write_json(asked_);
    auto before = [&] {
      try {
        return document.read();
      } catch (Error const&) {
        // A program that asks for other types need not know those of the checkpoint.
        auto const types = document.asked_types();
        if (!types.empty() && types != preprocessor_types(parse_json(asked))) {
          differs(types.size() == 1
                      ? types.front()
                      : fmt::format("{} ({})", types.front(), fmt::join(types.begin() + 1, types.end(), ", ")));
        }
        throw;
      }
    }();
    if (asked != write_json(before.asked) && asked != write_json(before.fitted)) differs(before.asked.type_name());
    return before;
  });
}

/// What must be alike where workers learn together.
struct LearntRows {
  std::string digest{};
  std::vector<std::string> columns{};  ///< Name, type and row shape of each.

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(digest), CEREAL_NVP(columns));
  }
};

[[nodiscard]] inline auto learnt_rows(Dataset const& dataset) -> LearntRows {
  LearntRows rows{.digest = dataset.digest()};
  for (auto const& column : dataset.columns()) {
    rows.columns.push_back(fmt::format("{} ({}, {})", column.name(),
                                       column.is_text() ? "text" : to_string(column.type()),
                                       fmt::join(column.row_shape(), " x ")));
  }
  return rows;
}

/// The worker's part among those that hold the same rows. Errors: `invalid_data` for other columns than those of rank
/// 0.
[[nodiscard]] inline auto part_of_same_rows(Rank rank_here, std::vector<LearntRows> const& workers) -> FitRows::Part {
  for (std::size_t rank = 1; rank < workers.size(); ++rank) {
    if (workers[rank].columns == workers[0].columns) continue;
    throw Error{Errc::invalid_data, fmt::format("learning from the dataset '{}'", fitted_dataset),
                fmt::format("rank {} has the columns {}, and rank 0 {}", rank, fmt::join(workers[rank].columns, ", "),
                            fmt::join(workers[0].columns, ", ")),
                "give all ranks the same columns, or a preprocessor that is fitted"};
  }
  auto const count = [&, &digest = workers[rank_here.value].digest](std::size_t before) {
    return static_cast<std::uint32_t>(std::ranges::count(
        workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(before), digest, &LearntRows::digest));
  };
  return {Rank{count(rank_here.value)}, WorldSize{count(workers.size())}};
}

RAYTRAIN_INLINE auto PreparedDatasets::fitted(WorkerSetup const& setup) const -> CheckpointedPreprocessor {
  auto const& run = *setup.run;
  if (run.checkpoint && !run.begins_from_other_run) return of_checkpoint(*run.checkpoint);
  CheckpointedPreprocessor result{asked_, asked_};
  if (asked_.is_fitted()) return result;
  auto const& train = find_dataset(run.datasets, fitted_dataset);
  FitRows::AllGather const all_gather = [&](Bytes mine) {
    return all_gather_bytes(*setup.collective, std::move(mine));
  };
  auto const& placement = setup.link.placement();
  without_retry("TrainerConfig::preprocessor", [&] {
    FitRows::Part part{.rank = placement.world_rank, .world_size = placement.world_size};
    // Of what is not split each process may hold other rows.
    if (!is_split(run.data, fitted_dataset)) {
      part = part_of_same_rows(placement.world_rank, all_gather_objects(*setup.collective, learnt_rows(train)));
    }
    result.fitted.fit(FitRows{train, part, all_gather});
  });
  return result;
}

RAYTRAIN_INLINE void PreparedDatasets::prepare(WorkerSetup const& setup) {
  // A worker shows no sign of life while it learns, or waits for the one that changes the datasets. That one shows
  // some.
  ExpectedSilence silence{setup.link.signs_of_life()};
  auto learnt = fitted(setup);
  std::lock_guard const lock{mutex_};
  silence.end();
  if (failure_) std::rethrow_exception(failure_);
  if (is_done_) return;
  try {
    transform(std::move(learnt), setup);
    is_done_ = true;
  } catch (Stopped const&) {
    throw;
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// How many rows are transformed between two signs of life, so that they take about 16 MiB.
[[nodiscard]] inline auto batch_rows(Dataset const& dataset) -> std::size_t {
  constexpr std::size_t most_bytes = std::size_t{16} << 20U;
  constexpr std::size_t most_rows = std::size_t{1} << 16U;
  std::size_t row_bytes = 1;
  for (auto const& column : dataset.columns()) row_bytes += column.row_bytes();
  return std::clamp<std::size_t>(most_bytes / row_bytes, 1, most_rows);
}

/// How rows are prepared into a folder, block by block.
///
/// Threads: calls `transform` and `beat_or_stop` from the caller's. Reading all rows for their digest and closing the
///          files shows no sign of life: until the first block, and after the last one, silence is expected.
struct PreparedFolder {
  std::filesystem::path folder;
  std::size_t block_rows;
  std::string learnt;  ///< The preprocessor's JSON: rows that another one has made are refused.
  SignsOfLife& signs;
  std::function<Dataset(Dataset const&)> transform;
  std::function<void()> beat_or_stop;

  /// Written unless they lie there. Errors: those of `transform`, with the rows of the block.
  [[nodiscard]] auto prepared(Dataset const& rows) const -> Dataset {
    ExpectedSilence silence{signs};
    std::vector<std::size_t> ends;
    for (auto end = block_rows; end < rows.rows(); end += block_rows) ends.push_back(end);
    auto const next = [&, blocks = rows.split_at_indices(ends),
                       at = std::size_t{0}]() mutable -> std::optional<Dataset> {
      if (at == blocks.size()) {
        silence.begin();
        return std::nullopt;
      }
      silence.end();
      auto const first = at * block_rows;
      auto const& block = blocks[at++];
      auto const attempted = [&](Error const& error) {
        return fmt::format("of rows {} to {}: {}", first, first + block.rows() - 1, error.attempted());
      };
      try {
        return transform(block);
      } catch (NotRetryable const& error) {
        throw NotRetryable{attempted(error), error.happened(), error.remedy()};
      } catch (Error const& error) {
        throw Error{error.code(), attempted(error), error.happened(), error.remedy()};
      }
    };
    auto const source = fmt::format("{}; prepared by {} in raytrain {}", DatasetBlocks{rows}.source(),
                                    xxh3_of(bytes_of(learnt)), version);
    beat_or_stop();  // a stop may have come meanwhile
    return materialize(folder, {source, next}, beat_or_stop);
  }
};

RAYTRAIN_INLINE void PreparedDatasets::transform(CheckpointedPreprocessor learnt, WorkerSetup const& setup) {
  auto& link = setup.link;
  auto const threads = link.placement().cpus * static_cast<int>(link.placement().process_workers.value);
  auto const beat_or_stop = [&] {
    if (link.stop_token().stop_requested() || link.aborted().stop_requested()) throw Stopped{};
    link.signs_of_life().beat();
  };
  auto const transform_rows = [&](Dataset const& rows) {
    beat_or_stop();
    return learnt.fitted.transform(rows);
  };
  auto const json = without_retry("storing TrainerConfig::preprocessor", [&] { return write_json(learnt); });
  auto const& folder = setup.run->data.prepared_folder;
  for (auto const& [name, dataset] : setup.run->datasets) {
    auto const prepare_rows = [&, &name = name, &rows = dataset] {
      auto each = batch_rows(rows);
      // A row may become much wider: what no rows become tells how wide.
      if (rows.rows() > 0) each = std::min(each, batch_rows(transform_rows(rows.head(0))));
      auto const transform_in_threads = [&](Dataset const& some) {
        return map_batches(some, transform_rows, {.batch_size = each, .threads = std::max(threads, 1)});
      };
      if (folder.empty()) return transform_in_threads(rows);
      auto const block_rows = each * static_cast<std::size_t>(std::max(threads, 1));
      PreparedFolder const into{.folder = folder / name,
                                .block_rows = block_rows,
                                .learnt = write_json(learnt.fitted),
                                .signs = link.signs_of_life(),
                                .transform = transform_in_threads,
                                .beat_or_stop = beat_or_stop};
      return into.prepared(rows);
    };
    datasets_.insert_or_assign(name, without_retry(fmt::format("preparing the dataset '{}'", name), prepare_rows));
  }
  auto const bytes = bytes_of(json);
  json_ = SharedBytes{Bytes{bytes.begin(), bytes.end()}};
  fitted_ = std::move(learnt.fitted);
}

}  // namespace raytrain::detail
