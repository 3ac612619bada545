// SPDX-License-Identifier: Apache-2.0
// The language model in one plain LibTorch program: one process whose operations use two threads.
#include <cstdio>
#include <exception>

#include "job.hpp"

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  at::set_num_threads(job::workers);
  torch::manual_seed(job::seed);
  LanguageModel model;
  torch::optim::AdamW optimizer{model.parameters(), job::learning_rate};
  job::Rows rows;
  job::print(job::measure(options, [&] {
    auto const loss = job::loss_of(model, rows.next(0, job::workers * job::worker_batch));
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model.parameters(), job::largest_norm);
    optimizer.step();
    return loss.item<double>();
  }));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "serial: %s\n", error.what());
  return 1;
}
