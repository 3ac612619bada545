// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/gpu_advice.hpp>

#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

/// A LibTorch for CUDA 12.4, and a driver of that version with a GPU.
auto fitting() -> GpuFacts {
  return {.libtorch_cuda = 12040, .driver = {.is_loaded = true, .cuda = 12040, .gpus = {{"GPU", 1}}}};
}

auto hidden_by(std::optional<std::string> visible) -> GpuFacts {
  auto facts = fitting();
  facts.driver.visible = std::move(visible);
  facts.driver.status = GpuDriver::no_gpu;
  facts.driver.gpus.clear();
  return facts;
}

auto text_of(GpuFacts const& facts) -> std::string {
  auto const problem = gpu_problem(facts);
  return problem ? problem->happened + "; " + problem->remedy : "nothing";
}

}  // namespace

TEST_CASE("each thing that keeps LibTorch from a GPU has a text and a remedy of its own") {
  CHECK(text_of(fitting()) == "nothing");

  auto without_cuda = fitting();
  without_cuda.libtorch_cuda = 0;
  check_contains(text_of(without_cuda), " is built without CUDA; link one that is built with CUDA");

  auto unlinked = without_cuda;
  unlinked.unlinked = "/lib/libtorch_cuda.so";
  check_contains(text_of(unlinked), "LibTorch's part with CUDA, /lib/libtorch_cuda.so; link it by -Wl,--no-as-needed");

  auto without_driver = fitting();
  without_driver.driver = {.load_error = "libcuda.so.1: no such file"};
  check_contains(text_of(without_driver), "NVIDIA's driver cannot be loaded: libcuda.so.1: no such file; install a");
  check_contains(text_of(without_driver), "driver for CUDA 12.4 or newer");

  auto old_driver = fitting();
  old_driver.driver.cuda = 11040;
  check_contains(text_of(old_driver),
                 "driver supports CUDA up to 11.4, and LibTorch is built with 12.4; install a driver "
                 "for CUDA 12.4 or newer, or LibTorch for CUDA 11.4");

  auto broken = fitting();
  broken.driver.status = 999;
  check_contains(text_of(broken), "does not start (cuInit gives 999); see what nvidia-smi");

  check_contains(text_of(hidden_by("")), "CUDA_VISIBLE_DEVICES is '', which hides all GPUs; unset it");
  check_contains(text_of(hidden_by("-1")), "CUDA_VISIBLE_DEVICES is '-1', which hides all GPUs; unset it");
  check_contains(text_of(hidden_by("7")), "is '7', which leaves none of this host's GPUs to see; unset it");
  check_contains(text_of(hidden_by(std::nullopt)), "NVIDIA's driver finds no GPU; see whether nvidia-smi");
}

TEST_CASE("a driver that is older than LibTorch's CUDA within one major version is no problem") {
  auto facts = fitting();
  facts.driver.cuda = 12010;
  CHECK(text_of(facts) == "nothing");
}

TEST_CASE("LibTorch finds a GPU exactly where the facts name no problem") {
  CHECK(torch::cuda::is_available() == !gpu_problem(read_gpu_facts()).has_value());
}

TEST_CASE("a GPU without room is an error with the rank, the room that was left, and what to try") {
  auto const text =
      std::string{out_of_gpu_memory("loading x", "tried to allocate 2.00 GiB", GpuMemory{1 << 29, 1 << 30}).what()};
  check_contains(text,
                 "loading x: the GPU's memory is full: tried to allocate 2.00 GiB (0.5 GiB of its 1.0 GiB are free)");

  TemporaryFolder const folder;
  auto const thrown = thrown_error([&] {
    Trainer<TorchBackend>{
        [](TorchContext& ctx) {
          if (ctx.world_rank() == Rank{1}) C10_THROW_ERROR(OutOfMemoryError, "tried to allocate 3.00 GiB");
          ctx.collective().barrier();
        },
        {.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  check_contains(thrown, "rank 1");
  check_contains(thrown, "training: the GPU's memory is full: tried to allocate 3.00 GiB");
  check_contains(thrown, "use a smaller batch_size, with ctx.accumulate");
  check_contains(thrown, "activation_checkpoint");
  check_contains(thrown, "fewer workers on a GPU");
}

TEST_CASE("a GPU without room while a state is loaded is no error of the state") {
  auto const text = thrown_error([] {
    raytrain::detail::torch_call(
        "loading a state", [] { C10_THROW_ERROR(OutOfMemoryError, "tried to allocate 3.00 GiB"); },
        "give the model the layers that it was stored with");
  });
  check_contains(text, "loading a state: the GPU's memory is full: tried to allocate 3.00 GiB");
  check_contains(text, "use a smaller batch_size");
  CHECK(text.find("layers") == std::string::npos);
}
