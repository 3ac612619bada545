// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <raytrain/callback/csv.hpp>
#include <raytrain/callback/json_lines.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/testing/manual_clock.hpp>
#include <raytrain/train/append_file.hpp>

#include "../support/child_process.hpp"
#include "../support/temporary_folder.hpp"

using raytrain::testing::TemporaryFolder;

namespace {

using namespace raytrain;

auto content(std::filesystem::path const& path) -> std::string {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

auto info_for(std::filesystem::path const& path) -> RunInfo {
  RunInfo info;
  info.name = "fashion";
  info.path = path;
  info.backend = "torch";
  info.world_size = WorldSize{2};
  return info;
}

void tell(Callback& callback, Rank rank, std::uint64_t iteration, Metrics metrics) {
  Report report;
  report.rank = rank;
  report.training_iteration = iteration;
  report.time_total_s = 75;
  report.metrics = std::move(metrics);
  callback.on_report(report, all_metrics(report, Started{rank, "node", 1, "10.0.0.1"}));
}

// What a ProgressBar wrote into a temporary file.
struct Screen {
  std::FILE* file = std::tmpfile();
  Screen() { REQUIRE(file != nullptr); }
  Screen(Screen const&) = delete;
  auto operator=(Screen const&) -> Screen& = delete;
  ~Screen() { std::fclose(file); }
  auto text() const -> std::string {
    std::string result;
    std::rewind(file);
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) result += static_cast<char>(c);
    return result;
  }
};

// An environment variable, until this ends.
class Variable {
 public:
  Variable(char const* name, char const* value) : name_{name} {
    if (auto const* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  Variable(Variable const&) = delete;
  auto operator=(Variable const&) -> Variable& = delete;
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  char const* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("JsonLines writes one object a line for every rank, and goes on in the same file") {
  TemporaryFolder const folder;
  for (std::uint64_t start = 0; start < 2; ++start) {
    JsonLines lines{folder.path() / "all.jsonl"};
    lines.on_start(info_for(folder.path()));
    tell(lines, Rank{0}, start + 1, {{"loss", 0.5}});
    tell(lines, Rank{1}, start + 1, {{"loss", std::numeric_limits<double>::infinity()}});
    lines.on_finish({});
  }
  std::istringstream file{content(folder.path() / "all.jsonl")};
  auto count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    auto const metrics = metrics_from_json(line);
    CHECK(metrics.number("world_rank") == count % 2);
    CHECK(metrics.number("training_iteration") == count / 2 + 1);
    CHECK(metrics.number("loss") == (count % 2 == 0 ? 0.5 : std::numeric_limits<double>::infinity()));
  }
  CHECK(count == 4);
}

TEST_CASE("a line that a crash cut short does not swallow the next one") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "lines";
  std::ofstream{path} << "whole\nto";
  AppendFile{path}.write_line("next");
  CHECK(content(path) == "whole\nto\nnext\n");
}

TEST_CASE("a line that could be written in part does not swallow the next one") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "lines";
  auto const outcome = in_child([&]() -> std::string {
    ::rlimit const size{4, RLIM_INFINITY};
    ::rlimit const all{RLIM_INFINITY, RLIM_INFINITY};
    std::signal(SIGXFSZ, SIG_IGN);
    AppendFile file{path};
    (void)::setrlimit(RLIMIT_FSIZE, &size);
    try {
      file.write_line("too long");
    } catch (Error const&) {
      (void)::setrlimit(RLIMIT_FSIZE, &all);
      file.write_line("next");
      file.finish();
      return content(path);
    }
    return "no error";
  });
  CHECK(outcome.text == "too \nnext\n");
}

TEST_CASE("a file that cannot be opened or written is an error that names it") {
  CHECK_THROWS_WITH_AS(AppendFile{"/nonexistent/x"},
                       "opening /nonexistent/x: No such file or directory; make room or grant access, then start the "
                       "run again",
                       Error);
  if (std::filesystem::exists("/dev/full")) {
    AppendFile full{"/dev/full"};
    CHECK_THROWS_WITH_AS(full.write_line("x"),
                         "writing /dev/full: No space left on device; make room or grant access, then start the run "
                         "again",
                         Error);
  }
}

TEST_CASE("a file that is refused after it was opened is closed again") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "lines";
  std::ofstream{path} << "cut";
  auto const outcome = in_child([&]() -> std::string {
    // Its last line cannot be completed.
    ::rlimit const size{3, 3};
    std::signal(SIGXFSZ, SIG_IGN);
    (void)::setrlimit(RLIMIT_FSIZE, &size);
    auto const next_file = [] {
      auto const file = ::dup(0);
      ::close(file);
      return file;
    };
    auto const before = next_file();
    try {
      AppendFile const file{path};
    } catch (Error const& error) {
      return next_file() == before ? error.what() : "it is still open";
    }
    return "no error";
  });
  CHECK(outcome.text.starts_with("writing " + path.string() + ": File too large"));
}

