// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller_events.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto ended_with(Result const& result) -> Ended {
  Ended ended;
  ended.state = static_cast<std::uint8_t>(result.state);
  ended.metrics = result.metrics;
  ended.path = result.path.string();
  ended.error = result.error;
  for (auto const& checkpoint : result.checkpoints) ended.checkpoints.push_back(checkpoint.number());
  ended.warnings = result.warnings;
  ended.nothing_left = result.nothing_left;
  ended.timings = {result.timings.to_workers_s, result.timings.to_first_report_s, result.timings.total_s};
  ended.attempts = result.attempts;
  ended.metadata = result.metadata;
  ended.world_size = result.world_size;
  return ended;
}

RAYTRAIN_INLINE auto fits(Ended const& ended) -> bool {
  try {
    (void)encode(ControllerMessage{ended});
    return true;
  } catch (Error const&) {
    return false;
  }
}

/// Leaves out what one message cannot hold, and says so.
RAYTRAIN_INLINE void shorten(Ended& ended) {
  if (fits(ended)) return;
  constexpr std::size_t most_bytes = 1 << 10U;
  constexpr std::ptrdiff_t most = 100;
  auto const keep_last = [](auto& all) {
    if (std::ssize(all) > most) all.erase(all.begin(), all.end() - most);
  };
  auto const shorten_all = [](std::vector<ErrorInfo>& failures) {
    if (std::ssize(failures) > most) failures.resize(most);
    for (auto& failure : failures) failure = std::move(failure).with_short_texts(most_bytes);
  };
  ended.is_shortened = true;
  auto const warnings = ended.warnings.size();
  keep_last(ended.warnings);
  for (auto& warning : ended.warnings) warning = shortened(std::move(warning), most_bytes);
  ended.warnings.push_back(
      "this rank's result is shortened, since all of it was more than a message holds: rank 0 has " +
      std::to_string(warnings) + " warnings, and longer texts");
  keep_last(ended.attempts);
  for (auto& attempt : ended.attempts) {
    for (auto* const errors : {&attempt.failures, &attempt.preemptions}) {
      if (!errors->empty()) errors->resize(1);
      shorten_all(*errors);
    }
  }
  shorten_all(ended.failures);
  if (ended.thrown) ended.thrown = std::move(*ended.thrown).with_short_texts(most_bytes);
  ended.error = shortened(std::move(ended.error), most_bytes);
  if (!fits(ended)) ended.metrics = {};
}

/// The reports, from the run's folder; a warning where they cannot be read.
RAYTRAIN_INLINE void read_history(Result& result) {
  auto const progress_file = result.path / progress_file_name;
  auto const say_missing = [&](std::string const& why) {
    result.warnings.push_back("Result::history is empty on this rank: " + why);
  };
  try {
    if (!std::filesystem::exists(progress_file)) return say_missing("there is no " + progress_file.string());
    RunHistory::read(progress_file).move_to(result);
  } catch (std::exception const& error) {
    say_missing(error.what());
  }
}

/// From the store as this process sees it; a warning where one cannot be opened.
RAYTRAIN_INLINE void open_checkpoints(Result& result, CheckpointStore const* store,
                                      std::vector<CheckpointNumber> const& numbers) {
  if (store == nullptr) return;  // its worker never began
  for (auto const number : numbers) {
    try {
      result.checkpoints.push_back(store->open(number));
    } catch (Error const& error) {
      result.warnings.push_back("Result::checkpoints lacks one on this rank: " + std::string{error.what()});
    }
  }
}

RAYTRAIN_INLINE auto result_of(Ended& ended, CheckpointStore const* store) -> Result {
  if (ended.thrown && ended.failures.empty()) {
    auto& thrown = *ended.thrown;
    throw Error{thrown.code, std::move(thrown.attempted), std::move(thrown.happened), std::move(thrown.remedy)};
  }
  Result result;
  result.state = static_cast<RunState>(ended.state);
  result.world_size = ended.world_size;
  result.path = ended.path;
  result.error = std::move(ended.error);
  result.warnings = std::move(ended.warnings);
  result.attempts = std::move(ended.attempts);
  result.metadata = std::move(ended.metadata);
  open_checkpoints(result, store, ended.checkpoints);
  result.nothing_left = ended.nothing_left;
  ended.timings.resize(3);
  result.timings = {ended.timings[0], ended.timings[1], ended.timings[2]};
  if (!ended.metrics.empty() || ended.is_shortened) read_history(result);
  if (!ended.metrics.empty()) result.metrics = std::move(ended.metrics);
  if (!ended.failures.empty()) throw TrainingFailed{std::move(ended.failures), std::move(result)};
  return result;
}

RAYTRAIN_INLINE auto fit_and_tell_others(std::function<void(Ended)> const& send, std::function<Result()> const& fit)
    -> Result {
  auto const end = [&](Ended ended) {
    shorten(ended);
    send(std::move(ended));
  };
  try {
    auto result = fit();
    end(ended_with(result));
    return result;
  } catch (TrainingFailed const& failed) {
    auto ended = ended_with(failed.result());
    ended.failures = failed.failures();
    ended.thrown = ErrorInfo{failed};
    end(std::move(ended));
    throw;
  } catch (Error const& error) {
    Ended ended;
    ended.thrown = ErrorInfo{error};
    end(std::move(ended));
    throw;
  } catch (...) {
    Ended ended;
    ended.thrown = ErrorInfo{Errc::exception, "fit() in the controller's process", current_exception_text()};
    end(std::move(ended));
    throw;
  }
}

}  // namespace raytrain::detail
