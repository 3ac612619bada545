// SPDX-License-Identifier: Apache-2.0
// Checkpoints of states on a pretended device, whose copies are as late as they may be.
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/device_snapshot.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "pretended_device.hpp"
#include "torch_device_run.hpp"
#include "torch_gpu_run.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using pretended_device::take_waits;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct Run {
  bool on_device = true;
  int workers = 1;
  bool is_sharded = false;
  GpuExchange exchange = GpuExchange::automatic;
  CheckpointConfig checkpoint{};
  /// Called on rank 0 around `report`, and at the end.
  std::function<void(torch::nn::Module&)> before_report = [](torch::nn::Module&) {};
  std::function<void(torch::nn::Module&)> behind_report = [](torch::nn::Module&) {};
  std::function<void(torch::nn::Module&)> at_end = [](torch::nn::Module&) {};
};

struct Reported {
  std::map<std::string, Bytes> files;  // of the checkpoint
  std::vector<std::string> waits;      // of all ranks in `report`
};

/// Files of a checkpoint but those of random numbers, of which a device has its own.
auto files_of(Checkpoint const& checkpoint) -> std::map<std::string, Bytes> {
  std::map<std::string, Bytes> files;
  for (auto const& file : checkpoint.files()) {
    if (file.name.find("generator") == std::string::npos) files[file.name] = checkpoint.read(file.name);
  }
  return files;
}

/// The names of those that one has, and not the other, or another one.
auto differing(std::map<std::string, Bytes> const& left, std::map<std::string, Bytes> const& right)
    -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& [name, content] : left) {
    auto const found = right.find(name);
    if (found == right.end() || found->second != content) names.push_back(name);
  }
  for (auto const& [name, content] : right) {
    if (!left.contains(name)) names.push_back(name);
  }
  return names;
}

auto const none = std::vector<std::string>{};

/// Some steps, a report of them, and as many steps behind it.
auto reported(Run const& run) -> Reported {
  TemporaryFolder const folder;
  PretendedDevice const pretended;
  std::vector<std::vector<std::string>> waits(static_cast<std::size_t>(run.workers));
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return GpuNet{}; });
    AveragedModel averaged{model, {.decay = 0.9}};
    auto shard = ctx.dataset_shard("train");
    auto const is_first = ctx.world_rank() == Rank{0};
    auto const step = [&](torch::optim::Optimizer& optimizer, auto const& parts) {
      auto const train_epoch = [&](int epoch) {
        for (auto batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
          loss_of(model, batch).backward();
          optimizer.step();
          optimizer.zero_grad();
          averaged.update();
        }
      };
      train_epoch(0);
      ctx.barrier();
      if (is_first) run.before_report(*model);
      (void)take_waits();
      ctx.report(Epoch{0, 0.5}, save(parts));
      waits[ctx.world_rank().value] = take_waits();
      if (is_first) run.behind_report(*model);
      ctx.barrier();
      train_epoch(1);
      if (is_first) run.at_end(*model);
    };
    if (run.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, torch::optim::AdamOptions{1e-3});
      step(optimizer, TrainingState{model, optimizer, averaged, shard});
    } else {
      torch::optim::Adam optimizer{model->parameters(), torch::optim::AdamOptions{1e-3}};
      step(optimizer, TrainingState{model, optimizer, averaged, shard});
    }
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = gpu_scaling(run.workers, run.on_device),
                                 .run = {.name = "run",
                                         .storage_path = folder.path(),
                                         .checkpoint = run.checkpoint,
                                         .seed = 5,
                                         .handle_signals = false},
                                 .datasets = {{"train", small_images(48)}},
                                 .backend = {.gpu_exchange = run.exchange}}};
  auto const result = trainer.fit();
  Reported reported;
  if (result.checkpoint()) reported.files = files_of(*result.checkpoint());
  for (auto& own : waits) {
    for (auto& wait : own) reported.waits.push_back(std::move(wait));
  }
  return reported;
}

void change(torch::nn::Module& model) {
  torch::NoGradGuard const no_grad;
  for (auto& parameter : model.parameters()) parameter.fill_(7);
}

}  // namespace

TEST_CASE("a report does not wait for the device, and the checkpoint holds what was there then, as on the CPU") {
  auto const on_cpu = reported({.on_device = false}).files;
  CHECK(on_cpu.size() >= 3);
  std::optional<pretended_device::Late> late;
  auto const with_device = reported({.before_report = [&](torch::nn::Module&) { late.emplace(); },
                                     .at_end =
                                         [&](torch::nn::Module& model) {
                                           change(model);
                                           late.reset();
                                         }});
  CHECK(with_device.waits == none);
  CHECK(differing(with_device.files, on_cpu) == none);
}

TEST_CASE("a checkpoint of a device that nothing else is put on holds what was there") {
  Run run{.checkpoint = {.mode = CheckpointMode::sync}};
  auto const with_device = reported(run);
  CHECK(with_device.waits == none);
  run.on_device = false;
  CHECK(differing(with_device.files, reported(run).files) == none);
}

