// SPDX-License-Identifier: Apache-2.0
// Arrays that ranks give in slices, and that any number of ranks reads.
#include <raytrain/checkpoint/sharded_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/testing/memory_store.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../fuzz/slice_properties.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "committed.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

/// Element 0 is 0, and so on.
template <class T = float>
auto counting(std::size_t total) -> std::vector<T> {
  std::vector<T> elements(total);
  std::iota(elements.begin(), elements.end(), T{});
  return elements;
}

/// Elements `begin` to `end` of an array that counts.
template <class T = float>
auto slice(std::string const& name, std::size_t begin, std::size_t end, std::size_t total) -> CheckpointDraft {
  CheckpointDraft draft;
  auto const all = counting<T>(end);
  draft.add_slice<T>(name, {.begin = begin, .total = total}, std::span{all}.subspan(begin));
  return draft;
}

/// Of 10 elements of "density" rank 0 has 4, rank 1 has 5 and rank 2 the last one.
auto density() -> std::vector<CheckpointDraft> {
  return {slice("density", 0, 4, 10), slice("density", 4, 9, 10), slice("density", 9, 10, 10)};
}

constexpr auto first_file = "rank_0000/density.slice-0-4-of-10.float32.safetensors";
constexpr auto second_file = "rank_0001/density.slice-4-9-of-10.float32.safetensors";

template <class T = float>
auto read(Checkpoint const& checkpoint, std::string const& name, std::uint64_t begin, std::size_t count)
    -> std::vector<T> {
  std::vector<T> elements(count);
  checkpoint.read_slice<T>(name, begin, elements);
  return elements;
}

/// Places from 0 to `total`, in order, that cut it into so many parts; some may be empty.
auto random_cuts(std::size_t total, std::size_t parts, std::mt19937_64& random) -> std::vector<std::size_t> {
  std::vector<std::size_t> cuts{0, total};
  while (cuts.size() <= parts) cuts.push_back(random() % (total + 1));
  std::ranges::sort(cuts);
  return cuts;
}

template <class T>
void check_any_ranks(CheckpointStore& store, std::uint64_t checkpoint, std::mt19937_64& random, std::size_t writers) {
  auto const total = 1 + random() % 3000;
  auto const all = counting<T>(total);
  auto const cuts = random_cuts(total, 2 * writers, random);  // two slices of each rank, far from one another
  std::vector<CheckpointDraft> drafts(writers);
  for (std::size_t part = 0; part < 2 * writers; ++part) {
    auto const mine = std::span{all}.subspan(cuts[part], cuts[part + 1] - cuts[part]);
    if (!mine.empty()) drafts[part % writers].add_slice<T>("fluid/density", {cuts[part], total}, mine);
  }
  auto const committed = commit(store, drafts, checkpoint);
  for (std::size_t const readers : {1, 2, 3, 4, 8}) {
    CAPTURE(readers);
    auto const wanted = random_cuts(total, readers, random);
    std::vector<T> together;
    for (std::size_t reader = 0; reader < readers; ++reader) {
      auto const mine = read<T>(committed, "fluid/density", wanted[reader], wanted[reader + 1] - wanted[reader]);
      together.insert(together.end(), mine.begin(), mine.end());
    }
    CHECK(together == all);
  }
  CHECK(committed.sharded_arrays() == std::map<std::string, ShardedArray>{{"fluid/density", {element_type<T>, total}}});
}

}  // namespace

TEST_CASE("what 1, 2, 3, 4 and 8 ranks wrote in uneven slices is read by as many, in a directory and elsewhere") {
  TemporaryFolder const folder;
  DirectoryStore directory{folder.path(), 1};
  testing::MemoryStore memory{std::make_shared<testing::MemoryStore::Memory>()};
  auto const seed = testing::random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  std::uint64_t checkpoint = 0;
  for (std::size_t const writers : {1, 2, 3, 4, 8}) {
    CAPTURE(writers);
    for (CheckpointStore* const store :
         {static_cast<CheckpointStore*>(&directory), static_cast<CheckpointStore*>(&memory)}) {
      check_any_ranks<float>(*store, checkpoint, random, writers);
      check_any_ranks<std::int64_t>(*store, checkpoint + 1, random, writers);
      check_any_ranks<std::uint16_t>(*store, checkpoint + 2, random, writers);
    }
    checkpoint += 3;
  }
}

