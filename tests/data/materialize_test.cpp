// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/materialize.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "same_rows.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::TemporaryFolder;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// The text of the error with this code that `call` throws.
auto thrown_error(Errc code, auto const& call) -> std::string {
  auto text = testing::thrown_error(call);
  CHECK(text.starts_with(to_string(code)));
  return text;
}

void check_contains(std::string_view text, auto const&... parts) { (testing::check_contains(text, parts), ...); }

auto has_same_rows(Dataset const& one, Dataset const& other) -> bool {
  if (one.column_names() != other.column_names() || one.rows() != other.rows()) return false;
  return std::ranges::all_of(one.columns(), [&](Column const& column) {
    auto const& same = other.column(column.name());
    if (column.describe() != same.describe()) return false;
    if (column.is_text() && !std::ranges::equal(column.categories(), same.categories())) return false;
    return testing::same_bytes(column.bytes(), same.bytes());
  });
}

/// So many files with numbers, gaps and texts, of some of which a block has none.
auto write_random_files(fs::path const& folder, std::mt19937_64& random) -> std::size_t {
  std::size_t rows = 0;
  auto const files = 1 + random() % 3;
  for (std::size_t file = 0; file < files; ++file) {
    std::string text = "number,city,note\n0.5,Oslo,\n";
    auto const lines = random() % 20'000;
    for (std::size_t line = 0; line < lines; ++line) {
      text += random() % 5 == 0 ? "" : fmt::format("{}", static_cast<double>(random() % 1'000) / 8);
      text += random() % 5 == 0
                  ? ","
                  : fmt::format(",\"city{}{}\"", random() % 2 == 0 ? ',' : '\n', random() % (1 + line / 100));
      text += line < 5'000 ? ",\n" : ",2\n";
    }
    write_text(folder / fmt::format("part-{}.csv", file), text);
    rows += lines + 1;
  }
  return rows;
}

TEST_CASE("blocks of CSV files have, in whatever sizes, the rows that read_csv has") {
  auto const seed = testing::random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  TemporaryFolder const folder;
  auto const rows = write_random_files(folder.path(), random);
  auto const whole = read_csv(folder.path());
  REQUIRE(whole.rows() == rows);
  auto const size = 1 + random() % 20'000;
  Dataset joined;
  std::size_t blocks = 0;
  for (auto const& block : csv_blocks(folder.path(), {}, size)) {
    REQUIRE(block.rows() > 0);
    joined = joined.union_with(block);
    ++blocks;
  }
  CHECK(has_same_rows(joined, whole));
  CHECK(blocks <= rows / size + 3);
}

TEST_CASE("a CSV file of more text than is read at once comes in several blocks") {
  TemporaryFolder const folder;
  std::string text = "x\n";
  for (std::size_t i = 0; i < 100'000; ++i) text += fmt::format("{}\n", i);
  write_text(folder.path() / "a.csv", text);
  std::vector<std::size_t> sizes;
  for (auto const& block : csv_blocks(folder.path() / "a.csv", {}, 1'000)) sizes.push_back(block.rows());
  CHECK(sizes == std::vector<std::size_t>(100, 1'000));
}

TEST_CASE("csv_blocks refuses blocks of no rows, files that are not there, and a file that was changed since") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.csv";
  write_text(file, "x\n1\n");
  check_contains(thrown_error(Errc::invalid_call, [&] { (void)csv_blocks(file, {}, 0); }), "blocks of 0 rows");
  check_contains(thrown_error(Errc::not_found, [&] { (void)csv_blocks(folder.path() / "b.csv"); }), "a.csv");
  auto blocks = csv_blocks(file);
  write_text(file, "x\n1\n2\n");
  check_contains(thrown_error(Errc::io, [&] { (void)blocks.next(); }), "it was changed meanwhile: it had 4 bytes");
  write_text(file, "x\n");
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)csv_blocks(file).next(); }), "there are no rows");
}

TEST_CASE("text behind a block whose fields are all missing is refused with what to write") {
  TemporaryFolder const folder;
  std::string text = "x,y\n";
  for (std::size_t i = 0; i < 100'000; ++i) text += fmt::format("{},\n", i);
  write_text(folder.path() / "a.csv", text + "1,Oslo\n");
  auto const read = [&](CsvOptions const& options) {
    std::size_t rows = 0;
    for (auto const& block : csv_blocks(folder.path() / "a.csv", options, 1'000)) rows += block.rows();
    return rows;
  };
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)read({}); }),
                 "line 100002, column 'y': 'Oslo' is not a number that it can hold", "CsvOptions::types");
  CHECK(read({.types = {{"y", CsvType::text}}}) == 100'001);
}

auto numbers(std::int64_t first, std::int64_t count) -> Dataset {
  std::vector<std::int64_t> values;
  for (auto i = first; i < first + count; ++i) values.push_back(i);
  return Dataset::from_columns({{"x", std::move(values)}});
}

/// Three blocks, whose function counts how often it is called.
auto three_blocks(std::string source, std::atomic<int>& calls) -> DatasetBlocks {
  return {std::move(source), [&calls, next = 0]() mutable -> std::optional<Dataset> {
            ++calls;
            if (next == 3) return std::nullopt;
            return numbers(10 * next++, 10);
          }};
}

TEST_CASE("blocks are gone through once, and map changes each of them and their source") {
  std::atomic<int> calls = 0;
  auto blocks = three_blocks("numbers", calls).map("the first two", [](Dataset const& block) { return block.head(2); });
  CHECK(blocks.source() == "numbers; \"the first two\"");
  std::vector<std::int64_t> values;
  for (auto const& block : blocks) {
    for (auto const value : block.column("x").as<std::int64_t>()) values.push_back(value);
  }
  CHECK(values == std::vector<std::int64_t>{0, 1, 10, 11, 20, 21});
  CHECK_FALSE(blocks.next().has_value());
  CHECK(calls == 4);
  check_contains(thrown_error(Errc::invalid_call, [&] { (void)three_blocks("", calls); }), "the source is empty");
  check_contains(thrown_error(Errc::invalid_call, [&] { (void)blocks.map("", {}); }), "the function's name is empty");
}

TEST_CASE("what is materialized from blocks is what read_csv reads, now and when it is opened again") {
  auto const seed = testing::random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  TemporaryFolder const folder;
  fs::create_directory(folder.path() / "in");
  (void)write_random_files(folder.path() / "in", random);
  auto const whole = read_csv(folder.path() / "in");
  auto const out = folder.path() / "a/b";
  CHECK(has_same_rows(materialize(out, csv_blocks(folder.path() / "in", {}, 1 + random() % 5'000)), whole));
  CHECK(has_same_rows(open_dataset(out), whole));
  CHECK(open_dataset(out).digest() == whole.digest());
}

TEST_CASE("columns of every type and shape that NumPy has are materialized") {
  std::vector<Column> columns;
  for (auto number = 0; number <= static_cast<int>(ElementType::float16); ++number) {
    auto const type = static_cast<ElementType>(number);
    if (type == ElementType::bfloat16) continue;
    with_element_type(type, [&]<Element T>(T*) {
      columns.emplace_back(fmt::format("a column / {}", number), std::vector<T>(12, static_cast<T>(3)), RowShape{2, 3});
    });
  }
  auto const data = Dataset::from_columns(columns);
  TemporaryFolder const folder;
  CHECK(has_same_rows(materialize(folder.path() / "out", data), data));
  auto const halves = Dataset::from_columns({{"x", std::vector<BFloat16>(2)}});
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path() / "b", halves); }),
                 "bfloat16, which NumPy has not");
}

TEST_CASE("texts that later blocks bring are sorted among those of earlier ones") {
  TemporaryFolder const folder;
  auto const parts = std::vector<std::vector<std::optional<std::string>>>{
      {"Rome", "Oslo"}, {std::nullopt}, {"Oslo", "Aden", std::nullopt}, {"Rome"}};
  std::vector<std::optional<std::string>> all;
  for (auto const& part : parts) all.insert(all.end(), part.begin(), part.end());
  DatasetBlocks const blocks{"texts", [&, next = std::size_t{0}]() mutable -> std::optional<Dataset> {
                               if (next == parts.size()) return std::nullopt;
                               return Dataset::from_columns({Column::of_texts("city", parts[next++])});
                             }};
  CHECK(has_same_rows(materialize(folder.path(), blocks), Dataset::from_columns({Column::of_texts("city", all)})));
}

TEST_CASE("a folder that is complete is taken as it is, and refused for another source") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  CHECK(materialize(folder.path(), three_blocks("numbers", calls)).rows() == 30);
  CHECK(calls == 4);
  CHECK(materialize(folder.path(), three_blocks("numbers", calls)).rows() == 30);
  CHECK(calls == 4);
  check_contains(
      thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), three_blocks("others", calls)); }),
      "it holds the rows of another source: numbers; now it is others", "name another folder, or remove this one");
  CHECK(open_dataset(folder.path()).rows() == 30);
}

