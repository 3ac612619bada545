// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/checkpoint.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/detail/archive.hpp>
#include <raytrain/checkpoint/detail/directory_files.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/xxh3.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "committed.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

namespace {

// A small committed checkpoint of two ranks.
struct TwoRanks {
  TemporaryFolder folder;
  DirectoryStore store{folder.path(), 1};
  Checkpoint checkpoint =
      commit(store, {draft_of({{"model.pt", "weights"}, {"deep/er/empty", ""}}).set_metadata("k", "v"),
                     draft_of({{"opt.bin", std::string("\0\1\2", 3)}}).per_rank()});
};

// Opened anew and verified, as a later start would.
auto problem_of(std::filesystem::path const& path) -> std::optional<std::string> {
  try {
    Checkpoint::from_directory(path).verify();
    return std::nullopt;
  } catch (Error const& error) {
    return std::string{to_string(error.code())} + ": " + error.what();
  }
}

// A directory that counts how often its files are listed.
class CountedLists final : public CheckpointFiles {
 public:
  explicit CountedLists(std::filesystem::path const& directory) : files_{directory} {}

  [[nodiscard]] auto lists() const -> int { return lists_; }

  [[nodiscard]] auto location() const -> std::string override { return files_.location(); }
  void check_there() const override { files_.check_there(); }
  [[nodiscard]] auto list() const -> std::vector<FileEntry> override {
    ++lists_;
    return files_.list();
  }
  [[nodiscard]] auto size_of(std::string const& name) const -> std::optional<std::uint64_t> override {
    return files_.size_of(name);
  }
  [[nodiscard]] auto read(std::string const& name) const -> Bytes override { return files_.read(name); }

 private:
  detail::DirectoryFiles files_;
  mutable std::atomic<int> lists_ = 0;
};

// An archive with a right checksum, whatever is in it.
auto archive_of(std::uint64_t count, std::vector<std::pair<std::string, std::string>> const& files) -> Bytes {
  Bytes archive;
  detail::append(archive, bytes_of(detail::archive_mark));
  detail::append_integer(archive, count);
  for (auto const& [name, content] : files) {
    detail::append_integer(archive, name.size());
    detail::append_integer(archive, content.size());
    detail::append(archive, bytes_of(name));
    detail::append(archive, bytes_of(content));
  }
  detail::append(archive, bytes_of(detail::xxh3_of(archive)));
  return archive;
}

}  // namespace

