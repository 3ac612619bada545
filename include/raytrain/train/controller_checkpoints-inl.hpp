// SPDX-License-Identifier: Apache-2.0
// What the controller decides about checkpoints.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/controller_events.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Controller::on(CheckpointRef& ref) {
  auto const ordinal = ref.checkpoint;
  auto const found = arriving_.try_emplace(ordinal).first;
  auto& arriving = found->second;
  if (ref.failure && !arriving.failure) {
    arriving.failure = std::move(*ref.failure).with_origin(ref.rank, workers_.at(ref.rank.value).hostname);
  }
  arriving.refs.resize(workers_.size());
  arriving.refs.at(ref.rank.value) = std::move(ref);
  if (++arriving.arrived < workers_.size()) return;
  if (arriving.handed_over > 0 && arriving.handed_over < workers_.size()) return;  // states of different moments
  // Each rank sends its report before the part that belongs to it, so rank 0's report is there by now.
  if (arriving.failure) {
    lose_checkpoint(ordinal, std::move(*arriving.failure));
  } else if (arriving.rank_0_report) {
    auto const& rank_0_report = *arriving.rank_0_report;
    scores_[ordinal] = rank_0_report.hands_over ? std::nullopt : score_of(rank_0_report.metrics);
    act(CommitCheckpoint{ordinal, std::move(arriving.refs), std::move(*arriving.rank_0_report),
                         std::move(arriving.training_iterations)});
  } else {
    return;
  }
  // A rank whose part of this one is written writes none of an earlier one any more.
  arriving_.erase(arriving_.begin(), std::next(found));
}

RAYTRAIN_INLINE void Controller::on(CheckpointDurable& durable) {
  failed_since_checkpoint_ = 0;
  preempted_since_checkpoint_ = 0;
  may_find_damage_ = false;
  // Commits of earlier ones may come after the loss of a later one.
  durable_ = std::max(durable_, std::optional{durable.checkpoint});
  if (lost_ < durable_) lost_checkpoint_.reset();
  kept_.push_back({durable.number, scores_.at(durable.checkpoint)});
  scores_.erase(durable.checkpoint);
  // Callbacks read it, and a worker that knows of it may do with it what it likes.
  act(RecordMessage{durable});
  tell(CheckpointSettled{durable.checkpoint, durable.number});
  delete_surplus();
}

RAYTRAIN_INLINE void Controller::on(CheckpointLost& lost) {
  scores_.erase(lost.checkpoint);
  if (policy_.checkpoint.on_failed_write == OnFailedWrite::warn && lost.error.code == Errc::io) {
    return lose_checkpoint(lost.checkpoint, std::move(lost.error));
  }
  fail_attempt(std::move(lost.error));
}

RAYTRAIN_INLINE void Controller::lose_checkpoint(CheckpointOrdinal checkpoint, ErrorInfo error) {
  Warning warning{"goes on without a checkpoint that could not be written (CheckpointConfig::on_failed_write): " +
                  error.text()};
  warning.rank = error.rank;
  act(RecordMessage{std::move(warning)});
  lost_ = std::max(lost_, std::optional{checkpoint});
  if (durable_ < lost_) lost_checkpoint_ = std::move(error);
  act(DiscardCheckpoint{checkpoint});
  tell(CheckpointSettled{checkpoint, {}});
}

RAYTRAIN_INLINE void Controller::refuse_missing_checkpoints() {
  if (!failures_.empty() || stop_requested_ || resizing_) return;
  if (totals_.fewest_of_ended >= totals_.most_checkpoints) return;
  auto const most = std::ranges::max_element(workers_, {}, &Worker::checkpoints);
  for (auto const& worker : workers_) {
    if (!worker.ended || worker.checkpoints >= most->checkpoints) continue;
    ErrorInfo error{Errc::rank_mismatch, "reporting checkpoints",
                    "rank " + std::to_string(rank_of(worker).value) + " returned after " +
                        std::to_string(worker.checkpoints - first_checkpoint_.value) + " of them, rank " +
                        std::to_string(rank_of(*most).value) + " has reported " +
                        std::to_string(most->checkpoints - first_checkpoint_.value),
                    "call report with a checkpoint equally often on every rank"};
    fail_attempt(std::move(error).with_origin(rank_of(worker), {}));
    return;
  }
}

