// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/copy_exchange.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto copies_as(CheckpointConfig const& config) -> std::shared_ptr<CheckpointCopies> {
  return config.memory_copies > 0 ? std::make_shared<CheckpointCopies>() : nullptr;
}

/// The files that lie in no rank's folder.
RAYTRAIN_INLINE auto replicated_files(Checkpoint const& checkpoint) -> std::vector<FileEntry> {
  auto files = checkpoint.files();
  std::erase_if(files, [](FileEntry const& file) {
    std::string_view name = file.name;
    return take_rank_folder(name).has_value();
  });
  return files;
}

/// Of a file of `size` bytes: root's `own` goes to where ranks lack it. By memory that all see, where there is such,
/// since small pieces would each cost a wait; the ranks of which `lacking` is null need none for all of it.
RAYTRAIN_INLINE void broadcast_content(Collective& collective, std::size_t size, BytesView own, std::byte* lacking,
                                       Rank root) {
  constexpr std::size_t most_bytes = std::size_t{8} << 20U;
  auto const piece_bytes = std::min(size, most_bytes);
  auto const piece = collective.takes_device_arrays() ? Buffer<std::uint8_t>{allocate_pages(piece_bytes), piece_bytes}
                                                      : collective.allocate<std::uint8_t>(piece_bytes);
  for (std::size_t begin = 0; begin < size; begin += most_bytes) {
    auto const values = piece.span().first(std::min(size - begin, most_bytes));
    auto const bytes = std::as_writable_bytes(values);
    if (collective.rank() == root) std::ranges::copy(own.subspan(begin, bytes.size()), bytes.begin());
    collective.broadcast(values, root);
    if (lacking != nullptr) std::ranges::copy(bytes, lacking + begin);
  }
}

RAYTRAIN_INLINE void exchange_copies(WorkerSetup const& setup) {
  auto const& run = *setup.run;
  if (!run.copies || !run.checkpoint || run.begins_from_other_run || setup.link.attempt() == Attempt{}) return;
  auto const number = run.checkpoint->number();
  auto const files = replicated_files(*run.checkpoint);
  if (files.empty()) return;
  std::vector<std::uint8_t> mine;  // by file: whether it is here
  for (auto const& file : files) {
    auto const copy = run.copies->find(number, file.name);
    mine.push_back(copy && copy->size() == file.size_bytes ? 1 : 0);
  }
  auto& collective = *setup.collective;
  std::vector<std::uint8_t> all(mine.size() * collective.size().value);  // those of rank 0 come first
  collective.all_gather(std::span<std::uint8_t const>{mine}, std::span<std::uint8_t>{all});
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::optional<Rank> root;  // the lowest rank that has it
    auto is_lacking = false;   // on any
    for (Rank rank; rank < Rank{collective.size().value}; ++rank.value) {
      if (all[rank.value * files.size() + i] == 0) {
        is_lacking = true;
      } else if (!root) {
        root = rank;
      }
    }
    if (!root || !is_lacking) continue;
    auto const& name = files[i].name;
    auto const size = static_cast<std::size_t>(files[i].size_bytes);
    if (mine[i] != 0) {
      broadcast_content(collective, size, run.copies->find(number, name)->view(), nullptr, *root);
      continue;
    }
    auto const content = SnapshotBuffers{}.take(name, size);
    broadcast_content(collective, size, {}, content.get(), *root);
    run.copies->add(number, name, SharedBytes{{content.get(), size}, content});
  }
}

}  // namespace raytrain::detail
