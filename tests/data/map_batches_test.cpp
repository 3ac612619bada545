// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/map_batches.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/filter.hpp>
#include <raytrain/data/row.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using raytrain::Dataset;
using raytrain::filter;
using raytrain::map_batches;
using raytrain::Row;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// Each odd number twice, and no even one.
auto odd_twice(Dataset const& batch) -> Dataset {
  std::vector<std::int64_t> values;
  for (auto const number : numbers_of(batch)) values.insert(values.end(), number % 2 == 0 ? 0 : 2, number);
  return Dataset::from_columns({{"number", std::move(values)}});
}

}  // namespace

TEST_CASE("those rows are kept of which the function says so, in their order, with all their columns") {
  auto const dataset = Dataset::from_columns(
      {{"age", std::vector<float>{30, 12, 50}}, {"image", std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}, {2}}});
  auto const adults = filter(dataset, [](Row const& row) { return row.get<float>("age") >= 18; });
  CHECK(adults.rows() == 2);
  CHECK(adults.column("age").as<float>()[1] == 50);
  CHECK(adults.column("image").as<std::uint8_t>()[2] == 5);
  auto const bright = filter(dataset, [](Row const& row) { return row.values<std::uint8_t>("image")[1] > 2; });
  CHECK(bright.column("age").as<float>()[0] == 12);
  CHECK(filter(dataset, [](Row const& row) { return row.index() == 1; }).column("age").as<float>()[0] == 12);
  auto const none = filter(dataset, [](Row const&) { return false; });
  CHECK(none.rows() == 0);
  CHECK(none.column_names() == dataset.column_names());
}

TEST_CASE("a row's column of another name, type or shape is refused with what there is") {
  auto const dataset = Dataset::from_columns({{"age", std::vector<float>{30}}, {"image", std::vector<float>(2), {2}}});
  Row const row{dataset, 0};
  CHECK(thrown_error([&] { return row.get<double>("age"); }) ==
        "invalid_data: column 'age' as float64: it holds float32 of row shape scalar; ask for float32, or convert it "
        "before it goes into the dataset");
  check_contains(thrown_error([&] { return row.get<float>("ages"); }), "not_found: column 'ages'");
  CHECK(thrown_error([&] { return row.get<float>("image"); }) ==
        "invalid_data: Row::get: column 'image' has rows of shape 2, and not of one number; take a column of one "
        "number a row");
  check_contains(thrown_error([&] { return row.values<float>("pixels"); }), "not_found: column 'pixels'");
  check_contains(thrown_error([&] { return filter(dataset, [](Row const& r) { return r.get<int>("age") > 0; }); }),
                 "it holds float32");
}

TEST_CASE("batches are parts of the dataset's memory, and the last one has what is left") {
  auto const dataset = numbered(10);
  std::vector<std::size_t> sizes;
  auto const result =
      map_batches(dataset,
                  [&](Dataset const& batch) {
                    CHECK(batch.column("number").as<std::int64_t>().data() ==
                          dataset.column("number").as<std::int64_t>().data() + numbers_of(batch).front());
                    sizes.push_back(batch.rows());
                    return batch;
                  },
                  {.batch_size = 4});
  CHECK(sizes == std::vector<std::size_t>{4, 4, 2});
  CHECK(numbers_of(result) == numbers_of(dataset));
}

TEST_CASE("results are joined in the order of their batches, with any number of threads and of rows") {
  auto const dataset = numbered(1000);
  auto const expected = numbers_of(odd_twice(dataset));
  for (auto const threads : {1, 2, 5}) {
    for (std::size_t const size : {1, 7, 1000, 5000}) {
      CAPTURE(threads);
      CAPTURE(size);
      CHECK(numbers_of(map_batches(dataset, odd_twice, {.batch_size = size, .threads = threads})) == expected);
    }
  }
  auto const some =
      map_batches(dataset, [](Dataset const& batch) { return numbers_of(batch).front() == 500 ? batch : Dataset{}; },
                  {.batch_size = 100});
  CHECK(numbers_of(some).front() == 500);
  CHECK(some.rows() == 100);
  CHECK(map_batches(dataset, [](Dataset const&) { return Dataset{}; }).columns().empty());
  auto const renamed = [](Dataset const& batch) { return batch.rename_columns({{batch.columns()[0].name(), "new"}}); };
  CHECK(map_batches(dataset.head(0), renamed).column_names().front() == "new");
}

