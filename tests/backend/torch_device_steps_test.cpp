// SPDX-License-Identifier: Apache-2.0
// Training steps on a pretended device, which counts who waits for it. It is no GPU: what these tests show is which
// calls raytrain makes, and in which order.
#include <torch/torch.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "pretended_device.hpp"
#include "torch_device_run.hpp"
#include "torch_gpu_run.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using pretended_device::take_waits;

namespace {

auto const device = at::Device{pretended_device::type, 0};
auto const there = at::TensorOptions{device};

enum class Optimizer : std::uint8_t { sgd, adam, lamb, lars, sharded_adam };

struct Steps {
  bool on_device = true;
  int workers = 2;
  int accumulate = 1;
  Optimizer optimizer = Optimizer::sgd;
  std::function<ModelOptions()> options = [] { return ModelOptions{}; };
  GpuExchange exchange = GpuExchange::automatic;
  /// Called in each step.
  std::function<void(at::Tensor const& loss)> with_loss = [](at::Tensor const&) {};
};

struct Trained {
  Tensors state;                   // of rank 0's model
  std::vector<std::string> waits;  // of all ranks, in all steps but the first
};

auto trained(Steps const& steps) -> Trained {
  TemporaryFolder const folder;
  PretendedDevice const pretended;
  std::vector<std::vector<std::string>> waits(static_cast<std::size_t>(steps.workers));
  Trained trained;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return GpuNet{}; }, steps.options());
    AveragedModel averaged{model, {.decay = 0.9}};
    auto shard = ctx.dataset_shard("train");
    auto& own = waits[ctx.world_rank().value];
    auto const run = [&](torch::optim::Optimizer& optimizer) {
      for (auto epoch = 0; epoch < 2; ++epoch) {
        auto loss_sum = torch::zeros({}, ctx.device());
        auto is_first = true;
        for (auto batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
          if (std::exchange(is_first, false)) (void)take_waits();
          auto const is_last = ctx.accumulate(steps.accumulate);
          auto const loss = loss_of(model, batch);
          loss.backward();
          loss_sum += loss.detach();
          steps.with_loss(loss);
          if (!is_last) continue;
          optimizer.step();
          optimizer.zero_grad();
          averaged.update();
        }
        for (auto& wait : take_waits()) own.push_back(std::move(wait));
      }
    };
    if (steps.optimizer == Optimizer::sgd) {
      torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.05}.momentum(0.9)};
      run(optimizer);
    } else if (steps.optimizer == Optimizer::adam) {
      torch::optim::Adam optimizer{model->parameters(), torch::optim::AdamOptions{1e-3}};
      run(optimizer);
    } else if (steps.optimizer == Optimizer::lamb) {
      LAMB optimizer{model->parameters(), LAMBOptions{1e-3}};
      run(optimizer);
    } else if (steps.optimizer == Optimizer::lars) {
      LARS optimizer{model->parameters(), LARSOptions{1e-3}};
      run(optimizer);
    } else {
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, torch::optim::AdamOptions{1e-3});
      run(optimizer);
    }
    if (ctx.world_rank() != Rank{0}) return;
    for (auto const& tensor : model->parameters()) trained.state.push_back(tensor.detach().cpu().clone());
    for (auto const& tensor : model->buffers()) trained.state.push_back(tensor.detach().cpu().clone());
  };
  Trainer<TorchBackend> trainer{
      train,
      {.scaling = gpu_scaling(steps.workers, steps.on_device),
       .run = {.name = "run", .storage_path = folder.path(), .seed = 5, .handle_signals = false},
       .datasets = {{"train", small_images(192)}},
       .backend = {.gpu_exchange = steps.exchange}}};
  CHECK(warnings_with(trainer.fit(), "not the same on every rank") == 0);
  for (auto& own : waits) {
    for (auto& wait : own) trained.waits.push_back(std::move(wait));
  }
  return trained;
}

}  // namespace

TEST_CASE("the pretended device computes what the CPU does") {
  auto const x = torch::arange(12, at::kFloat).view({3, 4});
  auto const y = x.to(device);
  CHECK(y.device() == device);
  CHECK(torch::equal((y.t().mm(y) / 7).cpu(), x.t().mm(x) / 7));
  CHECK(torch::equal(y.select(0, 1).mul_(3).cpu(), x.select(0, 1) * 3));
  CHECK(torch::equal(y.cpu().select(0, 1), x.select(0, 1) * 3));
  CHECK(torch::equal(torch::relu(y - 5).sum(1).cpu(), torch::relu(y.cpu() - 5).sum(1)));
}

