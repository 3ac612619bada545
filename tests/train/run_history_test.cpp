// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/run_history.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/message/json.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/train/result.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace raytrain;

auto report_of(Rank rank, std::uint64_t iteration) -> Report {
  Report report;
  report.rank = rank;
  report.training_iteration = iteration;
  return report;
}

auto iterations_in(std::vector<Report> const& reports) -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> iterations;
  for (auto const& report : reports) iterations.push_back(report.training_iteration);
  return iterations;
}

}  // namespace

TEST_CASE("a history keeps rank 0's reports and the last one of each other rank of the world") {
  RunHistory history;
  for (std::uint64_t iteration = 1; iteration <= 3; ++iteration) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) history.add(report_of(Rank{rank}, iteration), {});
  }
  Result result;
  result.world_size = WorldSize{3};
  history.move_to(result);
  CHECK(iterations_in(result.history) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(iterations_in(result.last_reports) == std::vector<std::uint64_t>{3, 3, 3});
}

TEST_CASE("a report supersedes its rank's same and later ones, and no other rank's") {
  RunHistory history;
  for (std::uint64_t iteration = 1; iteration <= 5; ++iteration) {
    history.add(report_of(Rank{0}, iteration), {});
    history.add(report_of(Rank{1}, iteration), {});
  }
  history.add(report_of(Rank{0}, 3), {});
  CHECK(history.counts_until({9, 9, 9}) == std::vector<std::uint64_t>{3, 5, 0});
  CHECK(history.counts_until({2, 4}) == std::vector<std::uint64_t>{2, 4});
  Result result;
  history.move_to(result);
  CHECK(iterations_in(result.history) == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("reports that are missing in between are not counted") {
  RunHistory history;
  for (std::uint64_t const iteration : {1, 2, 5, 6, 9}) history.add(report_of(Rank{0}, iteration), {});
  CHECK(history.counts_until({8}) == std::vector<std::uint64_t>{4});
  history.add(report_of(Rank{0}, 4), {});
  CHECK(history.counts_until({8}) == std::vector<std::uint64_t>{3});
}

TEST_CASE("however many reports there are, the last ones are kept") {
  RunHistory history;
  for (std::uint64_t iteration = 1; iteration <= RunHistory::max_reports + 2; ++iteration) {
    history.add(report_of(Rank{0}, iteration), {});
  }
  CHECK(history.counts_until({RunHistory::max_reports + 2}).front() == RunHistory::max_reports + 2);
  Result result;
  history.move_to(result);
  CHECK(result.history.size() == RunHistory::max_reports);
  CHECK(result.history.front().training_iteration == 3);
}

TEST_CASE("zeros that a power loss has left in the place of a report's line count as a line that is cut short") {
  testing::TemporaryFolder const folder;
  auto const path = folder.path() / "progress.jsonl";
  Started worker{Rank{0}, "node", 1, "127.0.0.1"};
  auto const line = [&](std::uint64_t iteration) {
    return to_json(all_metrics(report_of(Rank{0}, iteration), worker));
  };
  std::string const zeros(100, '\0');
  std::ofstream{path} << line(1) << '\n'
                      << zeros << '\n'
                      << line(2).substr(0, 40) << zeros << '\n'
                      << line(3) << '\n'
                      << zeros;
  std::vector<Report> reports;
  auto const on_report = [&](Report report, Metrics const&) { reports.push_back(std::move(report)); };
  CHECK(for_each_report(path, on_report) == 0);
  CHECK(iterations_in(reports) == std::vector<std::uint64_t>{1, 3});
  std::ofstream{path, std::ios::app} << '\n' << zeros << line(4) << '\n';
  CHECK(for_each_report(path, on_report) == 1);
}

TEST_CASE("every report is read from a file, whatever its size, and the damaged lines are counted") {
  testing::TemporaryFolder const folder;
  auto const path = folder.path() / "progress.jsonl";
  std::ofstream file{path};
  Started worker{Rank{1}, "node", 1, "127.0.0.1"};
  for (std::uint64_t iteration = 1; iteration <= 500; ++iteration) {
    auto report = report_of(Rank{1}, iteration);
    report.metrics = {{"text", std::string(iteration, 'x')}};
    file << to_json(all_metrics(report, worker)) << '\n';
    if (iteration % 100 == 0) file << "no report\n";
  }
  file << "{\"cut\": ";
  file.close();
  std::vector<Report> reports;
  auto const damaged =
      for_each_report(path, [&](Report report, Metrics const&) { reports.push_back(std::move(report)); });
  CHECK(damaged == 5);
  REQUIRE(reports.size() == 500);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    CHECK(reports[i].training_iteration == i + 1);
    CHECK(std::get<std::string>(reports[i].metrics.at("text")) == std::string(i + 1, 'x'));
  }
}