TEST_CASE("a checkpoint tells its sharded arrays, with type and total, without opening their files") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto drafts = density();
  auto const mass = counting<std::int16_t>(3);
  drafts[1].add("plain", "text").add_slice<std::int16_t>("mass", {.begin = 0, .total = 3}, mass).per_rank();
  auto const checkpoint = commit(store, drafts);
  for (auto const& file : checkpoint.files()) std::filesystem::remove(checkpoint.path() / file.name);
  CHECK(checkpoint.sharded_arrays() == std::map<std::string, ShardedArray>{{"density", {ElementType::float32, 10}},
                                                                           {"mass", {ElementType::int16, 3}}});
  CHECK(commit(store, {draft_of({{"plain", "text"}})}, 1).sharded_arrays().empty());
}

TEST_CASE("several threads read the arrays of a checkpoint and of its copies at once") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const committed = commit(store, density());
  std::vector<std::vector<float>> read_by(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : read_by) {
      threads.emplace_back([&mine, copy = committed] { mine = read(copy, "density", 0, 10); });
    }
  }
  CHECK(read_by == std::vector<std::vector<float>>(4, counting(10)));
}

TEST_CASE("a directory without a manifest has the arrays whose slices are there now") {
  TemporaryFolder const folder;
  TemporaryFolder const own_folder;
  auto const copy_in = [&](Checkpoint const& from, char const* name) {
    write_text(own_folder.path() / name, text_in(from, name));
  };
  DirectoryStore store{folder.path(), 1};
  auto const committed = commit(store, {slice("density", 0, 4, 9), slice("density", 4, 9, 9)});
  copy_in(committed, "rank_0000/density.slice-0-4-of-9.float32.safetensors");
  auto const own = Checkpoint::from_directory(own_folder.path());
  check_contains(thrown_error([&] { return read(own, "density", 0, 4); }), "no rank gave elements 4 to 8 of 9");
  copy_in(committed, "rank_0001/density.slice-4-9-of-9.float32.safetensors");
  CHECK(read(own, "density", 0, 9) == counting(9));
}

TEST_CASE("a range is read although the files that hold nothing of it are gone") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const checkpoint = commit(store, density());
  std::filesystem::remove(checkpoint.path() / first_file);
  CHECK(read(checkpoint, "density", 4, 6) == std::vector<float>{4, 5, 6, 7, 8, 9});
  CHECK(read(checkpoint, "density", 0, 0).empty());
  CHECK(read(checkpoint, "density", 10, 0).empty());
  check_contains(
      thrown_error([&] { return read(checkpoint, "density", 3, 7); }),
      "corrupt_checkpoint: reading checkpoint '" + checkpoint.location() + "': file '" + first_file + "' is missing");
}

TEST_CASE("a slice is a safetensors file of its own, which tells where the slice lies") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const content = commit(store, density()).read(second_file);
  auto const index = read_tensor_index(content, "reading");
  REQUIRE(index.tensors.size() == 1);
  CHECK(index.tensors[0].name == "density");
  CHECK(index.tensors[0].type == "F32");
  CHECK(index.tensors[0].shape == std::vector<std::uint64_t>{5});
  CHECK(index.metadata == TensorMetadata{{"begin", "4"}, {"total", "10"}});
}

TEST_CASE("a slice that no array can have is refused when it is added, and the message says why") {
  auto const numbers = counting(2);
  struct {
    std::string name;
    SlicePlace place;
    std::size_t count;
    char const* why;
  } const cases[] = {
      {"a", {0, 0}, 2, "the array has a total of 0 elements"},
      {"a", {0, 2}, 0, "the slice has no elements"},
      {"a", {1, 2}, 2, "2 elements from 1 on do not lie in a total of 2"},
      {"a", {3, 2}, 1, "1 elements from 3 on do not lie in a total of 2"},
      {"a", {largest, 4}, 2, "2 elements from 18446744073709551615 on do not lie in a total of 4"},
      {"a", {0, largest / 4}, 2, "4611686018427387903 elements of float32 are more than can be stored"},
      {"", {0, 2}, 2, "the array has no name"},
      {"rank_0001/a", {0, 2}, 2, "its name begins with the folder of a rank"},
  };
  for (auto const& [name, place, count, why] : cases) {
    CheckpointDraft draft;
    auto const text = thrown_error([&] {
      draft.add_slice("before", {.begin = 0, .total = 2}, std::span{numbers});
      draft.add_slice(name, place, std::span{numbers}.first(count));
      return 0;
    });
    check_contains(text, "invalid_report: CheckpointDraft::add_slice of '" + name + "'");
    check_contains(text, why);
    check_contains(text, "a rank without elements adds no slice");
    CHECK(draft.files().size() == 1);
  }
}