TEST_CASE("one of many that materialize the same at once writes it under a lock, and all have it") {
  TemporaryFolder const folder;
  auto const out = folder.path() / "out";
  std::atomic<int> calls = 0;
  std::atomic<int> locked = 0;
  std::atomic<int> complete = 0;
  auto const is_locked = [&] {
    FileDescriptor const other{::open((out / "raytrain_dataset.lock").c_str(), O_RDONLY | O_CLOEXEC)};
    return ::flock(other.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto const blocks = three_blocks("numbers", calls).map("watched", [&](Dataset const& block) {
        if (is_locked()) ++locked;
        return block;
      });
      if (has_same_rows(materialize(out, blocks), numbers(0, 30))) ++complete;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(complete == 4);
  CHECK(calls == 4);
  CHECK(locked == 3);
  CHECK_FALSE(is_locked());
}

TEST_CASE("who waits for a writer is called meanwhile, and stops waiting where it throws") {
  TemporaryFolder const folder;
  std::promise<void> writes;
  std::promise<void> may_go_on;
  std::thread writer{[&] {
    (void)raytrain::materialize(folder.path() / "rows", {"the same", [&, left = 1]() mutable -> std::optional<Dataset> {
                                                           if (left-- == 0) return std::nullopt;
                                                           writes.set_value();
                                                           may_go_on.get_future().wait();
                                                           return Dataset::from_columns({{"x", std::vector<float>{1}}});
                                                         }});
  }};
  writes.get_future().wait();
  auto calls = 0;
  auto const give_up = [&] {
    if (++calls == 2) throw std::runtime_error{"has waited long enough"};
  };
  auto const none = []() -> std::optional<Dataset> { return std::nullopt; };
  CHECK_THROWS_WITH_AS((void)raytrain::materialize(folder.path() / "rows", {"the same", none}, give_up),
                       "has waited long enough", std::runtime_error);
  auto has_called = false;
  auto const let_go_on = [&] {
    if (!std::exchange(has_called, true)) may_go_on.set_value();
  };
  CHECK(raytrain::materialize(folder.path() / "rows", {"the same", none}, let_go_on).rows() == 1);
  CHECK(has_called);
  writer.join();
}

TEST_CASE("a folder that holds something else is refused, and stays as it is") {
  TemporaryFolder const folder;
  write_text(folder.path() / "thesis.txt", "mine");
  std::atomic<int> calls = 0;
  check_contains(
      thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), three_blocks("numbers", calls)); }),
      "it holds something else: 'thesis.txt'");
  CHECK(names_below(folder.path()) == Names{"thesis.txt"});
  write_text(folder.path() / "file", "");
  check_contains(
      thrown_error(Errc::io, [&] { (void)materialize(folder.path() / "file", three_blocks("numbers", calls)); }),
      "dataset folder");
}

