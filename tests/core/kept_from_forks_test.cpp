// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/file_descriptor.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "../support/child_process.hpp"

namespace {

// What a file's number stands for in a forked process.
auto in_forked(int file) -> std::string {
  return in_child([file] {
           struct ::stat status {};
           if (::fstat(file, &status) != 0) return std::string{"nothing"};
           if (S_ISFIFO(status.st_mode)) return std::string{"the file"};
           return std::string{"/dev/null"} + (::fcntl(file, F_GETFD) == FD_CLOEXEC ? ", for no other program" : "");
         })
      .text;
}

}  // namespace

TEST_CASE("a file is kept from forked processes as long as somebody keeps it, also when its number is given anew") {
  using raytrain::detail::KeptFromForks;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  CHECK(in_forked(pipe[0]) == "the file");
  {
    KeptFromForks here{pipe[0]};
    CHECK(in_forked(pipe[0]) == "/dev/null, for no other program");
    CHECK(in_forked(pipe[1]) == "the file");
    here = KeptFromForks{pipe[0]};
    CHECK(in_forked(pipe[0]) == "/dev/null, for no other program");
    here = {};
    CHECK(in_forked(pipe[0]) == "the file");
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}