TEST_CASE("Csv has the first report's columns, quotes text, skips other ranks, and goes on without a second header") {
  TemporaryFolder const folder;
  for (std::uint64_t start = 0; start < 2; ++start) {
    Csv csv;
    csv.on_start(info_for(folder.path()));
    tell(csv, Rank{0}, start + 1, {{"loss", 0.5}, {"note", "a \"b\", c"}});
    tell(csv, Rank{1}, start + 1, {{"loss", 0.25}, {"note", ""}});
    csv.on_finish({});
  }
  std::istringstream file{content(folder.path() / "progress.csv")};
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(line.starts_with("loss,note,training_iteration,"));
  for (auto iteration : {1, 2}) {
    REQUIRE(std::getline(file, line));
    CHECK(line.starts_with("0.5,\"a \"\"b\"\", c\"," + std::to_string(iteration) + ","));
  }
  CHECK_FALSE(std::getline(file, line));
}

TEST_CASE("Csv goes on under names with commas, quotes and lines in them") {
  TemporaryFolder const folder;
  for (std::uint64_t start = 0; start < 2; ++start) {
    Csv csv;
    csv.on_start(info_for(folder.path()));
    tell(csv, Rank{0}, start + 1, {{"loss, valid", 0.5}, {"a \"b\"\n", 0.25}});
    csv.on_finish({});
  }
  auto const text = content(folder.path() / "progress.csv");
  CHECK(text.starts_with("\"loss, valid\",\"a \"\"b\"\"\n\",training_iteration,"));
  CHECK(text.find("\n0.5,0.25,1,") != std::string::npos);
  CHECK(text.find("\n0.5,0.25,2,") != std::string::npos);
}

TEST_CASE("Csv writes the header that a full disk has refused, whole or in part, before the next report's row") {
  for (::rlim_t const room : {0, 4}) {
    CAPTURE(room);
    TemporaryFolder const folder;
    auto const outcome = in_child([&]() -> std::string {
      ::rlimit const some{room, RLIM_INFINITY};
      ::rlimit const all{RLIM_INFINITY, RLIM_INFINITY};
      std::signal(SIGXFSZ, SIG_IGN);
      Csv csv;
      csv.on_start(info_for(folder.path()));
      (void)::setrlimit(RLIMIT_FSIZE, &some);
      try {
        tell(csv, Rank{0}, 1, {{"loss", 0.5}});
      } catch (Error const&) {
        (void)::setrlimit(RLIMIT_FSIZE, &all);
        auto const left = content(folder.path() / "progress.csv");
        tell(csv, Rank{0}, 2, {{"loss", 0.25}});
        csv.on_finish({});
        return left + content(folder.path() / "progress.csv").substr(0, 7);
      }
      return "no error";
    });
    CHECK(outcome.text == "loss,tr");
  }
}

TEST_CASE("Csv writes a report without the metrics that have no column, and refuses each of these once, by name") {
  TemporaryFolder const folder;
  Csv csv;
  csv.on_start(info_for(folder.path()));
  tell(csv, Rank{0}, 1, {{"loss", 0.5}});
  CHECK_THROWS_WITH_AS(tell(csv, Rank{0}, 2, {{"loss", 0.25}, {"accuracy", 0.5}, {"data_s", 1.0}}),
                       "writing a report as CSV: there is no column for 'accuracy', 'data_s': left out of this row and "
                       "those to come; report the same fields each time, or use JsonLines",
                       Error);
  tell(csv, Rank{0}, 3, {{"accuracy", 0.75}, {"loss", 0.125}});
  CHECK_THROWS_WITH_AS(tell(csv, Rank{0}, 4, {{"loss", 0.0625}, {"accuracy", 0.75}, {"lr", 1.0}}),
                       "writing a report as CSV: there is no column for 'lr': left out of this row and those to come; "
                       "report the same fields each time, or use JsonLines",
                       Error);
  csv.on_finish({});
  std::istringstream file{content(folder.path() / "progress.csv")};
  std::string line;
  REQUIRE(std::getline(file, line));
  for (auto const* const row : {"0.5,1,", "0.25,2,", "0.125,3,", "0.0625,4,"}) {
    REQUIRE(std::getline(file, line));
    CHECK(line.starts_with(row));
  }
}