TEST_CASE("XXH3-128 gives the reference values, in pieces as well as at once") {
  CHECK(detail::xxh3_of({}) == "99aa06d3014798d86001c324468d497f");
  CHECK(detail::Xxh3{}.hex() == "99aa06d3014798d86001c324468d497f");
  std::string const text(100'000, 'x');
  detail::Xxh3 pieces;
  for (std::size_t at = 0; at < text.size(); at += 777) pieces.update(bytes_of(std::string_view{text}.substr(at, 777)));
  CHECK(pieces.hex() == detail::xxh3_of(bytes_of(text)));
}

TEST_CASE("a committed checkpoint gives back what ranks wrote and what it was committed with") {
  TwoRanks const made;
  auto const again = Checkpoint::from_directory(made.checkpoint.path());
  CHECK(again.number().value == 1);
  CHECK(again.training_iteration() == 1);
  CHECK(again.time_total_s() == 2.5);
  CHECK(again.metrics() == Metrics{{"loss", 0.5}});
  CHECK(again.metadata() == std::map<std::string, std::string>{{"k", "v"}});
  CHECK(again.as_directory() == made.folder.path() / "checkpoint_000001");
  auto const files = again.files();
  REQUIRE(files.size() == 3);
  CHECK(files[0] == FileEntry{"deep/er/empty", 0, "99aa06d3014798d86001c324468d497f"});
  CHECK(files[1].name == "model.pt");
  CHECK(files[2].name == "rank_0001/opt.bin");
  CHECK(text_in(again, "model.pt") == "weights");
  CHECK(text_in(again, "rank_0001/opt.bin") == std::string("\0\1\2", 3));
  CHECK(text_in(again, "deep/er/empty").empty());
  again.verify();
}

TEST_CASE("a directory that a user filled is a checkpoint without number, metrics and metadata") {
  TemporaryFolder const folder;
  write_text(folder.path() / "b", "two");
  write_text(folder.path() / "a/x", "one");
  auto const checkpoint = Checkpoint::from_directory(folder.path());
  CHECK(checkpoint.number().value == 0);
  CHECK(checkpoint.training_iteration() == 0);
  CHECK(checkpoint.metrics().empty());
  CHECK(checkpoint.metadata().empty());
  CHECK(checkpoint.files() == std::vector<FileEntry>{{"a/x", 3, ""}, {"b", 3, ""}});
  CHECK(text_in(checkpoint, "a/x") == "one");
  checkpoint.verify();
}

TEST_CASE("the files of a directory that a user filled are read without listing them again for each") {
  TemporaryFolder const folder;
  for (int i = 0; i < 50; ++i) write_text(folder.path() / ("deep/file_" + std::to_string(i)), std::to_string(i));
  auto const files = std::make_shared<CountedLists const>(folder.path());
  Checkpoint const checkpoint{files};
  CHECK(CheckpointDraft{checkpoint}.files().size() == 50);
  CHECK(files->lists() == 1);
  (void)checkpoint.to_bytes();
  CHECK(files->lists() == 2);
  CHECK(text_in(checkpoint, "deep/file_49") == "49");
  CHECK(checkpoint.view("deep/file_7").size() == 1);
  CHECK(checkpoint.contains("deep/file_7"));
  CHECK(files->lists() == 2);
}

TEST_CASE("a directory that a user filled contains files of its own alone, as they are now") {
  TemporaryFolder const folder;
  write_text(folder.path() / "outside", "");
  write_text(folder.path() / "own/deep/file", "");
  write_text(folder.path() / "own/bad\nname", "");
  std::filesystem::create_symlink("deep/file", folder.path() / "own/link");
  auto const checkpoint = Checkpoint::from_directory(folder.path() / "own");
  for (auto const* const name : {"deep/file", "bad\nname", "link"}) {
    CAPTURE(name);
    CHECK(checkpoint.contains(name));
    CHECK(text_in(checkpoint, name).empty());
  }
  for (auto const* const name : {"deep", "../outside", "deep/", "./deep/file", "", "later"}) {
    CAPTURE(name);
    CHECK_FALSE(checkpoint.contains(name));
    check_contains(thrown_error([&] { return checkpoint.read(name); }),
                   "it has no file '" + std::string{name} + "'; it has bad\nname, deep/file, link");
  }
  write_text(folder.path() / "own/later", "");
  CHECK(checkpoint.contains("later"));
  std::filesystem::remove_all(folder.path() / "own");
  check_contains(thrown_error([&] { return checkpoint.contains("later"); }), "there is no such directory");
}

TEST_CASE("reading a file that is not there lists those that are") {
  TwoRanks const made;
  check_contains(thrown_error([&] { return made.checkpoint.read("modell.pt"); }),
                 "not_found: reading checkpoint '" + made.checkpoint.path().string() +
                     "': it has no file 'modell.pt'; it has deep/er/empty, model.pt, rank_0001/opt.bin");
}

TEST_CASE("a directory that is not there, is a file, or has vanished is an error that says so") {
  TwoRanks const made;
  check_contains(thrown_error([&] { return Checkpoint::from_directory(made.folder.path() / "nothing"); }),
                 "/nothing': there is no such directory; if it was there before");
  write_text(made.folder.path() / "file", "");
  check_contains(thrown_error([&] { return Checkpoint::from_directory(made.folder.path() / "file"); }),
                 "it is not a directory");
  std::filesystem::remove_all(made.checkpoint.path());
  for (auto const& use : std::vector<std::function<void()>>{[&] { made.checkpoint.verify(); },
                                                            [&] { (void)made.checkpoint.read("model.pt"); },
                                                            [&] { (void)made.checkpoint.to_bytes(); }}) {
    auto const text = thrown_error([&] {
      use();
      return 0;
    });
    check_contains(text, "not_found: reading checkpoint");
    check_contains(text, "there is no such directory; if it was there before");
  }
}

TEST_CASE("every changed byte of every file of a checkpoint is found, the manifest's too") {
  TwoRanks const made;
  auto bytes = 0;
  for (auto const& entry : std::filesystem::recursive_directory_iterator{made.checkpoint.path()}) {
    if (!entry.is_regular_file()) continue;
    auto const whole = read_text(entry.path());
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (auto const flip : {0x01, 0x20, 0x80, 0xFF}) {
        auto damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        write_text(entry.path(), damaged);
        auto const problem = problem_of(made.checkpoint.path());
        CAPTURE(entry.path());
        CAPTURE(at);
        REQUIRE(problem);
        REQUIRE(problem->starts_with("corrupt_checkpoint: "));
        REQUIRE(problem->find(entry.path().filename().string()) != std::string::npos);
      }
      ++bytes;
    }
    write_text(entry.path(), whole);
  }
  CHECK(bytes > 500);
  CHECK_FALSE(problem_of(made.checkpoint.path()));
}