RAYTRAIN_INLINE void Controller::warn_of_missing_parts() {
  constexpr std::uint64_t many = 8;  // by so few one worker may be ahead of another one
  if (warned_of_missing_parts_ || arriving_.size() <= many) return;
  auto const [fewest, most] = std::ranges::minmax_element(workers_, {}, &Worker::checkpoints);
  if (most->checkpoints - fewest->checkpoints <= many) return;
  warned_of_missing_parts_ = true;
  auto const reported = [&](Worker const& worker) {
    return "rank " + std::to_string(rank_of(worker).value) + " has reported " +
           std::to_string(worker.checkpoints - first_checkpoint_.value);
  };
  act(RecordMessage{
      Warning{"the last checkpoints are not committed yet, since not every rank has reported its part of them: " +
              reported(*most) + ", " + reported(*fewest) +
              "; unless that one is only slower, call report with a checkpoint equally often on every rank"}});
}

RAYTRAIN_INLINE auto Controller::check_epoch(Report const& report) -> bool {
  auto const* const value = report.metrics.find("epoch");
  auto const* const epoch = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (epoch == nullptr) return true;
  auto& arriving = arriving_.at(*report.checkpoint);
  auto& first = arriving.epoch;
  if (!first) first.emplace(report.rank, *epoch);
  if (first->second == *epoch) return true;
  arriving.is_mixed = true;
  arriving.rank_0_report.reset();
  auto const of = [](Rank rank, std::int64_t number) {
    return "rank " + std::to_string(rank.value) + "'s part is of epoch " + std::to_string(number);
  };
  ErrorInfo error{Errc::rank_mismatch, "reporting a checkpoint",
                  of(first->first, first->second) + ", and " + of(report.rank, *epoch),
                  "call report with a checkpoint equally often on every rank"};
  fail_attempt(std::move(error).with_origin(report.rank, workers_.at(report.rank.value).hostname));
  return false;
}

RAYTRAIN_INLINE auto Controller::check_score(Report const& report) -> bool {
  if (policy_.checkpoint.score_attribute.empty()) return true;
  auto const refuse = [&](std::string happened, std::string remedy) {
    ErrorInfo error{Errc::invalid_report, "CheckpointConfig::score_attribute", std::move(happened), std::move(remedy)};
    fail_attempt(std::move(error).with_origin(report.rank, {}));
    return false;
  };
  auto const score = report.metrics.number(policy_.checkpoint.score_attribute);
  if (score && std::isfinite(*score)) return true;
  if (!score) {
    return refuse("no number of the name '" + policy_.checkpoint.score_attribute + "' is in the report; there are " +
                      report.metrics.names(),
                  "name one of them");
  }
  auto const happened = "'" + policy_.checkpoint.score_attribute + "' is " + std::to_string(*score) + " in report " +
                        std::to_string(report.training_iteration);
  if (policy_.checkpoint.fail_on_non_finite_score) {
    return refuse(happened + ", whose checkpoint is not kept", "lower the learning rate, for instance");
  }
  if (!std::exchange(warned_of_score_, true)) {
    act(RecordMessage{Warning{"CheckpointConfig::score_attribute: " + happened +
                              ": its checkpoint is never the best; fail_on_non_finite_score = true ends a "
                              "run there"}});
  }
  return true;
}

RAYTRAIN_INLINE auto Controller::score_of(Metrics const& metrics) const -> std::optional<double> {
  return policy_.checkpoint.score_attribute.empty() ? std::nullopt : metrics.number(policy_.checkpoint.score_attribute);
}

RAYTRAIN_INLINE void Controller::delete_surplus() {
  for (auto const number : checkpoints_to_delete(kept_, policy_.checkpoint)) {
    std::erase_if(kept_, [&](auto const& kept) { return kept.number == number; });
    act(DeleteCheckpoint{number});
  }
}

}  // namespace raytrain