TEST_CASE("Csv whose file cannot be opened says so by its name, and nothing of the reports and the end after that") {
  TemporaryFolder const folder;
  Csv csv;
  csv.on_start(info_for(folder.path()));
  tell(csv, Rank{0}, 1, {{"loss", 0.5}});
  auto const before = content(folder.path() / "progress.csv");
  CHECK_THROWS_WITH_AS(csv.on_start(info_for(folder.path() / "none")),
                       ("opening " + (folder.path() / "none/progress.csv").string() +
                        ": No such file or directory; make room or grant access, then start the run again")
                           .c_str(),
                       Error);
  CHECK_NOTHROW(tell(csv, Rank{0}, 2, {{"loss", 0.25}}));
  CHECK_NOTHROW(csv.on_finish({}));
  CHECK(content(folder.path() / "progress.csv") == before);

  Csv never{folder.path() / "none/table.csv"};
  CHECK_THROWS_AS(never.on_start(info_for(folder.path())), Error);
  CHECK_NOTHROW(tell(never, Rank{0}, 1, {{"loss", 0.5}}));
  CHECK_NOTHROW(never.on_finish({}));
}

TEST_CASE("in a log ProgressBar writes one plain line per report of rank 0, and nothing in between") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  bar.on_start(info_for("fashion"));
  bar.on_progress(Progress{Rank{0}, 10, 100, "loss 0.5"});
  tell(bar, Rank{0}, 3, {{"epoch", std::int64_t{2}}, {"loss", 0.123456}});
  tell(bar, Rank{1}, 3, {{"epoch", std::int64_t{2}}, {"loss", 9.0}});
  bar.on_finish({});
  CHECK(screen.text() == "fashion: 2 workers of torch\nreport    3  1:15 min  epoch 2  loss 0.12346\n");
}

TEST_CASE("on a terminal ProgressBar redraws a bar with speed, time left and the note") {
  Screen const screen;
  auto const clock = std::make_shared<testing::ManualClock>();
  ProgressBar bar{{.out = screen.file, .terminal = true}, clock};
  bar.on_start(info_for("fashion"));
  bar.on_progress(Progress{Rank{0}, 0, 1000, ""});
  clock->advance(std::chrono::seconds{2});
  bar.on_progress(Progress{Rank{0}, 500, 1000, "loss 0.5"});
  auto const text = screen.text();
  INFO(text);
  CHECK(text.find("\r\x1b[K") != std::string::npos);
  CHECK(text.find("############### ") == std::string::npos);
  CHECK(text.find("###############---------------  50 %  250 samples/s  2.0 s left  loss 0.5") != std::string::npos);
}

TEST_CASE("a run that goes on says from where") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  auto info = info_for("fashion");
  info.training_iteration = 5;
  info.resumed_from = Checkpoint::from_directory("/tmp");
  bar.on_start(info);
  CHECK(screen.text().find("goes on after report 5 from tmp") != std::string::npos);
}

TEST_CASE("a run that begins with another run's checkpoint says where that lies") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  auto info = info_for("fashion");
  info.begins_from = Checkpoint::from_directory("/tmp");
  bar.on_start(info);
  CHECK(screen.text().find(", begins from /tmp\n") != std::string::npos);
}

TEST_CASE("a terminal shows that workers are starting until the first progress or report") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file, .terminal = true}};
  bar.on_start(info_for("fashion"));
  CHECK(screen.text() == "\r\x1b[Kfashion: 2 workers of torch\nstarting 2 workers ...");
  tell(bar, Rank{0}, 1, {{"loss", 0.5}});
  CHECK(screen.text().ends_with("starting 2 workers ...\r\x1b[Kreport    1  1:15 min  loss 0.5\n"));
}