TEST_CASE("the pretended device counts who waits for it, each in the thread that does") {
  auto const x = torch::ones({4}, there);
  (void)take_waits();
  CHECK(x.sum().item<float>() == 4);
  CHECK(take_waits() == std::vector<std::string>{"item"});
  auto const pageable = x.cpu();
  CHECK(take_waits() == std::vector<std::string>{"a copy to CPU memory"});
  auto const pinned = torch::zeros({4}, at::TensorOptions{}.pinned_memory(true));
  pinned.copy_(x, true);
  CHECK(take_waits().empty());
  CHECK(pinned.sum().item<float>() == 0);  // it is late
  c10::impl::VirtualGuardImpl{device.type()}.getStream(device).synchronize();
  CHECK(pinned.sum().item<float>() == 4);
  CHECK(take_waits() == std::vector<std::string>{"synchronizeStream"});
  pinned.copy_(x + 1);
  CHECK(take_waits() == std::vector<std::string>{"a copy to CPU memory"});
  (void)torch::nonzero(x);
  CHECK(take_waits() == std::vector<std::string>{"aten::nonzero"});
}

TEST_CASE("a stream of the pretended device that does not wait for another one comes before what is put there") {
  c10::impl::VirtualGuardImpl const guard{device.type()};
  auto const stream = guard.getStreamFromGlobalPool(device);
  auto const pinned = torch::ones({4}, at::TensorOptions{}.pinned_memory(true));
  auto const target = torch::zeros({4}, there);
  {
    c10::StreamGuard const on_stream{stream};
    target.copy_(pinned, true);
  }
  CHECK(target.sum().item<float>() == 0);
  c10::Event event{device.type()};
  event.record(stream);
  event.block(guard.getStream(device));
  CHECK(target.sum().item<float>() == 4);
}

TEST_CASE(
    "memory of the pretended device that is let go holds no numbers any more, but for a stream that uses it yet") {
  c10::impl::VirtualGuardImpl const guard{device.type()};
  auto const stream = guard.getStreamFromGlobalPool(device);
  for (auto const is_recorded : {false, true}) {
    CAPTURE(is_recorded);
    auto const pinned = torch::zeros({4}, at::TensorOptions{}.pinned_memory(true));
    {
      auto const x = torch::ones({4}, there);
      c10::StreamGuard const on_stream{stream};
      pinned.copy_(x, true);
      if (is_recorded) x.record_stream(stream);
    }
    stream.synchronize();
    CHECK(pinned.isnan().all().item<bool>() == !is_recorded);
  }
}

TEST_CASE("a step on a device does not wait for it, with whatever optimizer, accumulated or not") {
  for (auto const optimizer :
       {Optimizer::sgd, Optimizer::adam, Optimizer::lamb, Optimizer::lars, Optimizer::sharded_adam}) {
    for (auto const accumulate : {1, 3}) {
      CAPTURE(static_cast<int>(optimizer));
      CAPTURE(accumulate);
      Steps steps{.accumulate = accumulate, .optimizer = optimizer};
      auto const with_device = trained(steps);
      CHECK(with_device.waits == std::vector<std::string>{});
      steps.on_device = false;
      CHECK(same_bits(with_device.state, trained(steps).state));
    }
  }
}

TEST_CASE("a step on a device whose exchange overlaps with backward, or is compressed, does not wait for it") {
  auto const on_cpu = trained({.on_device = false});
  auto const overlapped =
      trained({.options = [] { return ModelOptions{.bucket_bytes = 512, .overlap = Overlap::on}; }});
  CHECK(overlapped.waits == std::vector<std::string>{});
  CHECK(same_bits(overlapped.state, on_cpu.state));
  auto const compressed_to = [] { return ModelOptions{.exchange = compressed(Compression::bf16)}; };
  CHECK(trained({.options = compressed_to}).waits == std::vector<std::string>{});
}

TEST_CASE("a worker that has a device alone does not wait for it in a step") {
  CHECK(trained({.workers = 1}).waits == std::vector<std::string>{});
}

TEST_CASE("who asks for a loss in each step waits for the device in each") {
  auto const waits = trained({.with_loss = [](at::Tensor const& loss) { (void)loss.item<float>(); }}).waits;
  CHECK(waits == std::vector<std::string>(2 * 2 * 6, "item"));
}

TEST_CASE("gradients that are exchanged through CPU memory wait for the device") {
  auto const through_memory = trained({.exchange = GpuExchange::cpu});
  CHECK_FALSE(through_memory.waits.empty());
  CHECK(same_bits(through_memory.state, trained({.on_device = false}).state));
}
