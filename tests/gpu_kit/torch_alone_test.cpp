// SPDX-License-Identifier: Apache-2.0
// LibTorch without raytrain: where this fails, the machine is to blame.
#include <doctest/doctest.h>

#include <torch/torch.h>

TEST_CASE("LibTorch adds two tensors on the GPU") {
  REQUIRE(torch::cuda::is_available());
  auto const device = torch::Device{torch::kCUDA, 0};
  auto const sum = torch::full({3}, 1.5, device) + torch::full({3}, 2.0, device);
  CHECK(sum.device() == device);
  CHECK(torch::equal(sum.cpu(), torch::full({3}, 3.5)));
}
