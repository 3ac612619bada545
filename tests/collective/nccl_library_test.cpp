// SPDX-License-Identifier: Apache-2.0
// What needs the real CUDA and NCCL, but no GPU.
#include <raytrain/collective/nccl.hpp>

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/collective/device.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

using raytrain::NcclCollective;
using raytrain::NcclGroup;
using raytrain::NcclId;
using raytrain::Rank;
using raytrain::WorldSize;
using raytrain::testing::refusal;

namespace {

auto have_gpu() -> bool {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Says it in the way that CUDA itself does on this machine: without a driver, or with one that finds no device.
void check_says_what_is_missing(std::string const& text, std::string const& attempted) {
  CAPTURE(text);
  bool const no_driver =
      text.find("backend: " + attempted +
                ": cudaErrorInsufficientDriver (CUDA driver version is insufficient for CUDA runtime "
                "version); install an NVIDIA driver") == 0;
  bool const no_device = text.find("backend: " + attempted +
                                   ": cudaErrorNoDevice (no CUDA-capable device is detected); run it where an NVIDIA "
                                   "GPU is") == 0;
  CHECK((no_driver || no_device));
}

}  // namespace

TEST_CASE("NCCL makes an id, another one each time, without a GPU") {
  auto const id = NcclId::create();
  CHECK(id != NcclId::create());
  CHECK(id != NcclId{});
}

TEST_CASE("where there is no GPU, a collective that needs one says so at once and what to do" *
          doctest::skip(have_gpu())) {
  auto const group = std::make_shared<NcclGroup>(NcclId::create(), WorldSize{2});
  check_says_what_is_missing(refusal([&] { NcclCollective(group, Rank{0}); }), "NcclCollective on device 0");
  check_says_what_is_missing(refusal([&] { NcclCollective(group, Rank{1}, {.device = 3}); }),
                             "NcclCollective on device 3");
  check_says_what_is_missing(refusal([] { raytrain::DeviceGroup{WorldSize{2}}; }), "DeviceGroup on device 0");
}
