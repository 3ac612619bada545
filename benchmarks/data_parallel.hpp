// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

/// The steps of PyTorch's DistributedDataParallel, which LibTorch has in Python only, around its c10d::Reducer.
class DataParallel {
 public:
  /// `views`: gradients live in the buckets, as with gradient_as_bucket_view; otherwise they are copied there, which is
  /// DistributedDataParallel's default.
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
