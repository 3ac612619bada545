// SPDX-License-Identifier: Apache-2.0
// The main function of a test program that runs as several processes: the first one speaks for all, another one only
// when a test fails in it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "shared_world.hpp"

namespace {

constexpr std::uint32_t processes = 8;

auto run_tests(int argc, char** argv, raytrain::Rank rank) -> int {
  std::ostringstream said;
  doctest::Context context{argc, argv};
  if (rank != raytrain::Rank{0}) context.setCout(&said);
  int const status = context.run();
  if (rank != raytrain::Rank{0} && status != 0) {
    // In one piece, so that processes do not talk at once.
    std::cout << "=== rank " + std::to_string(rank.value) + ":\n" + said.str() << std::flush;
  }
  return status;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  // All processes take the same seed.
  setenv("RAYTRAIN_TEST_SEED", std::to_string(std::random_device{}()).c_str(), 0);
  auto const group = raytrain::SharedMemoryGroup::create({processes}, {.timeout = std::chrono::minutes{2}});
  std::vector<pid_t> children;
  for (std::uint32_t rank = 1; rank < processes; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Siblings::set(group, raytrain::Rank{rank});
    auto const status = run_tests(argc, argv, raytrain::Rank{rank});
    std::_Exit(status);
  }
  Siblings::set(group, raytrain::Rank{0});
  int status = run_tests(argc, argv, raytrain::Rank{0});
  for (auto const child : children) {
    int ended = 0;
    ::waitpid(child, &ended, 0);
    if (ended != 0) status = 1;
  }
  return status;
}
