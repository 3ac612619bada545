// SPDX-License-Identifier: Apache-2.0
// What fails beside the workers or behind the last report: the run has failed, and says which part of it and why.
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/callback/json_lines.hpp>
#include <raytrain/launch/host.hpp>

#include "minimal_run.hpp"

namespace {

auto run_with(TemporaryFolder const& folder, Callbacks callbacks) -> MinimalConfig {
  return {.run = {.name = "r", .storage_path = folder.path()}, .callbacks = std::move(callbacks)};
}

// Throws in one of its functions, and keeps what it is told.
class Failing : public Callback {
 public:
  explicit Failing(std::string where, bool is_critical = true) : where_{std::move(where)}, critical_{is_critical} {}

  void on_report(Report const&, Metrics const&) override { fail_in("on_report"); }
  void on_checkpoint(Checkpoint const&) override { fail_in("on_checkpoint"); }
  auto on_warning(std::string_view text) -> bool override {
    warnings.emplace_back(text);
    return true;
  }
  void on_failure(ErrorInfo const& error) override {
    failures.push_back(error.text());
    fail_in("on_failure");
  }
  void on_finish(Result const&) override { fail_in("on_finish"); }
  [[nodiscard]] auto critical() const noexcept -> bool override { return critical_; }

  std::vector<std::string> failures;
  std::vector<std::string> warnings;

 private:
  void fail_in(std::string_view function) const {
    if (function == where_) throw std::runtime_error{"no server"};
  }

  std::string where_;
  bool critical_;
};

}  // namespace

TEST_CASE("a critical callback that fails at the last report makes the run fail, which says which callback and where") {
  TemporaryFolder const folder;
  std::string text;
  try {
    MinimalTrainer{epochs_up_to(1), run_with(folder, {std::make_shared<JsonLines>("/dev/full")})}.fit();
  } catch (TrainingFailed const& failed) {
    text = failed.what();
    REQUIRE(failed.failures().size() == 1);
    CHECK(failed.failures().front().code == Errc::io);
    CHECK_FALSE(failed.failures().front().rank);  // no worker is to blame
    CHECK(failed.failures().front().host == this_host().hostname);
  }
  contains(text, "the controller on " + this_host().hostname + ": callback ");
  contains(text, "callback raytrain::JsonLines, on_report: writing /dev/full: No space left on device");
  contains(Result::from_path(folder.path() / "r").error, "/dev/full");
  CHECK(Result::from_path(folder.path() / "r").state == RunState::errored);
}

TEST_CASE("a critical callback that fails at the last checkpoint or at the end makes the run fail") {
  for (std::string const where : {"on_checkpoint", "on_finish"}) {
    CAPTURE(where);
    TemporaryFolder const folder;
    auto const failing = std::make_shared<Failing>(where);
    try {
      MinimalTrainer{epochs_up_to(1), run_with(folder, {failing})}.fit();
      FAIL("must throw");
    } catch (TrainingFailed const& failed) {
      contains(failed.what(), "Failing, " + where + ": no server");
      CHECK(failed.result().state == RunState::errored);
      contains(failed.result().error, "no server");
      CHECK(failed.result().checkpoints.size() == 1);
    }
    CHECK(Result::from_path(folder.path() / "r").state == RunState::errored);
    REQUIRE(failing->failures.size() == 1);
    contains(failing->failures.front(), "no server");
    CHECK(failing->warnings.empty());
  }
}

TEST_CASE("a critical callback that fails at every report fails the run once with the same text") {
  TemporaryFolder const folder;
  try {
    MinimalTrainer{[](TrainContext& ctx) {
                     for (auto epoch = 0; epoch < 5; ++epoch) ctx.report(Epoch{epoch, 0});
                   },
                   run_with(folder, {std::make_shared<Failing>("on_report")})}
        .fit();
    FAIL("must throw");
  } catch (TrainingFailed const& failed) {
    CHECK(failed.failures().size() == 1);
  }
}

TEST_CASE("a critical callback that cannot be told of a failure is not told of that") {
  TemporaryFolder const folder;
  auto const failing = std::make_shared<Failing>("on_failure");
  MinimalTrainer trainer{[](TrainContext&) { throw std::runtime_error{"the cause"}; }, run_with(folder, {failing})};
  auto const text = message_of([&] { trainer.fit(); });
  contains(text, "the cause");
  CHECK(failing->failures.size() == 1);
}

TEST_CASE("a warning of a callback that fails without being critical names it and what it was told") {
  TemporaryFolder const folder;
  auto const result =
      MinimalTrainer{epochs_up_to(1), run_with(folder, {std::make_shared<Failing>("on_checkpoint", false)})}.fit();
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings.front(), "Failing, on_checkpoint: no server");
}

TEST_CASE("checkpoints that cannot be listed at the end hide no cause") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           std::filesystem::remove_all(ctx.run_path() / "checkpoints");
                           std::ofstream{ctx.run_path() / "checkpoints"} << "a file";
                           throw std::runtime_error{"the cause"};
                         },
                         run_with(folder, {})};
  auto const text = message_of([&] { trainer.fit(); });
  contains(text, "the cause");
  contains(text, "checkpoints");
}