TEST_CASE("as many threads as are asked for are in the function at the same time, and one is the caller's own") {
  std::latch all_there{3};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  auto const note = [&](Dataset const& batch) {
    std::lock_guard const lock{mutex};
    threads.insert(std::this_thread::get_id());
    return batch;
  };
  (void)map_batches(numbered(3),
                    [&](Dataset const& batch) {
                      all_there.arrive_and_wait();
                      return note(batch);
                    },
                    {.batch_size = 1, .threads = 3});
  CHECK(threads.size() == 3);
  threads.clear();
  (void)map_batches(numbered(3), note, {.batch_size = 1});
  CHECK(threads == std::set{std::this_thread::get_id()});
}

TEST_CASE("an exception ends the other threads, and names the rows of the first batch that failed") {
  auto const dataset = numbered(1000);
  for (auto const threads : {1, 4}) {
    CAPTURE(threads);
    std::atomic<std::size_t> calls = 0;
    auto const fails_with = [&](auto const& fail) {
      calls = 0;
      return thrown_error([&] {
        return map_batches(dataset,
                           [&](Dataset const& batch) {
                             ++calls;
                             if (numbers_of(batch).front() >= 20) fail();
                             return batch;
                           },
                           {.batch_size = 10, .threads = threads});
      });
    };
    CHECK(fails_with([] { throw std::runtime_error{"a bad row"}; }) ==
          "exception: map_batches, rows 20 to 29: a bad row");
    CHECK(calls < 100);
    CHECK(fails_with([&] { (void)dataset.column("age"); }) ==
          "not_found: map_batches, rows 20 to 29: column 'age': is not in the dataset, which has number (int64, "
          "scalar); name one of them");
    CHECK_THROWS_AS((void)fails_with([] { throw raytrain::Stopped{}; }), raytrain::Stopped);
    CHECK_THROWS_AS((void)map_batches(dataset,
                                      [](Dataset const&) -> Dataset {
                                        throw raytrain::NotRetryable{"a", "b"};
                                      },
                                      {.batch_size = 10, .threads = threads}),
                    raytrain::NotRetryable);
  }
}

TEST_CASE("results with different columns are refused, saying which and what differs") {
  CHECK(thrown_error([&] {
          return map_batches(
              numbered(10),
              [](Dataset const& batch) {
                return numbers_of(batch).front() < 8 ? batch : batch.rename_columns({{"number", "count"}});
              },
              {.batch_size = 4});
        }) ==
        "invalid_data: map_batches: part 3 has other columns than part 1: 'number' is missing, 'count' is new; give "
        "all of them the same names, types and row shapes");
}

TEST_CASE("batches of no rows and threads below 1 are refused before the function is called") {
  auto const call = [](raytrain::MapBatchesOptions const& options) {
    return thrown_error([&] {
      return map_batches(
          numbered(3),
          [](Dataset const& batch) {
            FAIL_CHECK("must not be called");
            return batch;
          },
          options);
    });
  };
  CHECK(call({.batch_size = 0}) ==
        "invalid_config: MapBatchesOptions::batch_size: must be at least 1 (got 0); write {.batch_size = 4096}");
  CHECK(call({.threads = 0}) ==
        "invalid_config: MapBatchesOptions::threads: must be at least 1 (got 0); write {.threads = 1} for the caller's "
        "own thread");
  check_contains(call({.threads = -2}), "(got -2)");
}