TEST_CASE("who looks at a folder while it is written anew finds it there and not complete") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  std::atomic<bool> is_over = false;
  auto const begin = [&] {
    auto const failing = three_blocks("n", calls).map("fails", [](Dataset const& /*block*/) -> Dataset {
      throw std::runtime_error{"on purpose"};
    });
    CHECK_THROWS((void)materialize(folder.path(), failing));
  };
  begin();
  std::set<std::string> seen;
  std::thread looking{[&] {
    while (!is_over) seen.insert(thrown_error(Errc::invalid_data, [&] { (void)open_dataset(folder.path()); }));
  }};
  for (int i = 0; i < 200; ++i) begin();
  is_over = true;
  looking.join();
  REQUIRE(seen.size() == 1);
  check_contains(*seen.begin(), "it is not complete");
}

TEST_CASE("rows without columns are refused by their folder") {
  TemporaryFolder const folder;
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), Dataset::of_rows(3)); }),
                 "materialize into '" + folder.path().string() + "': the rows have no column");
}

TEST_CASE("blocks with other columns, and none with a row, are refused, and the next call begins anew") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  auto const refused = [&](std::string const& name, auto const& change) {
    return thrown_error(Errc::invalid_data,
                        [&] { (void)materialize(folder.path(), three_blocks("n", calls).map(name, change)); });
  };
  check_contains(refused("renamed",
                         [](Dataset const& block) {
                           auto const is_first = block.column("x").as<std::int64_t>()[0] == 0;
                           return is_first ? block : block.rename_columns({{"x", "y"}});
                         }),
                 "the rows from 10 on have other columns than those before", "'x' is missing", "'y' is new");
  check_contains(refused("none", [](Dataset const& block) { return block.head(0); }), "no block has a row");
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)open_dataset(folder.path()); }), "it is not complete");
  CHECK(names_below(folder.path()) == Names{"raytrain_dataset.json", "raytrain_dataset.lock"});
  CHECK(materialize(folder.path(), three_blocks("n", calls)).rows() == 30);
}