TEST_CASE("a truncated, grown, zeroed or missing file is found and named, by verify, read and view") {
  TwoRanks const made;
  auto const path = made.checkpoint.path() / "model.pt";
  auto const check = [&](std::string const& expected) {
    check_contains(problem_of(made.checkpoint.path()).value_or("nothing found"), expected);
    check_contains(thrown_error([&] { return made.checkpoint.read("model.pt"); }), expected);
    check_contains(thrown_error([&] { return made.checkpoint.view("model.pt"); }), expected);
  };
  write_text(path, "weight");
  check("file 'model.pt' has 6 bytes instead of 7");
  write_text(path, "");
  check("file 'model.pt' has 0 bytes instead of 7");
  write_text(path, "weights!");
  check("file 'model.pt' has 8 bytes instead of 7");
  write_text(path, std::string(7, '\0'));
  check("file 'model.pt' has other bytes than were written");
  std::filesystem::remove(path);
  check("file 'model.pt' is missing");
  std::filesystem::create_directory(path);
  check("file 'model.pt' is not a regular file");
}

TEST_CASE("a view of a file is no copy of it, and holds it when the checkpoint is gone") {
  TwoRanks const made;
  auto const content = made.checkpoint.view("model.pt");
  auto const empty = made.checkpoint.view("deep/er/empty");
  std::filesystem::remove_all(made.checkpoint.path());
  CHECK(text_of(content.view()) == "weights");
  CHECK(reinterpret_cast<std::uintptr_t>(content.view().data()) % 4096 == 0);  // where the system keeps it
  CHECK(empty.size() == 0);
  check_contains(thrown_error([&] { return made.checkpoint.view("model.pt"); }), "not_found");
}

TEST_CASE("a manifest that is cut short anywhere is found") {
  TwoRanks const made;
  auto const path = made.checkpoint.path() / "manifest.json";
  auto const whole = read_text(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_text(path, whole.substr(0, length));
    check_contains(problem_of(made.checkpoint.path()).value_or("nothing found"),
                   "corrupt_checkpoint: reading checkpoint");
  }
  write_text(path, std::string(whole.size(), '\0'));
  CHECK(problem_of(made.checkpoint.path()));
  write_text(path, whole + "\n");
  CHECK(problem_of(made.checkpoint.path()));
}

TEST_CASE("a manifest that is exchanged or removed after it was read is found") {
  TwoRanks made;
  auto const other = commit(made.store, {draft_of({{"model.pt", "others"}})}, 1);
  write_text(made.checkpoint.path() / "manifest.json", read_text(other.path() / "manifest.json"));
  auto const verify = [&] {
    made.checkpoint.verify();
    return 0;
  };
  check_contains(thrown_error(verify), "file 'manifest.json' is not the one that was read before");
  std::filesystem::remove(made.checkpoint.path() / "manifest.json");
  check_contains(thrown_error(verify), "file 'manifest.json' is missing");
}

TEST_CASE("a manifest is JSON that other programs read, with the checksum of what stands before it") {
  TwoRanks const made;
  auto const text = read_text(made.checkpoint.path() / "manifest.json");
  check_contains(text, "{\n  \"format\": 5,\n  \"run_id\": null,\n  \"number\": 1,\n  \"generation\": 1,");
  check_contains(text, "\"xxh3\": \"" + detail::xxh3_of(bytes_of("weights")) + "\"");
  auto const seal = text.rfind(",\n  \"xxh3\": \"");
  CHECK(text.substr(seal) ==
        ",\n  \"xxh3\": \"" + detail::xxh3_of(bytes_of(std::string_view{text}.substr(0, seal))) + "\"\n}\n");
}

TEST_CASE("a manifest of a newer format is refused as such, although it has fields that are not known") {
  TemporaryFolder const folder;
  auto text = std::string{"{\n  \"format\": 6,\n  \"colour\": \"blue\""};
  text += ",\n  \"xxh3\": \"" + detail::xxh3_of(bytes_of(text)) + "\"\n}\n";
  write_text(folder.path() / "manifest.json", text);
  check_contains(
      problem_of(folder.path()).value_or("nothing found"),
      "manifest.json: it was written by a newer raytrain (format 6, this one reads up to 5); use that version");
}

TEST_CASE("a manifest that names a file outside its checkpoint is refused, although its checksum is right") {
  TemporaryFolder const folder;
  write_text(folder.path() / "secret", "s");
  for (auto const* name : {"../secret", "/etc/passwd", "a/../../secret", ""}) {
    Manifest manifest;
    manifest.number = 1;
    manifest.files[name] = {1, detail::xxh3_of(bytes_of("s"))};
    write_text(folder.path() / "c/manifest.json", detail::write_sealed(manifest));
    check_contains(problem_of(folder.path() / "c").value_or("nothing found"),
                   "it lists a file '" + std::string{name} + "', which");
  }
  write_text(folder.path() / "c/manifest.json", detail::write_sealed(Manifest{}));
  check_contains(problem_of(folder.path() / "c").value_or("nothing found"), "its number is 0");
}

