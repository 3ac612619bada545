// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../../examples/doctor/findings.hpp"

namespace {

auto found(std::string hostname, bool speaks_for_host) -> Findings {
  Findings findings;
  findings.hostname = std::move(hostname);
  findings.speaks_for_host = speaks_for_host;
  return findings;
}

// Two hosts with two ranks each.
auto four() -> std::vector<Findings> {
  return {found("alpha", true), found("alpha", false), found("beta", true), found("beta", false)};
}

TEST_CASE("numbers are written as ranges") {
  CHECK(ranges_of(std::vector<int>{}).empty());
  CHECK(ranges_of(std::vector{3}) == "3");
  CHECK(ranges_of(std::vector{0, 1}) == "0,1");
  CHECK(ranges_of(std::vector{0, 1, 2, 3, 6, 8, 9}) == "0-3,6,8,9");
}

TEST_CASE("what all ranks say, or one on each host, or rank 0 of the job, is said once and of nobody") {
  auto ranks = four();
  for (auto& findings : ranks) findings.say("MPI", "4.1");
  ranks[0].say("GPU", "none");
  ranks[2].say("GPU", "none");
  ranks[0].say("Job", "four ranks");
  CHECK(Report{ranks}.text() == "MPI         4.1\nGPU         none\nJob         four ranks\n\nNothing to advise.\n");
}

TEST_CASE("what some ranks say is said with their numbers and hosts, beside what others say of the same") {
  auto ranks = four();
  for (auto& findings : ranks) findings.say("MPI", "4.1");
  ranks[0].say("Memory", "1 GiB");
  ranks[2].say("Memory", "2 GiB");
  ranks[1].say("MPI", "slow");
  ranks[3].say("MPI", "slow");
  ranks[1].advise("do this");
  ranks[3].advise("do that");
  ranks[3].advise("do this");
  CHECK(Report{ranks}.text() ==
        "MPI         4.1\n"
        "            slow  [ranks 1,3 on alpha, beta]\n"
        "Memory      1 GiB  [alpha]\n"
        "            2 GiB  [beta]\n"
        "\nAdvice\n"
        "  - do this  [ranks 1,3 on alpha, beta]\n"
        "  - do that  [rank 3 on beta]\n");
}

}  // namespace
