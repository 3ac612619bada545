// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/data_paths.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/read_each.hpp>
#include <raytrain/data/detail/table_of_lines.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

void write_table(fs::path const& path) { write_text(path, "x\n1\n"); }

auto names(DataPaths const& paths) -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& file : paths.files()) names.push_back(file.filename().string());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a pattern and a folder are their files in the order of their bytes, and a list in its own order") {
  TemporaryFolder const folder;
  for (auto const* const name : {"part-2.csv", "part-10.csv", "part-1.csv", "Part-3.csv", "other.csv"}) {
    write_table(folder.path() / name);
  }
  CHECK(names(folder.path() / "part-*.csv") == Names{"part-1.csv", "part-10.csv", "part-2.csv"});
  CHECK(names(folder.path() / "part-[12].csv") == Names{"part-1.csv", "part-2.csv"});
  CHECK(names((folder.path() / "part-?.csv").string()) == Names{"part-1.csv", "part-2.csv"});
  CHECK(names(folder.path()) == Names{"Part-3.csv", "other.csv", "part-1.csv", "part-10.csv", "part-2.csv"});
  CHECK(names({folder.path() / "part-2.csv", folder.path() / "part-1*.csv", folder.path() / "part-2.csv"}) ==
        Names{"part-2.csv", "part-1.csv", "part-10.csv", "part-2.csv"});
  CHECK(names(std::vector<fs::path>{"not there", "nor this"}) == Names{"not there", "nor this"});
}

TEST_CASE("folders may be matched, too, and a path that is there is no pattern") {
  TemporaryFolder const folder;
  write_table(folder.path() / "a" / "x.csv");
  write_table(folder.path() / "b" / "y.csv");
  write_table(folder.path() / "odd[1]*.csv");
  CHECK(names(folder.path() / "*" / "*.csv") == Names{"x.csv", "y.csv"});
  CHECK(names(folder.path() / "odd[1]*.csv") == Names{"odd[1]*.csv"});
}

TEST_CASE("a folder's files do not count that are hidden, say something of the folder, or are being written") {
  TemporaryFolder const folder;
  for (auto const* const name : {".hidden", "_SUCCESS", "x.csv.17-0.tmp", "x.csv"}) write_table(folder.path() / name);
  write_table(folder.path() / ".cache" / "y.csv");
  CHECK(names(folder.path()) == Names{"x.csv"});
}

TEST_CASE("what names no file is refused") {
  TemporaryFolder const folder;
  auto const refused = [](DataPaths const& paths) { return thrown_error([&] { return paths.files(); }); };
  auto const pattern = folder.path() / "part-*.csv";
  CHECK(refused(pattern) == "not_found: read files '" + pattern.string() +
                                "': no file matches this pattern; its folder is empty; check the pattern");
  check_contains(refused(folder.path() / "**" / "*.csv"), "** stands for one level of folders here");
  check_contains(refused(folder.path() / "missing" / "*.csv"), "no file matches this pattern; nor is there a folder");
  CHECK(refused(folder.path()) ==
        "not_found: read the files of folder '" + folder.path().string() + "': it has none; check the path");
  write_table(folder.path() / "deeper" / "x.csv");
  write_table(folder.path() / "y.csv");
  check_contains(refused(folder.path()), "invalid_data: read the files of folder '" + folder.path().string() +
                                             "': it has a folder '" + (folder.path() / "deeper").string() +
                                             "', of which nothing would be read; name the files by patterns");
  check_contains(refused(std::vector<fs::path>{}), "invalid_call: read data files: no path is given");
}

TEST_CASE("the rows of several files follow one another, with the texts of all") {
  TemporaryFolder const folder;
  write_text(folder.path() / "a.csv", "n,city\n1,Oslo\n2,Rome\n");
  write_text(folder.path() / "b.csv", "city,n\nAix,3\n,4\n");
  auto const data = read_csv(folder.path() / "*.csv");
  CHECK(data.column_names() == Names{"n", "city"});
  CHECK(std::ranges::equal(data.column("n").as<float>(), std::vector<float>{1, 2, 3, 4}));
  CHECK(data.column("city").text(1) == "Rome");
  CHECK(data.column("city").text(2) == "Aix");
  CHECK(data.column("city").text(3) == std::nullopt);
  CHECK(read_csv({folder.path() / "b.csv", folder.path() / "a.csv"}).column("city").text(0) == "Aix");
}

