// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::testing {

/// Another store, where a test decides before each step whether it goes well.
class FaultyStore final : public CheckpointStore {
 public:
  /// Called with the name of the function, such as "publish", before it is; what it throws is what the step throws. It
  /// may wait, too: a slow store.
  ///
  /// Threads: those of the store.
  using Before = std::function<void(std::string_view step)>;

  FaultyStore(std::shared_ptr<CheckpointStore> store, Before before)
      : store_{std::move(store)}, before_{std::move(before)} {}

  void begin(StartId start, std::string run_id) override {
    store_->begin(start, run_id);
    CheckpointStore::begin(std::move(start), std::move(run_id));
  }

  [[nodiscard]] auto location() const -> std::string override { return store_->location(); }
  [[nodiscard]] auto numbers() const -> std::vector<CheckpointNumber> override {
    before_("numbers");
    return store_->numbers();
  }
  [[nodiscard]] auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> override {
    before_("files_of");
    return store_->files_of(number);
  }
  auto write_part(StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files)
      -> std::map<std::string, std::string> override {
    before_("write_part");
    return store_->write_part(part, files);
  }
  void publish(StagedCheckpoint const& staged) override {
    before_("publish");
    store_->publish(staged);
  }
  void discard(CheckpointOrdinal checkpoint) override {
    before_("discard");
    store_->discard(checkpoint);
  }
  void remove(CheckpointNumber number) override {
    before_("remove");
    store_->remove(number);
  }
  void sweep() override {
    before_("sweep");
    store_->sweep();
  }
  void check_usable() const override {
    before_("check_usable");
    store_->check_usable();
  }
  void check_clearable() const override {
    before_("check_clearable");
    store_->check_clearable();
  }
  auto create() -> bool override {
    before_("create");
    return store_->create();
  }
  void clear() override {
    before_("clear");
    store_->clear();
  }

 private:
  std::shared_ptr<CheckpointStore> store_;
  Before before_;
};

}  // namespace raytrain::testing
