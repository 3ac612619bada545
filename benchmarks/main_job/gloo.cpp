// SPDX-License-Identifier: Apache-2.0
// The job in two processes, with what LibTorch has for it: c10d::Reducer over ProcessGroupGloo, used as PyTorch's
// DistributedDataParallel uses it. A fourth argument chooses how gradients reach the buckets:
//   copied   DistributedDataParallel's default
//   views    gradient_as_bucket_view: gradients live in the buckets
//   apart    not at all: two networks that know nothing of each other, the bound for every way of exchanging gradients
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../data_parallel.hpp"
#include "../gloo_group.hpp"
#include "job.hpp"
#include "plain_data.hpp"

namespace {

/// This program again, as rank 1.
class Partner {
 public:
  explicit Partner(char** argv) {
    std::vector<char*> arguments;
    for (auto** argument = argv; *argument != nullptr; ++argument) arguments.push_back(*argument);
    char rank[] = "rank-1";
    arguments.push_back(rank);
    arguments.push_back(nullptr);
    if (posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0) {
      throw std::runtime_error{"cannot start the second process"};
    }
  }
  Partner(Partner const&) = delete;
  auto operator=(Partner const&) -> Partner& = delete;
  ~Partner() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }

  void wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    if (status != 0) throw std::runtime_error{"the second process failed"};
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  std::string const how = argc > 4 ? argv[4] : "copied";
  int const rank = std::string{argv[argc - 1]} == "rank-1" ? 1 : 0;
  std::unique_ptr<Partner> const partner{rank == 0 ? new Partner{argv} : nullptr};
  at::set_num_threads(1);
  torch::manual_seed(job::seed);
  auto const network = make_network(options.model);
  job::Batches batches{options.data, job::worker_batch, rank, job::workers};
  auto const group = join_by_gloo(rank, job::workers, "gloo_store_" + std::to_string(rank == 0 ? getpid() : getppid()));
  std::optional<DataParallel> parallel;
  if (how != "apart") parallel.emplace(network->parameters(), group, how == "views");
  torch::optim::Adam optimizer{network->parameters(), job::learning_rate};

  auto const figures = job::measure(options, [&] {
    auto const [images, labels] = batches.next();
    parallel ? parallel->zero_grad() : optimizer.zero_grad();
    if (parallel) parallel->before_forward();
    auto const loss = job::loss_of(*network, images, labels);
    if (parallel) parallel->before_backward();
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  });
  if (parallel) {
    check_equal(network->parameters(), [&](std::vector<double>& values) {
      std::vector<torch::Tensor> one{
          torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, torch::kDouble)};
      group->broadcast(one)->wait();
    });
  }
  group->barrier()->wait();  // nobody leaves while the other one needs the connection
  if (rank == 0) {
    partner->wait();
    job::print(options, figures);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "gloo: %s\n", error.what());
  return 1;
}