TEST_CASE("a text, or a column's name, that is not UTF-8 is refused by name") {
  TemporaryFolder const folder;
  auto const named = Dataset::from_columns({{"Z\xfcrich", std::vector<float>(1)}});
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), named); }),
                 "the name of column 'Z", "is not UTF-8");
  auto const data = Dataset::from_columns({Column::of_texts("city", {"Z\xfcrich"})});
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), data); }), "column 'city'",
                 "is not UTF-8");
}

TEST_CASE("a text that is not UTF-8, and that no row of its block has, does not keep the rows from being written") {
  TemporaryFolder const folder;
  auto const data = Dataset::from_columns({Column::of_texts("city", {"Rome", "Z\xfcrich", std::nullopt, "Oslo"})});
  auto const rows = data.select(std::vector<std::uint64_t>{3, 2, 0, 3});
  auto const again = materialize(folder.path() / "few", rows).column("city");
  CHECK(again.text(0) == "Oslo");
  CHECK(again.text(1) == std::nullopt);
  CHECK(again.text(2) == "Rome");
  CHECK(again.text(3) == "Oslo");
  CHECK(std::ranges::find(again.categories(), "Z\xfcrich") == again.categories().end());
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path() / "all", data); }),
                 "column 'city': 'Z", "is not UTF-8");
}

TEST_CASE("what a killed writer leaves behind is written anew") {
  TemporaryFolder const folder;
  auto const out = folder.path() / "out";
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::atomic<int> calls = 0;
    (void)materialize(out, three_blocks("numbers", calls).map("killed", [](Dataset const& block) {
      if (block.column("x").as<std::int64_t>()[0] == 20) ::kill(::getpid(), SIGKILL);
      return block;
    }));
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(names_below(out).size() == 3);  // one is a draft
  std::atomic<int> calls = 0;
  CHECK(has_same_rows(materialize(out, three_blocks("numbers", calls)), numbers(0, 30)));
  CHECK(names_below(out) == Names{"column_0.npy", "raytrain_dataset.json", "raytrain_dataset.lock"});
}

TEST_CASE("blocks of which some were taken, or that have failed, are not taken for all of them") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  auto blocks = three_blocks("numbers", calls);
  auto const mapped = blocks.map("same", [](Dataset const& block) { return block; });
  REQUIRE(blocks.next().has_value());
  for (auto const& begun : {blocks, mapped}) {
    check_contains(thrown_error(Errc::invalid_call, [&] { (void)materialize(folder.path(), begun); }),
                   "some of the blocks were taken already");
    check_contains(thrown_error(Errc::invalid_call, [&] { write_csv(begun, folder.path() / "a.csv"); }),
                   "some of the blocks were taken already");
  }
  auto failing = three_blocks("numbers", calls).map("fails once", [n = 0](Dataset const& block) mutable {
    if (++n == 2) throw std::runtime_error{"block 2"};
    return block;
  });
  REQUIRE(failing.next().has_value());
  for (int i = 0; i < 3; ++i) CHECK_THROWS_WITH_AS((void)failing.next(), "block 2", std::runtime_error);
}

