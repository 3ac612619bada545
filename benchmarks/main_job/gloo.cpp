// SPDX-License-Identifier: Apache-2.0
// The job in two processes, with what LibTorch has for it: c10d::Reducer over ProcessGroupGloo, used as PyTorch's
// DistributedDataParallel uses it. A fourth argument chooses how gradients reach the buckets:
//   copied   DistributedDataParallel's default
//   views    gradient_as_bucket_view: gradients live in the buckets
//   apart    not at all: two networks that know nothing of each other, the bound for every way of exchanging gradients
#define USE_C10D_GLOO  // the first thing that ProcessGroupGloo.hpp looks at
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "job.hpp"
#include "plain_data.hpp"

namespace {

auto connect(int rank) -> c10::intrusive_ptr<c10d::ProcessGroup> {
  auto const store = c10::make_intrusive<c10d::FileStore>(
      "gloo_store_" + std::to_string(rank == 0 ? getpid() : getppid()), job::workers);
  auto const options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, job::workers, options);
}

/// DistributedDataParallel's steps, which it has in Python only.
class DataParallel {
 public:
  DataParallel(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> group, bool views)
      : parameters_{std::move(parameters)}, views_{views} {
    torch::NoGradGuard const no_grad;
    for (auto const& parameter : parameters_) {
      std::vector<torch::Tensor> one{parameter.detach()};
      group->broadcast(one)->wait();
    }
    std::vector<bool> const sparse(parameters_.size(), false);
    auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
        parameters_, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}, sparse);
    std::reverse(buckets.begin(), buckets.end());
    std::reverse(limits.begin(), limits.end());
    reducer_ = std::make_unique<c10d::Reducer>(
        parameters_, std::move(buckets), std::move(limits), std::move(group), sparse, c10d::kDefaultBucketBytesCap,
        /*find_unused_parameters=*/false, views, std::unordered_map<std::size_t, std::string>{},
        c10d::kDefaultFirstBucketBytes);
  }

  void before_forward() {
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
  }
  void before_backward() { reducer_->prepare_for_backward({}); }

  /// Optimizer::zero_grad refuses gradients that are views.
  void zero_grad() {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : parameters_) {
      if (!views_) {
        parameter.mutable_grad().reset();
      } else if (parameter.grad().defined()) {
        parameter.mutable_grad().zero_();
      }
    }
  }

 private:
  std::vector<torch::Tensor> parameters_;
  bool views_;
  std::unique_ptr<c10d::Reducer> reducer_;
};

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
  auto const group = connect(rank);
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
    job::check_equal(network->parameters(), [&](std::vector<double>& values) {
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