TEST_CASE("the name of a slice that was added before, or that no file can have, is refused") {
  auto draft = slice("a", 0, 2, 4);
  auto const numbers = counting(2);
  auto const add = [&](std::string const& name) {
    return thrown_error([&] {
      draft.add_slice<float>(name, {.begin = 0, .total = 4}, numbers);
      return 0;
    });
  };
  check_contains(add("a"), "'a.slice-0-2-of-4.float32.safetensors' to a checkpoint: it was added before");
  check_contains(add("../a"), "has the part '..'");
  check_contains(add("\xFF"), "its name is not UTF-8 text");
  check_contains(add("__metadata__"), "its name is the one of a file's metadata");
  CHECK(draft.files().size() == 1);
}

TEST_CASE(
    "ranks that do not give each element once, with one total and type, commit nothing, and the message names them") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  struct {
    std::vector<CheckpointDraft> drafts;
    char const* why;
  } const cases[] = {
      {{slice("a", 1, 2, 4), slice("a", 2, 4, 4)}, "no rank gave element 0 of 4"},
      {{slice("a", 0, 1, 4), slice("a", 3, 4, 4)}, "no rank gave elements 1 to 2 of 4"},
      {{slice("a", 0, 1, 4), {}}, "no rank gave elements 1 to 3 of 4"},
      {{slice("a", 2, 4, 4), slice("a", 0, 3, 4)}, "ranks 1 and 0 both gave element 2"},
      {{slice("a", 0, 4, 4), slice("a", 0, 4, 4)}, "ranks 0 and 1 both gave elements 0 to 3"},
      {{slice("a", 0, 4, 4).add_slice<float>("a", {1, 4}, counting(2)), {}}, "rank 0 gave elements 1 to 2 twice"},
      {{slice("a", 0, 2, 4), slice("a", 2, 4, 5)}, "rank 0 gave a total of 4, and rank 1 of 5"},
      {{slice("a", 0, 2, 4), slice<double>("a", 2, 4, 4)}, "rank 0 gave elements of float32, and rank 1 of float64"},
  };
  std::uint64_t checkpoint = 0;
  for (auto const& [drafts, why] : cases) {
    auto const text = thrown_error([&] { return commit(store, drafts, checkpoint); });
    check_contains(text, "rank_mismatch: committing checkpoint " + std::to_string(++checkpoint));
    check_contains(text, "of the sharded array 'a' " + std::string{why});
    check_contains(text, "CheckpointDraft::add_slice have each element on one rank");
  }
  CHECK(store.list().empty());
}

TEST_CASE("a slice that an array does not have is not read, and the message says what it has") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const checkpoint = commit(store, density());
  auto const plain = commit(store, {draft_of({{"density", "text"}})}, 1);
  auto const reading = "reading checkpoint '" + checkpoint.location() + "'";
  auto const of_density = "invalid_call: " + reading + ", its sharded array 'density': ";
  check_contains(thrown_error([&] { return read(checkpoint, "mass", 0, 1); }),
                 "not_found: " + reading + ": it has no sharded array 'mass'; it has density");
  check_contains(thrown_error([&] { return read(plain, "density", 0, 1); }),
                 "it has no sharded array 'density'; it has none");
  check_contains(thrown_error([&] { return read<double>(checkpoint, "density", 0, 1); }),
                 of_density + "its elements are of float32, and the span of float64; read them as they were stored");
  check_contains(thrown_error([&] { return read(checkpoint, "density", 7, 4); }),
                 of_density + "it has 10 elements, and 4 from 7 on were asked for; ask for elements that it has");
  check_contains(thrown_error([&] { return read(checkpoint, "density", 11, 0); }),
                 "it has 10 elements, and 0 from 11 on were asked for");
  check_contains(thrown_error([&] { return read(checkpoint, "density", largest, 2); }),
                 "it has 10 elements, and 2 from 18446744073709551615 on were asked for");
}