TEST_CASE("a folder that is not complete is cleared of what a writer leaves, and refused where it holds more") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  auto const none = three_blocks("n", calls).map("none", [](Dataset const& block) { return block.head(0); });
  (void)thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), none); });
  std::vector const drafts{"column_3.npy", "column_0.npy.123-4.tmp", "raytrain_dataset.json.5-0.tmp"};
  for (auto const* const name :
       {"column_.npy", "column_1.npy.bak", "column_0.npy.123-.tmp", "raytrain_dataset.json.bak", "in.csv"}) {
    for (auto const* const draft : drafts) write_text(folder.path() / draft, "x");
    write_text(folder.path() / name, "mine");
    auto const before = names_below(folder.path());
    check_contains(
        thrown_error(Errc::invalid_data, [&] { (void)materialize(folder.path(), three_blocks("n", calls)); }),
        fmt::format("it holds something else: '{}'", name));
    CHECK(names_below(folder.path()) == before);
    fs::remove(folder.path() / name);
  }
  CHECK(materialize(folder.path(), three_blocks("n", calls)).rows() == 30);
  CHECK(names_below(folder.path()) == Names{"column_0.npy", "raytrain_dataset.json", "raytrain_dataset.lock"});
}

TEST_CASE("a folder that is removed while it is written is not taken for the one that comes in its place") {
  TemporaryFolder const folder;
  auto const out = folder.path() / "out";
  std::atomic<int> calls = 0;
  auto const removed = three_blocks("numbers", calls).map("removed", [&](Dataset const& block) {
    if (block.column("x").as<std::int64_t>()[0] == 20) {
      fs::remove_all(out);
      fs::create_directory(out);
    }
    return block;
  });
  (void)thrown_error(Errc::io, [&] { (void)materialize(out, removed); });
  CHECK(materialize(out, three_blocks("numbers", calls)).rows() == 30);
}

TEST_CASE("a folder is free once its writer has left it, though a process that it has forked lives on") {
  TemporaryFolder const folder;
  std::atomic<int> calls = 0;
  ::pid_t child = -1;
  auto const forked = three_blocks("n", calls).map("forked", [&](Dataset const& block) -> Dataset {
    if (child < 0) child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    return block;
  });
  (void)materialize(folder.path(), forked);
  FileDescriptor const other{::open((folder.path() / "raytrain_dataset.lock").c_str(), O_RDONLY | O_CLOEXEC)};
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);
  REQUIRE(child > 0);
  ::kill(child, SIGKILL);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a dataset's source follows from each of its bytes, also where its digest does not") {
  std::vector<std::uint8_t> values(std::size_t{300} << 20U);
  auto const zeros = Dataset::from_columns({{"x", values}});
  values[70'000] = 1;  // between two pieces that the digest looks at
  auto const changed = Dataset::from_columns({{"x", std::move(values)}});
  REQUIRE(zeros.digest() == changed.digest());
  CHECK(DatasetBlocks{zeros}.source() != DatasetBlocks{changed}.source());
}

TEST_CASE("a folder that was damaged is refused") {
  TemporaryFolder const folder;
  auto const manifest = folder.path() / "raytrain_dataset.json";
  auto const data = Dataset::from_columns({Column::of_texts("city", {"Oslo", "Rome", std::nullopt})});
  (void)materialize(folder.path(), data);
  auto const text = read_text(manifest);
  auto const with = [&](std::string_view was, std::string_view is) {
    auto changed = text;
    changed.replace(changed.find(was), was.size(), is);
    write_text(manifest, changed);
    return thrown_error(Errc::invalid_data, [&] { (void)open_dataset(folder.path()); });
  };
  check_contains(with("\"rows\": 3", "\"rows\": 4"), "column 'city' has 3 rows in place of 4");
  check_contains(with("\"format\": 1", "\"format\": 2"), "its format is 2, and this raytrain reads 1");
  check_contains(with("\"Rome\"", "\"Aden\""), "column 'city' has other codes than texts");
  check_contains(with("column_0.npy", "../column.npy"), "column 'city' would be outside of it");
  check_contains(with("\"rows\"", "\"raws\""), "field 'rows' is missing");
  check_contains(with("int32", "int64"), "column 'city' has another type or row shape");
  check_contains(with("column_0.npy", "column_1.npy"), "column 'city' is not there: 'column_1.npy'");
  write_text(manifest, text);
  auto const column = folder.path() / "column_0.npy";
  auto const bytes = fs::file_size(column);
  {
    std::fstream file{column, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(bytes - 1));
    file.put('\x01');
  }
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)open_dataset(folder.path()); }),
                 "other codes than texts");
  fs::resize_file(column, bytes - 1);
  check_contains(thrown_error(Errc::invalid_data, [&] { (void)open_dataset(folder.path()); }), "it is cut short");
  check_contains(thrown_error(Errc::not_found, [&] { (void)open_dataset(folder.path() / "none"); }), "no such file");
}

}  // namespace
