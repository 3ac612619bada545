// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/error.hpp>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>

using raytrain::Errc;
using raytrain::Error;

// Handlers of errors let a stop pass.
static_assert(!std::is_base_of_v<Error, raytrain::Stopped> &&
              !std::is_base_of_v<std::runtime_error, raytrain::Stopped>);

TEST_CASE("the numbers and names of error codes are those that earlier versions stored") {
  std::vector<std::pair<int, std::string>> const stored{
      {1, "invalid_config"},     {2, "invalid_data"}, {3, "invalid_report"},
      {4, "invalid_call"},       {5, "not_found"},    {6, "io"},
      {7, "corrupt_checkpoint"}, {8, "foreign_run"},  {9, "rank_mismatch"},
      {10, "worker_failed"},     {11, "bad_message"}, {12, "backend"},
      {13, "timed_out"},         {14, "exception"},   {15, "not_retryable"}};
  for (auto const& [number, name] : stored) CHECK(to_string(static_cast<Errc>(number)) == name);
}

TEST_CASE("a number that no code has is called unknown") {
  CHECK(to_string(Errc{0}) == "unknown");
  CHECK(to_string(Errc{16}) == "unknown");
}

TEST_CASE("an error says what was attempted, what happened and what to do, in this order") {
  Error const error{Errc::io, "reading a file", "it is not there (got 'x')", "write its path"};
  CHECK(std::string{error.what()} == "reading a file: it is not there (got 'x'); write its path");
  CHECK(error.code() == Errc::io);
  CHECK(error.attempted() == "reading a file");
  CHECK(error.happened() == "it is not there (got 'x')");
  CHECK(error.remedy() == "write its path");
}

TEST_CASE("an error without a remedy ends with what happened") {
  Error const error{Errc::io, "reading a file", "it is not there"};
  CHECK(std::string{error.what()} == "reading a file: it is not there");
  CHECK(error.remedy().empty());
}

TEST_CASE("an error that was caught on one thread says the same when it is thrown again") {
  std::exception_ptr kept;
  try {
    throw Error{Errc::backend, "a", "b", "c"};
  } catch (...) {
    kept = std::current_exception();
  }
  try {
    std::rethrow_exception(kept);
  } catch (Error const& error) {
    CHECK(std::string{error.what()} == "a: b; c");
  }
}