TEST_CASE("a slice's file that is truncated or has a flipped bit is found, and the message names it") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const checkpoint = commit(store, density());
  auto const path = checkpoint.path() / second_file;
  auto const whole = read_text(path);
  auto const named =
      "corrupt_checkpoint: reading checkpoint '" + checkpoint.location() + "': file '" + second_file + "' ";
  write_text(path, whole.substr(0, whole.size() - 1));
  check_contains(thrown_error([&] { return read(checkpoint, "density", 0, 10); }),
                 named + "has 147 bytes instead of 148");
  auto flipped = whole;
  flipped.back() ^= 1;
  write_text(path, flipped);
  check_contains(thrown_error([&] { return read(checkpoint, "density", 0, 10); }),
                 named + "has other bytes than were written");
  write_text(path, whole);
  CHECK(read(checkpoint, "density", 0, 10) == counting(10));
}

TEST_CASE("without a manifest a slice that is missing, truncated or of another name is found, too") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const copy = Checkpoint::from_bytes(commit(store, density()).to_bytes(), folder.path() / "copy").path();
  std::filesystem::remove(copy / "manifest.json");
  auto const checkpoint = Checkpoint::from_directory(copy);
  CHECK(read(checkpoint, "density", 0, 10) == counting(10));
  auto const whole = read_text(copy / second_file);
  write_text(copy / second_file, whole.substr(0, whole.size() - 1));
  check_contains(thrown_error([&] { return read(checkpoint, "density", 0, 10); }),
                 ", its file '" + std::string{second_file} + "': data_offsets of 'density' lie outside of the file");
  write_text(copy / second_file, read_text(copy / first_file));
  check_contains(thrown_error([&] { return read(checkpoint, "density", 0, 10); }),
                 "file '" + std::string{second_file} + "' does not hold the slice that its name says");
  std::filesystem::remove(copy / second_file);
  auto const gap = "of the sharded array 'density' no rank gave elements 4 to 8 of 10";
  check_contains(thrown_error([&] { return read(checkpoint, "density", 0, 1); }), gap);
  check_contains(thrown_error([&] { return checkpoint.sharded_arrays(); }), "corrupt_checkpoint: reading checkpoint");
  check_contains(thrown_error([&] { return checkpoint.sharded_arrays(); }), gap);
}

TEST_CASE("a checkpoint that one rank reports again keeps its sharded arrays") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const again = commit(store, {commit(store, density()), {}}, 1);
  CHECK(read(again, "density", 2, 5) == std::vector<float>{2, 3, 4, 5, 6});
}

TEST_CASE("a sharded draft is filled on every rank, once, in memory that the one before had") {
  SnapshotBuffers buffers;
  auto calls = 0;
  auto const sharded = CheckpointDraft::sharded([&](CheckpointDraft& draft) {
    ++calls;
    draft.add_slice<float>("a", {.begin = 0, .total = 1000}, counting(1000));
  });
  CHECK_FALSE(sharded.is_filled());
  std::size_t kept = 0;
  for (auto const rank : {1U, 1U, 1U}) {
    {
      auto mine = sharded;
      mine.fill(Rank{rank}, buffers);
      mine.fill(Rank{rank}, buffers);
      CHECK(mine.is_filled());
      CHECK(mine.files().size() == 1);
      CHECK(buffers.free_bytes() == 0);
    }
    if (kept == 0) kept = buffers.free_bytes();
    CHECK(buffers.free_bytes() == kept);
  }
  CHECK(kept > 4000);
  CHECK(calls == 3);
}

TEST_CASE("the name of a slice's file is read back, and names that differ from it are those of other files") {
  detail::Slice const slice{"a.b-of-c.slice-1/d", ElementType::bfloat16, 0, 7, 9};
  CHECK(detail::slice_file_name(slice) == "a.b-of-c.slice-1/d.slice-0-7-of-9.bfloat16.safetensors");
  CHECK(detail::parse_slice_file_name(detail::slice_file_name(slice)) == slice);
  for (auto const* other :
       {"a.slice-0-7-of-9.float32", "a.slice-0-7-of-9.F32.safetensors", "a.slice-0-7-of-6.float32.safetensors",
        "a.slice-00-7-of-9.float32.safetensors", "a.slice-7-7-of-9.float32.safetensors",
        ".slice-0-7-of-9.float32.safetensors", "a.slice-0-7-of-.float32.safetensors",
        "a.slice-0-7-9.float32.safetensors", "a.0-7-of-9.float32.safetensors",
        "rank_0000/a.slice-0-7-of-9.float32.safetensors", "a.slice-0-1-of-18446744073709551615.float32.safetensors",
        "a.slice-+0-7-of-9.float32.safetensors"}) {
    CHECK_MESSAGE(!detail::parse_slice_file_name(other), other);
    CHECK_FALSE(testing::check_slice_name(other));
  }
}
