// SPDX-License-Identifier: Apache-2.0
// The job as one plain LibTorch program: one process whose operations use two threads.
#include <cstdio>
#include <exception>

#include "job.hpp"
#include "plain_data.hpp"

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  at::set_num_threads(job::workers);
  torch::manual_seed(job::seed);
  auto const network = make_network(options.model);
  torch::optim::Adam optimizer{network->parameters(), job::learning_rate};
  job::Batches batches{options.data, job::global_batch, 0, 1};

  auto const figures = job::measure(options, [&] {
    auto const [images, labels] = batches.next();
    optimizer.zero_grad();
    auto const loss = job::loss_of(*network, images, labels);
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  });
  job::print(options, figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "serial: %s\n", error.what());
  return 1;
}
