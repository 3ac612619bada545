// SPDX-License-Identifier: Apache-2.0
// Runs the case of that name:  torch_ranks_program CASE ARGUMENT...
#include "torch_ranks_program.hpp"

#include <cstdio>
#include <map>
#include <string>

auto main(int argc, char** argv) -> int {
  std::map<std::string, int (*)(int, char**)> const cases{{"local_training", local_training::run},
                                                          {"overlap", overlap::run},
                                                          {"sharded_optimizer", sharded_optimizer::run},
                                                          {"sync_batch_norm", sync_batch_norm::run},
                                                          {"uneven_batches", uneven_batches::run}};
  auto const found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: torch_ranks_program CASE ARGUMENT...\n");
    return 2;
  }
  return found->second(argc - 1, argv + 1);
}
