// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/core/bytes.hpp>

#include "../support/text_files.hpp"

/// The system's files, and beside them a model of what a disk may hold when the power fails: of every file and folder
/// any state since it was last synced.
class VolatileFiles : public raytrain::detail::FileSystem {
 public:
  /// Whatever lies below `root` now is taken as durable.
  explicit VolatileFiles(std::filesystem::path root) : root_path_{std::move(root)}, root_{scan(root_path_)} {}

  /// Called before each step.
  std::function<void()> before = [] {};

  /// Makes of `folder` what is left of the root: everything as old as possible, as new as possible, or at random.
  void lose_power(std::filesystem::path const& folder) const {
    restore(*root_, folder, [](std::size_t) { return std::size_t{0}; });
  }
  void kill(std::filesystem::path const& folder) const {
    restore(*root_, folder, [](std::size_t versions) { return versions - 1; });
  }
  void lose_power(std::filesystem::path const& folder, std::mt19937& random) const {
    restore(*root_, folder, [&](std::size_t versions) {
      return std::uniform_int_distribution<std::size_t>{0, versions - 1}(random);
    });
  }

  auto create(std::filesystem::path const& path) -> int override {
    before();
    auto const file = FileSystem::create(path);
    if (file >= 0) change(path, std::make_shared<Node>(Node{{std::string{}}, {}}));
    return file;
  }
  auto write(int file, raytrain::BytesView bytes) -> ::ssize_t override {
    before();
    auto const written = FileSystem::write(file, bytes);
    auto& contents = node(path_of(file))->contents;
    contents.push_back(contents.back() + std::string{raytrain::text_of(bytes)});
    return written;
  }
  auto sync(int file) -> int override {
    before();
    auto const synced = node(path_of(file));
    if (synced->contents.size() > 1) synced->contents = {synced->contents.back()};
    if (synced->entries.size() > 1) synced->entries = {synced->entries.back()};
    return 0;
  }
  auto rename(std::filesystem::path const& from, std::filesystem::path const& to) -> int override {
    before();
    auto const moved = node(from);
    auto const result = FileSystem::rename(from, to);
    if (result != 0) return result;
    change(to, moved);
    change(from, nullptr);
    // Within one folder both changes are one step.
    auto& versions = node(to.parent_path())->entries;
    if (from.parent_path() == to.parent_path()) versions.erase(versions.end() - 2);
    return result;
  }
  auto make_directory(std::filesystem::path const& path) -> int override {
    before();
    auto const result = FileSystem::make_directory(path);
    if (result == 0) change(path, std::make_shared<Node>(Node{{}, {Entries{}}}));
    return result;
  }
  auto remove_file(std::filesystem::path const& path) -> int override {
    before();
    auto const result = FileSystem::remove_file(path);
    if (result == 0) change(path, nullptr);
    return result;
  }
  auto remove_directory(std::filesystem::path const& path) -> int override {
    before();
    auto const result = FileSystem::remove_directory(path);
    if (result == 0) change(path, nullptr);
    return result;
  }

 private:
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  /// A file has contents, a folder has entries: all versions since the last sync, oldest first.
  struct Node {
    std::vector<std::string> contents;
    std::vector<Entries> entries;
  };

  static auto scan(std::filesystem::path const& path) -> std::shared_ptr<Node> {
    if (!std::filesystem::is_directory(path)) return std::make_shared<Node>(Node{{read_text(path)}, {}});
    Entries entries;
    for (auto const& name : names_below(path)) entries[name] = scan(path / name);
    return std::make_shared<Node>(Node{{}, {std::move(entries)}});
  }

  template <class Choose>
  static void restore(Node const& node, std::filesystem::path const& path, Choose choose) {
    if (node.entries.empty()) {
      write_text(path, node.contents[choose(node.contents.size())]);
      return;
    }
    std::filesystem::create_directories(path);
    for (auto const& [name, entry] : node.entries[choose(node.entries.size())]) restore(*entry, path / name, choose);
  }

  [[nodiscard]] static auto path_of(int file) -> std::filesystem::path {
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file));
  }

  [[nodiscard]] auto node(std::filesystem::path const& path) const -> std::shared_ptr<Node> {
    auto found = root_;
    for (auto const& part : path.lexically_relative(root_path_)) {
      if (part != ".") found = found->entries.back().at(part.string());
    }
    return found;
  }

  void change(std::filesystem::path const& path, std::shared_ptr<Node> const& entry) {
    auto const folder = node(path.parent_path());
    auto entries = folder->entries.back();
    if (entry) {
      entries[path.filename().string()] = entry;
    } else {
      entries.erase(path.filename().string());
    }
    folder->entries.push_back(std::move(entries));
  }

  std::filesystem::path root_path_;
  std::shared_ptr<Node> root_;
};