TEST_CASE("a draft made of a checkpoint has its files and its metadata, and refuses a damaged one") {
  TwoRanks const made;
  CheckpointDraft const draft = made.checkpoint;
  CHECK(draft.files().size() == 3);
  CHECK(draft.metadata().at("k") == "v");
  write_text(made.checkpoint.path() / "model.pt", "WEIGHTS");
  check_contains(thrown_error([&] { return CheckpointDraft{made.checkpoint}; }), "file 'model.pt' has other bytes");
}

TEST_CASE("to_bytes and from_bytes carry a checkpoint to another place whole") {
  TwoRanks const made;
  auto const copy = Checkpoint::from_bytes(made.checkpoint.to_bytes(), made.folder.path() / "deep/copy");
  CHECK(copy.path() == made.folder.path() / "deep/copy");
  CHECK(copy.number().value == 1);
  CHECK(copy.metadata() == made.checkpoint.metadata());
  CHECK(copy.files() == made.checkpoint.files());
  copy.verify();

  write_text(made.folder.path() / "user/a/b", "mine");
  auto const user = Checkpoint::from_directory(made.folder.path() / "user");
  auto const other = Checkpoint::from_bytes(user.to_bytes(), made.folder.path() / "other");
  CHECK(other.number().value == 0);
  CHECK(text_in(other, "a/b") == "mine");
}

TEST_CASE("every changed byte and every missing end of to_bytes is refused before anything is created") {
  TwoRanks const made;
  auto const whole = made.checkpoint.to_bytes();
  auto const target = made.folder.path() / "copy";
  auto const refused = [&](Bytes const& bytes) {
    check_contains(thrown_error([&] { return Checkpoint::from_bytes(bytes, target); }),
                   "corrupt_checkpoint: making a checkpoint from bytes: ");
    REQUIRE_FALSE(std::filesystem::exists(target));
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] ^= std::byte{0x10};
    refused(damaged);
    refused(Bytes{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)});
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  refused(longer);
}

TEST_CASE("bytes with a right checksum cannot write outside, clash, or claim more than there is") {
  TemporaryFolder const folder;
  auto const target = folder.path() / "in/copy";
  auto const refusal = [&](Bytes const& bytes) {
    auto text = thrown_error([&] { return Checkpoint::from_bytes(bytes, target); });
    CHECK(names_below(folder.path()).empty());
    return text;
  };
  for (auto const* name : {"../x", "/tmp/x", "a/../../x", "a//b", ".", ""}) {
    check_contains(refusal(archive_of(1, {{name, "evil"}})), "they hold a file '" + std::string{name} + "', which");
  }
  check_contains(refusal(archive_of(2, {{"a", "1"}, {"a", "2"}})), "they hold both 'a' and 'a'");
  check_contains(refusal(archive_of(2, {{"a", "1"}, {"a/b", "2"}})), "they hold both 'a/b' and 'a'");
  check_contains(refusal(archive_of(2, {{"a", "1"}})), "a file in them is longer than they are");
  check_contains(refusal(archive_of(UINT64_MAX, {{"a", "1"}})), "a file in them is longer than they are");
  check_contains(refusal(archive_of(0, {{"a", "1"}})), "too many");
  Bytes lying;
  detail::append(lying, bytes_of(detail::archive_mark));
  for (auto const value : {std::uint64_t{1}, UINT64_MAX, UINT64_MAX}) detail::append_integer(lying, value);
  detail::append(lying, bytes_of(detail::xxh3_of(lying)));
  check_contains(refusal(lying), "a file in them is longer than they are");
}

TEST_CASE("bytes whose manifest does not fit their files leave nothing behind") {
  TwoRanks const made;
  auto const manifest = read_text(made.checkpoint.path() / "manifest.json");
  auto const target = made.folder.path() / "copy";
  auto const bytes = archive_of(2, {{"manifest.json", manifest}, {"model.pt", "weights"}});
  check_contains(thrown_error([&] { return Checkpoint::from_bytes(bytes, target); }),
                 "file 'deep/er/empty' is missing");
  CHECK_FALSE(std::filesystem::exists(target));
}

TEST_CASE("from_bytes touches no directory that has something in it") {
  TwoRanks const made;
  write_text(made.folder.path() / "full/notes", "mine");
  auto const bytes = made.checkpoint.to_bytes();
  for (auto const* name : {"full", "full/notes"}) {
    check_contains(thrown_error([&] { return Checkpoint::from_bytes(bytes, made.folder.path() / name); }),
                   "it is there, and not an empty directory");
  }
  CHECK(read_text(made.folder.path() / "full/notes") == "mine");
}