TEST_CASE("a note that is too long is not cut within a character") {
  Screen const screen;
  for (auto const* const begin : {"", "x"}) {
    ProgressBar bar{{.out = screen.file, .terminal = true}, std::make_shared<testing::ManualClock>()};
    std::string note{begin};
    for (auto i = 0; i < 80; ++i) note += "\u00e9";
    bar.on_progress(Progress{Rank{0}, 500, 1000, note});
  }
  CHECK(is_utf8(screen.text()));
}

TEST_CASE("a line that is written above the bar leaves the bar below it, and the bar goes when the run ends") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file, .terminal = true}, std::make_shared<testing::ManualClock>()};
  bar.on_start(info_for("fashion"));
  bar.on_progress(Progress{Rank{0}, 500, 1000, ""});
  bar.write_above("saved a picture");
  CHECK(screen.text().ends_with("\r\x1b[Ksaved a picture\n###############---------------  50 %"));
  bar.on_finish({});
  CHECK(screen.text().ends_with("50 %\r\x1b[K"));
}

TEST_CASE("ProgressBar says who has failed, and leaves the cause to the program, which prints it once") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  bar.on_failure(ErrorInfo{Errc::exception, {}, "out of range"}.with_origin(Rank{1}, "node7"));
  bar.on_failure(ErrorInfo{Errc::io, {}, "the disk is full"});
  CHECK(screen.text() == "rank 1 has failed\nthe run has failed\n");
}

TEST_CASE("ProgressBar says why workers are started again, from where, and what they repeat") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  AttemptInfo failed{.attempt = Attempt{2}, .lost_reports = 3};
  failed.failures.push_back(ErrorInfo{Errc::exception, {}, "out of range"}.with_origin(Rank{1}, "node7"));
  bar.on_restart(failed, std::nullopt);
  CHECK(screen.text() ==
        "attempt 3 begins anew (3 reports to repeat), since attempt 2 has failed: rank 1 on node7: out of range\n");
  failed.lost_hosts = {"node7", "node8"};
  bar.on_restart(failed, std::nullopt);
  CHECK(
      screen.text().ends_with("(3 reports to repeat), without the hosts that do not answer: node7, node8, since "
                              "attempt 2 has failed: rank 1 on node7: out of range\n"));
  AttemptInfo preempted{.attempt = Attempt{2}};
  preempted.preemptions = {
      ErrorInfo{Errc::worker_failed, {}, "its process was sent a SIGTERM"}.with_origin(Rank{1}, "node7")};
  bar.on_restart(preempted, std::nullopt);
  CHECK(screen.text().ends_with(
      "(0 reports to repeat), since attempt 2 is pre-empted: rank 1 on node7: its process was sent a SIGTERM\n"));
}

TEST_CASE("ProgressBar says how many workers go on where their number is changed") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  bar.on_restart({.attempt = Attempt{1}, .world_size = WorldSize{2}, .next_world_size = WorldSize{3}}, std::nullopt);
  CHECK(screen.text() == "attempt 2 begins anew with 3 workers instead of 2 (0 reports to repeat)\n");
}

TEST_CASE("in a log ProgressBar writes how far it is after half a minute without a report") {
  Screen const screen;
  auto const clock = std::make_shared<testing::ManualClock>();
  ProgressBar bar{{.out = screen.file}, clock};
  bar.on_start(info_for("fashion"));
  for (std::uint64_t done : {0U, 100U, 200U, 300U}) {
    bar.on_progress(Progress{Rank{0}, done, 1000, "loss 0.5"});
    clock->advance(std::chrono::seconds{15});
  }
  CHECK(screen.text() == "fashion: 2 workers of torch\n  20 %  7 samples/s  2:00 min left  loss 0.5\n");
}