TEST_CASE("an error names the file that it is of") {
  TemporaryFolder const folder;
  auto const refused = [&] { return thrown_error([&] { return read_csv(folder.path() / "*.csv"); }); };
  auto const path = [&](char const* name) { return (folder.path() / name).string(); };
  write_text(path("a.csv"), "x,y\n1,2\n");
  write_text(path("b.csv"), "x,z\n1,2\n");
  CHECK(refused() == "invalid_data: read 2 files: file '" + path("b.csv") + "' has other columns than file '" +
                         path("a.csv") +
                         "': 'y' is missing, 'z' is new; give all of them the same names, types and row shapes");
  write_text(path("b.csv"), "x,y\n1,two words\n2,3\n");
  check_contains(refused(), "y (float32, scalar) is here y (text");
  write_text(path("b.csv"), "x,y\n1,2\n1,two\n");
  check_contains(refused(), "read CSV file '" + path("b.csv") + "': line 3, column 'y'");
  write_text(path("b.csv"), "");
  check_contains(refused(), "read CSV file '" + path("b.csv") + "': there are no rows");
  auto const gone = folder.path() / "gone.csv";
  check_contains(thrown_error([&] {
                   return read_csv({path("a.csv"), gone});
                 }),
                 "not_found: read '" + gone.string() + "': there is no such file; its folder has a.csv, b.csv");
}

TEST_CASE("of several files that cannot be read the first one's error is told") {
  TemporaryFolder const folder;
  for (auto const* const name : {"a", "b", "c", "d"}) write_text(folder.path() / name, name);
  for (auto turn = 0; turn < 20; ++turn) {
    auto const read = [](std::filesystem::path const& path, int) -> Dataset {
      if (path.filename() == "a") return Dataset::from_columns({{"x", std::vector<float>{1}}});
      throw Error{Errc::invalid_data, path.filename().string(), "is wrong"};
    };
    CHECK(thrown_error([&] { (void)raytrain::detail::read_each(folder.path(), read); }) == "invalid_data: b: is wrong");
  }
}

TEST_CASE("a file that is changed while it is read is refused, alone and among others, of lines, too") {
  TemporaryFolder const folder;
  auto const change = [](std::filesystem::path const& path) { write_text(path, "other rows\n"); };
  auto const read = [&](std::filesystem::path const& path, int) {
    if (path.filename() == "a") change(path);
    return Dataset::from_columns({{"x", std::vector<float>{1}}});
  };
  auto const changed = folder.path() / "a";
  for (auto const files : {1, 2}) {
    CAPTURE(files);
    write_text(changed, "rows\n");
    if (files == 2) write_text(folder.path() / "b", "rows\n");
    check_contains(thrown_error([&] { (void)raytrain::detail::read_each(folder.path(), read); }),
                   "io: read '" + changed.string() + "': it was changed meanwhile: it had 5 bytes");
  }
  auto const fail = [&](std::filesystem::path const& path, int) -> Dataset {
    change(path);
    throw Error{Errc::invalid_data, path.string(), "half a line"};
  };
  write_text(changed, "rows\n");
  check_contains(thrown_error([&] { (void)raytrain::detail::read_each(changed, fail); }), "it was changed meanwhile");
  struct LinesOptions {
    std::filesystem::path file;
    std::size_t max_unpack_ratio = 1;
  };
  struct Lines {
    explicit Lines(LinesOptions const& options) : file{options.file} {}
    static auto options_name() -> std::string { return "LinesOptions"; }
    void begin_file(std::string const& /*name*/) {}
    static auto is_row(std::string_view /*line*/) -> bool { return true; }
    void add_line(std::string_view /*line*/, std::uint64_t /*number*/) const { write_text(file, "other rows\n"); }
    [[nodiscard]] auto rows() const -> std::size_t { return 0; }
    [[nodiscard]] auto is_settled() const -> bool { return false; }
    [[nodiscard]] auto without_rows() const -> Lines { return *this; }
    [[nodiscard]] auto takes(Lines const& /*part*/) const -> bool { return false; }
    void add_rows(Lines const& /*part*/, std::size_t /*first*/, std::size_t /*count*/) {}
    [[nodiscard]] auto take() const -> Dataset { return {}; }
    void finish() {}
    std::filesystem::path file;
  };
  write_text(changed, "rows\n");
  check_contains(thrown_error([&] { (void)raytrain::detail::table_of_lines<Lines>(changed, LinesOptions{changed}); }),
                 "it was changed meanwhile: it had 5 bytes");
}

TEST_CASE("a random table in any number of files is the table in one") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  TemporaryFolder const folder;
  for (auto round = 0; round < 20; ++round) {
    auto const parts = folder.path() / std::to_string(round);
    std::string all = "n,t\n";
    auto const files = 1 + random() % 30;
    for (std::size_t file = 0; file < files; ++file) {
      std::string rows;
      for (auto row = 1 + random() % 20; row > 0; --row) {
        rows += std::to_string(random() % 1000) + ",t" + std::to_string(random() % 7) + "\n";
      }
      write_text(parts / fmt::format("{:03}.csv", file), "n,t\n" + rows);
      all += rows;
    }
    auto const whole = folder.path() / "all.csv";
    write_text(whole, all);
    CHECK(read_csv(parts).digest() == read_csv(whole).digest());
  }
}
