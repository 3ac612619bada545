#pragma once

#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <raytrain/backend/mpi/mpi_context.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>

#include "findings.hpp"
#include "host.hpp"

// Numbers of <linux/magic.h> and of the file systems' own sources.
inline auto file_system_name(std::uint64_t type) -> std::string {
  struct Known {
    std::uint64_t type;
    char const* name;
  };
  constexpr Known known[] = {
      {0xEF53, "ext4"},       {0x58465342, "XFS"},   {0x9123683E, "Btrfs"},     {0x2FC12FC1, "ZFS"},
      {0x01021994, "tmpfs"},  {0x858458F6, "ramfs"}, {0x794C7630, "overlayfs"}, {0x6969, "NFS"},
      {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},  {0x0BD00BD0, "Lustre"},    {0x47504653, "GPFS"},
      {0x19830326, "BeeGFS"}, {0x00C36400, "Ceph"},  {0x65735546, "FUSE"},      {0x01021997, "9P"},
  };
  for (auto const& [number, name] : known) {
    if (number == type) return name;
  }
  return fmt::format("file system {:#x}", type);
}

inline void examine_storage(std::filesystem::path const& folder, Findings& findings) {
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) return;
  auto const name = file_system_name(static_cast<std::uint64_t>(facts.f_type));
  auto const free_bytes = static_cast<std::size_t>(facts.f_bavail) * static_cast<std::size_t>(facts.f_bsize);
  findings.say("Storage", fmt::format("{}: {}, {} free", std::filesystem::absolute(folder).parent_path().string(), name,
                                      raytrain::gibibytes_text(free_bytes)));
  if (name == "tmpfs" || name == "ramfs") {
    findings.advise("checkpoints go to memory (" + name +
                    "), which is gone when the host is: choose another --storage");
  }
  if (name == "overlayfs") {
    findings.advise(
        "checkpoints go to a container's own layer (overlayfs), which is gone with it: mount a folder for them");
  }
  constexpr double little = 1 << 30;
  if (free_bytes < little) findings.advise("less than 1 GiB is free for checkpoints: choose another --storage");
}

struct Written {
  int checkpoint = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(checkpoint));
  }
};

// Seconds from `report` until a checkpoint of that size is committed; a group operation.
inline auto seconds_to_commit(raytrain::MpiContext& ctx, int number, std::size_t bytes) -> double {
  raytrain::Bytes content(bytes);
  std::mt19937_64 random{ctx.seed()};  // so that no file system can make it smaller
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    auto const value = random();
    std::memcpy(content.data() + at, &value, sizeof value);
  }
  ctx.barrier();
  auto const start = std::chrono::steady_clock::now();
  ctx.report(Written{number}, raytrain::CheckpointDraft::replicated(
                                  [&](raytrain::CheckpointDraft& draft) { draft.add("content", std::move(content)); }));
  return std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count();
}

// By the run's own checkpoints, which are durable when `report` returns. A group operation.
inline void examine_checkpoints(raytrain::MpiContext& ctx, std::size_t mebibytes, Findings& findings) {
  auto smallest = seconds_to_commit(ctx, 0, 1);
  for (int again = 1; again < 5; ++again) smallest = std::min(smallest, seconds_to_commit(ctx, again, 1));
  auto const seconds = seconds_to_commit(ctx, 5, mebibytes << 20U);
  auto const rate = static_cast<double>(mebibytes) / 1024 / seconds;
  findings.say("Checkpoints",
               fmt::format("one of {} MiB is committed after {:.2f} s ({:.2f} GiB/s), the smallest after {:.1f} ms",
                           mebibytes, seconds, rate, smallest * 1e3));
  constexpr double slow_rate = 0.1;
  constexpr double slow_commit = 0.1;
  if (rate < slow_rate)
    findings.advise(
        fmt::format("checkpoints are written at {:.0f} MiB/s only: choose a faster --storage, or checkpoint less often",
                    rate * 1024));
  if (smallest > slow_commit)
    findings.advise(
        fmt::format("the storage takes {:.0f} ms to make the smallest checkpoint durable: checkpoint less often, or "
                    "choose another --storage",
                    smallest * 1e3));
}