TEST_CASE("the speed and the time left are those of the epoch that runs, whose progress counts anew") {
  Screen const screen;
  auto const clock = std::make_shared<testing::ManualClock>();
  ProgressBar bar{{.out = screen.file, .terminal = true}, clock};
  auto const after_a_second = [&](std::uint64_t done, std::uint64_t total) {
    clock->advance(std::chrono::seconds{1});
    bar.on_progress(Progress{Rank{0}, done, total, ""});
    return screen.text();
  };
  (void)after_a_second(100, 1000);
  (void)after_a_second(1000, 1000);
  tell(bar, Rank{0}, 1, {{"loss", 0.5}});
  CHECK(after_a_second(100, 1000).ends_with("  10 %"));
  CHECK(after_a_second(300, 1000).ends_with("  30 %  200 samples/s  3.5 s left"));
  CHECK(after_a_second(320, 400).ends_with("  80 %"));
  CHECK(after_a_second(340, 400).ends_with("  85 %  20 samples/s  3.0 s left"));
  CHECK(after_a_second(400, 400).ends_with(" 100 %  40 samples/s  0.0 s left"));
  CHECK(after_a_second(400, 400).ends_with(" 100 %"));
  CHECK(after_a_second(500, 400).ends_with(" 100 %  100 samples/s  0.0 s left"));
}

TEST_CASE("the speed goes on where the total is estimated anew, and where the same is said again") {
  Screen const screen;
  auto const clock = std::make_shared<testing::ManualClock>();
  ProgressBar bar{{.out = screen.file, .terminal = true}, clock};
  for (std::uint64_t second = 0; second < 4; ++second) {
    clock->advance(std::chrono::seconds{1});
    bar.on_progress(Progress{Rank{0}, 100 * std::min<std::uint64_t>(second, 2), 1000 + 10 * second, ""});
  }
  CHECK(screen.text().ends_with("  19 %  67 samples/s  12.4 s left"));
}

TEST_CASE("numbers in a line have five digits, and no exponent before they have sixteen") {
  Screen const screen;
  ProgressBar bar{{.out = screen.file}};
  tell(bar, Rank{0}, 1,
       {{"a", 99331.4}, {"b", 101312.6}, {"c", 99999.7}, {"d", 1e15}, {"e", 0.000123456}, {"f", -1e6}});
  CHECK(screen.text() == "report    1  1:15 min  a 99331  b 101313  c 100000  d 1e+15  e 0.00012346  f -1000000\n");
}

TEST_CASE("progress whose end is unknown is counted in its unit, without a share") {
  Screen const screen;
  auto const clock = std::make_shared<testing::ManualClock>();
  ProgressBar bar{{.out = screen.file, .terminal = true, .unit = "games"}, clock};
  bar.on_progress(Progress{Rank{0}, 0, 0, ""});
  clock->advance(std::chrono::seconds{2});
  bar.on_progress(Progress{Rank{0}, 10, 0, ""});
  CHECK(screen.text().ends_with("\r\x1b[K 10 games  5 games/s"));
}

TEST_CASE("a ProgressBar whose reader has gone falls silent instead of ending the process") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  auto* const out = ::fdopen(ends[1], "w");
  REQUIRE(out != nullptr);
  {
    ProgressBar bar{{.out = out}};
    bar.on_start(info_for("fashion"));
    tell(bar, Rank{0}, 1, {{"loss", 0.5}});
    bar.on_finish({});
  }
  CHECK(std::ferror(out) != 0);
  BrokenPipeGuard const guard;  // what is left in the buffer goes the same way
  std::fclose(out);
}

TEST_CASE("the output of a job's rank is no terminal to a ProgressBar, even when it is one") {
  auto const terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  auto const redraws = [&] {
    auto const name = std::string{::ptsname(terminal)};
    auto* const out = std::fopen(name.c_str(), "w");
    REQUIRE(out != nullptr);
    ProgressBar{{.out = out}}.on_start(info_for("fashion"));
    std::fclose(out);
    char text[4096];
    auto const count = ::read(terminal, text, sizeof text);
    return std::string_view{text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))}.find('\x1b') !=
           std::string_view::npos;
  };
  Variable const kind{"TERM", "xterm"};
  CHECK(redraws());
  {
    Variable const rank{"OMPI_COMM_WORLD_RANK", "0"};
    Variable const size{"OMPI_COMM_WORLD_SIZE", "2"};
    CHECK_FALSE(redraws());
  }
  {
    Variable const dumb{"TERM", "dumb"};
    CHECK_FALSE(redraws());
  }
  CHECK(redraws());
  ::close(terminal);
}