TEST_CASE("a device without room for a copy is waited for in report, and its checkpoint is the same") {
  std::optional<pretended_device::Full> full;
  auto const with_device = reported({.before_report = [&](torch::nn::Module&) { full.emplace(1'024); },
                                     .behind_report =
                                         [&](torch::nn::Module& model) {
                                           change(model);
                                           full.reset();
                                         }});
  CHECK_FALSE(with_device.waits.empty());
  CHECK(differing(with_device.files, reported({.on_device = false}).files) == none);
}

TEST_CASE("a report of a sharded optimizer does not wait for the device, and its checkpoint is as on the CPU") {
  for (auto const workers : {1, 2, 3}) {
    CAPTURE(workers);
    std::optional<pretended_device::Late> late;
    auto const with_device = reported({.workers = workers,
                                       .is_sharded = true,
                                       .before_report = [&](torch::nn::Module&) { late.emplace(); },
                                       .at_end =
                                           [&](torch::nn::Module& model) {
                                             change(model);
                                             late.reset();
                                           }});
    CHECK(with_device.waits == none);
    auto const on_cpu = reported({.on_device = false, .workers = workers, .is_sharded = true});
    CHECK(differing(with_device.files, on_cpu.files) == none);
  }
}

TEST_CASE(
    "a sharded optimizer's checkpoint is the same where the device has no room to gather it, or rank 0's has none") {
  constexpr std::size_t no_room_for_a_part = 1'024;
  constexpr std::size_t room_for_a_part =
      7'000;  // of the two thirds of Adam's tensors of 2,474 numbers, and not for one
  for (auto const workers : {1, 2, 3}) {
    auto const on_cpu = reported({.on_device = false, .workers = workers, .is_sharded = true});
    for (auto const room_bytes : {no_room_for_a_part, room_for_a_part}) {
      CAPTURE(workers);
      CAPTURE(room_bytes);
      std::optional<pretended_device::Full> full;
      auto const with_device = reported({.workers = workers,
                                         .is_sharded = true,
                                         .before_report = [&](torch::nn::Module&) { full.emplace(room_bytes); },
                                         .behind_report = [&](torch::nn::Module&) { full.reset(); }});
      CHECK_FALSE(with_device.waits.empty());
      CHECK(differing(with_device.files, on_cpu.files) == none);
    }
  }
}

TEST_CASE("a worker that fails while another one gathers a sharded optimizer's state on a device ends the run") {
  auto const text = thrown_error([&] {
    return reported({.workers = 2,
                     .is_sharded = true,
                     .before_report = [](torch::nn::Module&) { throw std::runtime_error{"as planned"}; }})
        .files.size();
  });
  check_contains(text, "as planned");
}

TEST_CASE("a sharded optimizer's checkpoint that workers exchange through CPU memory is the same") {
  auto const with_device = reported({.workers = 2, .is_sharded = true, .exchange = GpuExchange::cpu});
  CHECK(differing(with_device.files, reported({.on_device = false, .workers = 2, .is_sharded = true}).files) == none);
}

TEST_CASE("a device that fails as it copies a checkpoint fails the run, and nothing is committed") {
  std::optional<pretended_device::Broken> broken;
  for (auto const on_failed_write : {OnFailedWrite::fail, OnFailedWrite::warn}) {
    Reported result;
    auto const text = thrown_error([&] {
      result = reported({.checkpoint = {.on_failed_write = on_failed_write},
                         .before_report = [&](torch::nn::Module&) { broken.emplace(); }});
    });
    broken.reset();
    check_contains(text, "copying a checkpoint from a device");
    check_contains(text, "the pretended device is lost");
    CHECK(result.files.empty());
  }
}

TEST_CASE("a copy that is given up is not trusted, whether the device has come to its end or not") {
  PretendedDevice const pretended;
  for (auto const is_late : {false, true}) {
    CAPTURE(is_late);
    std::optional<pretended_device::Late> late;
    if (is_late) late.emplace();
    auto const tensor = torch::ones({4}, at::TensorOptions{at::Device{pretended_device::type, 0}});
    auto const snapshot = raytrain::detail::DeviceSnapshot::take({{tensor, 0}}, tensor.nbytes());
    REQUIRE(snapshot.has_value());
    CHECK_THROWS_AS(snapshot->complete([] { return true; }), Stopped);
  }
}

TEST_CASE("a run on a device goes on from the copy in memory of what it had reported") {
  TemporaryFolder const folder;
  PretendedDevice const pretended;
  std::vector<torch::Tensor> found;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{4, 4}; });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    auto const first = ctx.restore({model, optimizer});
    if (first > 0 && ctx.world_rank() == Rank{0}) found.push_back(model->weight.detach().cpu());
    for (auto epoch = first; epoch < 3; ++epoch) {
      {
        torch::NoGradGuard const no_grad;
        model->weight.fill_(epoch + 1);
      }
      ctx.report(Epoch{epoch, 0.5}, save(model, optimizer));
      change(*model);
      if (epoch == 1 && ctx.attempt() == Attempt{}) {
        ctx.barrier();
        throw std::runtime_error{"as planned"};
      }
    }
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = gpu_scaling(2, true),
                                 .run = {.name = "run",
                                         .storage_path = folder.path(),
                                         // A copy under way when a worker fails would be given up.
                                         .checkpoint = {.mode = CheckpointMode::sync, .memory_copies = 1},
                                         .failure = {.max_failures = 1, .backoff = std::chrono::milliseconds{0}},
                                         .handle_signals = false}}};
  (void)trainer.fit();
  REQUIRE(found.size() == 1);
  CHECK(torch::equal(found.front(), torch::full({4, 4}, 2.0)));
}

TEST_CASE("a model's file that is written outside report holds what is on the device") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "model.safetensors";
  torch::manual_seed(3);
  torch::nn::Linear model{4, 4};
  auto const expected = model->weight.detach().clone();
  model->to(at::Device{pretended_device::type, 0});
  save_safetensors(model, file);
  torch::nn::Linear read{4, 4};
  load_safetensors(read, file);
  CHECK(torch::equal(read->weight, expected));
}
