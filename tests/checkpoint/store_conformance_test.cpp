// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/testing/checkpoint_store_conformance.hpp>
#include <raytrain/testing/faulty_store.hpp>
#include <raytrain/testing/memory_store.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::FaultyStore;
using raytrain::testing::MemoryStore;
using raytrain::testing::TemporaryFolder;

struct InDirectory {
  TemporaryFolder folder;

  [[nodiscard]] auto path() const -> std::filesystem::path { return folder.path() / "deep/checkpoints"; }
  [[nodiscard]] auto store() const -> std::unique_ptr<CheckpointStore> {
    return std::make_unique<DirectoryStore>(path());
  }
  void damage(CheckpointNumber number, std::string const& name) const {
    auto const file = DirectoryStore{path()}.path_of(number) / name;
    auto text = read_text(file);
    text.at(0) = static_cast<char>(text[0] ^ 1);
    write_text(file, text);
  }
};

struct InMemory {
  std::shared_ptr<MemoryStore::Memory> memory = std::make_shared<MemoryStore::Memory>();

  [[nodiscard]] auto store() const -> std::unique_ptr<CheckpointStore> { return std::make_unique<MemoryStore>(memory); }
  void damage(CheckpointNumber number, std::string const& name) const {
    auto& content = memory->checkpoints.at(number).at(name);
    Bytes bytes{content.view().begin(), content.view().end()};
    bytes.at(0) ^= std::byte{1};
    content = CheckpointDraft::Content{std::move(bytes)};
  }
};

/// One that nothing fails in is as good as the store behind it.
struct Wrapped : InMemory {
  [[nodiscard]] auto store() const -> std::unique_ptr<CheckpointStore> {
    return std::make_unique<FaultyStore>(InMemory::store(), [](std::string_view) {});
  }
};

}  // namespace

TEST_CASE_TEMPLATE_INVOKE(checkpoint_store_conformance, InDirectory, InMemory, Wrapped);
