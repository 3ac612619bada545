// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/rank_supervisor.hpp>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <future>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/message.hpp>

#include "../support/function_queue.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"

using namespace raytrain;
using raytrain::testing::TemporaryFolder;

namespace {

/// A supervisor whose launcher only keeps the host file that it is given, and exits.
class Jobs {
 public:
  explicit Jobs(std::string const& hosts) {
    name_hosts(hosts);
    std::ofstream{folder_.path() / "launcher.sh"} << "cat \"$2\" > \"$(dirname \"$0\")/seen.txt\"\n";
    SupervisorOptions options;
    options.scaling.num_workers = 4;
    options.scaling.job_command = {"sh", path("launcher.sh"), "--hostfile", path("hosts.txt")};
    supervisor_.emplace(std::move(options));
  }

  void name_hosts(std::string const& text) { std::ofstream{folder_.path() / "hosts.txt"} << text; }

  [[nodiscard]] auto room() -> std::uint32_t { return supervisor_->room().workers.value; }

  /// The host file of the next job, as its launcher has it.
  [[nodiscard]] auto next() -> std::string {
    struct End {
      std::promise<void> promise{};
      std::atomic<bool> is_over{false};
    };
    auto const end = std::make_shared<End>();  // the job may say more later
    auto& queue = queues_.emplace_back([end](WorkerMessage const& message) {
      if (std::holds_alternative<Failed>(message) && !end->is_over.exchange(true)) end->promise.set_value();
    });
    WorkerLaunch what{.main = {}, .queue = queue};
    what.begin.attempt = Attempt{++attempt_};
    what.begin.run_path = folder_.path().string();
    supervisor_->launch(std::move(what));
    end->promise.get_future().wait();
    return read_text(folder_.path() / "seen.txt");
  }

 private:
  [[nodiscard]] auto path(std::string const& name) const -> std::string { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
  std::list<FunctionQueue> queues_;
  std::optional<RankSupervisor> supervisor_;
  std::uint64_t attempt_ = 0;
};

}  // namespace

TEST_CASE("a host file that has become too small for the workers changes nothing, until it is large enough again") {
  std::string const first{"alpha slots=2\nbeta slots=2\n"};
  Jobs jobs{first};
  CHECK(jobs.next() == first);
  for (auto const* const fewer : {"alpha slots=2\n", "alpha slots=2\nbeta slots=1\n"}) {
    CAPTURE(fewer);
    jobs.name_hosts(fewer);
    CHECK(jobs.room() == 4);
    CHECK(jobs.next() == first);
  }
  jobs.name_hosts("gamma slots=4\n");
  CHECK(jobs.next() == "gamma slots=4\n");
}

TEST_CASE("a host file that is too small from the beginning is obeyed, since its author may want that") {
  Jobs jobs{"alpha slots=2\n"};
  CHECK(jobs.next() == "alpha slots=2\n");
  jobs.name_hosts("alpha slots=1\n");
  CHECK(jobs.next() == "alpha slots=1\n");
}
