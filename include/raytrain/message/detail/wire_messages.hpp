// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/message/detail/wire_archive.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

// The order of fields is part of the protocol; a message's attempt comes before them, by `encode`. In this namespace
// for argument-dependent lookup.

template <detail::WireArchive A>
void serialize(A& archive, Rank& rank) {
  archive(rank.value);
}

template <detail::WireArchive A>
void serialize(A& archive, Attempt& attempt) {
  archive(attempt.value);
}

template <detail::WireArchive A>
void serialize(A& archive, WorldSize& size) {
  archive(size.value);
}

template <detail::WireArchive A>
void serialize(A& archive, ShardPosition& position) {
  archive(position.epoch, position.samples);
}

template <detail::WireArchive A>
void serialize(A& archive, CheckpointOrdinal& checkpoint) {
  archive(checkpoint.value);
}

template <detail::WireArchive A>
void serialize(A& archive, CheckpointNumber& checkpoint) {
  archive(checkpoint.value);
}

void save(detail::WireOutput& archive, ErrorInfo const& error);

void load(detail::WireInput& archive, ErrorInfo& error);

void save(detail::WireOutput& archive, Metrics const& metrics);

void load(detail::WireInput& archive, Metrics& metrics);

template <detail::WireArchive A>
void serialize(A& archive, FileEntry& m) {
  archive(m.name, m.size_bytes, m.xxh3);
}

template <detail::WireArchive A>
void serialize(A& archive, Started& m) {
  archive(m.rank, m.hostname, m.pid, m.node_ip);
}

template <detail::WireArchive A>
void serialize(A& archive, Report& m) {
  archive(m.rank, m.training_iteration, m.time_this_iter_s, m.time_total_s, m.time_waiting_s, m.timestamp_ns,
          m.checkpoint, m.metrics, m.hands_over, m.replaces);
}

template <detail::WireArchive A>
void serialize(A& archive, CheckpointRef& m) {
  archive(m.rank, m.checkpoint, m.files, m.metadata, m.batch_sizes, m.positions, m.orders, m.failure);
}

template <detail::WireArchive A>
void serialize(A& archive, Progress& m) {
  archive(m.rank, m.done, m.total, m.note);
}

template <detail::WireArchive A>
void serialize(A& archive, Warning& m) {
  archive(m.rank, m.text);
}

template <detail::WireArchive A>
void serialize(A& archive, PrintedLine& m) {
  archive(m.rank, m.text);
}

template <detail::WireArchive A>
void serialize(A& archive, Failed& m) {
  archive(m.error, m.process_is_spent);
}

template <detail::WireArchive A>
void serialize(A& archive, Finished& m) {
  archive(m.rank, m.stopped, m.operations, m.calls_digest, m.process_is_spent);
}

template <detail::WireArchive A>
void serialize(A& archive, Stop& m) {
  archive(m.abort, m.goes_on, m.by_signal);
}

template <detail::WireArchive A>
void serialize(A& archive, CheckpointSettled& m) {
  archive(m.checkpoint, m.number);
}

template <detail::WireArchive A>
void serialize(A& archive, StopRequest& m) {
  archive(m.rank, m.times);
}

template <detail::WireArchive A>
void serialize(A& archive, Preempted& m) {
  archive(m.rank);
}

template <detail::WireArchive A>
void serialize(A& archive, Silent& m) {
  archive(m.rank, m.silent_ms, m.waits, m.doing);
}

template <detail::WireArchive A>
void serialize(A& archive, Begin& m) {
  archive(m.name, m.run_path, m.run_id, m.start, m.start_id, m.started_at, m.checkpoint, m.report_fields, m.metadata,
          m.first_checkpoint, m.world_size, m.settings, m.group, m.group_id, m.lost_ranks, m.between_failures_s);
}

template <detail::WireArchive A>
void serialize(A& archive, RankReturned& m) {
  archive(m.rank, m.operations);
}

template <detail::WireArchive A>
void serialize(A& archive, AttemptInfo& m) {
  archive(m.attempt, m.world_size, m.first_iteration, m.last_iteration, m.total_s, m.failures, m.preemptions,
          m.lost_reports, m.lost_s, m.next_world_size, m.lost_hosts);
}

template <detail::WireArchive A>
void serialize(A& archive, Ended& m) {
  archive(m.thrown, m.failures, m.state, m.metrics, m.path, m.error, m.checkpoints, m.warnings, m.nothing_left,
          m.timings, m.attempts, m.metadata, m.world_size, m.has_lost_ranks, m.is_shortened);
}

template <detail::WireArchive A>
void serialize(A& archive, LeftBehind& m) {
  archive(m.ranks, m.exit_text);
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/wire_messages-inl.hpp>
#endif
