// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/whole_file.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

TEST_CASE("a pipe in the place of a file to be written stays there, and the error says what it is") {
  TemporaryFolder const folder;
  auto const pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto const text = thrown_error([&] {
    replace_whole_file(pipe, bytes_of("new"));
    return 0;
  });
  check_contains(text, "writing '" + pipe.string() + "': it is not a regular file; name a file that can be written");
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("a file that is written by the name of a link to it has the bytes, and the link stays") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "file";
  auto const link = folder.path() / "link";
  std::ofstream{file} << "old";
  std::filesystem::create_symlink("file", link);
  replace_whole_file(link, bytes_of("new"));
  CHECK(read_text(file) == "new");
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("a link to no file yet makes that file") {
  TemporaryFolder const folder;
  auto const link = folder.path() / "link";
  std::filesystem::create_symlink("file", link);
  replace_whole_file(link, bytes_of("new"));
  CHECK(read_text(folder.path() / "file") == "new");
}
