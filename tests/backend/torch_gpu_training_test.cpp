// SPDX-License-Identifier: Apache-2.0
// Workers that train on GPUs: on real ones where LibTorch finds any, and else on pretended ones, whose memory is the
// host's, so that everything but CUDA itself runs.
#include <torch/cuda.h>
#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "torch_gpu_run.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct GpuTraining {
  int workers = 2;
  bool on_gpu = true;
  bool is_sharded = false;
  int accumulate = 1;
  int epochs = 2;
  ModelOptions options{};
  GpuExchange exchange = GpuExchange::automatic;
  /// Called on each rank behind each step.
  std::function<void(TorchContext&, int step)> behind_step = [](TorchContext&, int) {};
};

/// What rank 0's model has in the end.
auto trained_in(std::filesystem::path const& folder, GpuTraining const& training) -> Tensors {
  Tensors state;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return GpuNet{}; }, training.options);
    auto shard = ctx.dataset_shard("train");
    auto steps = 0;
    auto const run = [&](torch::optim::Optimizer& optimizer, TrainingState const& parts) {
      for (auto epoch = ctx.restore(parts); epoch < training.epochs; ++epoch) {
        auto loss_sum = torch::zeros({}, ctx.device());
        for (auto batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
          auto const is_last = ctx.accumulate(training.accumulate);
          auto const images = batch["image"];
          REQUIRE(images.device() == ctx.device());
          auto const loss =
              torch::nll_loss(model(images.to(torch::kFloat).flatten(1) / 255), batch["label"].to(torch::kLong));
          loss.backward();
          loss_sum += loss.detach();
          if (!is_last) continue;
          optimizer.step();
          optimizer.zero_grad();
          training.behind_step(ctx, ++steps);
        }
        ctx.report(Epoch{epoch, loss_sum.item<double>()}, save(parts));
      }
    };
    // Adam would make of gradients that are nearly 0 steps as large as of others, and so of their rounding.
    auto const options = torch::optim::SGDOptions{0.05}.momentum(0.9);
    if (training.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, options);
      run(optimizer, {model, optimizer, shard});
    } else {
      torch::optim::SGD optimizer{model->parameters(), options};
      run(optimizer, {model, optimizer, shard});
    }
    if (ctx.world_rank() != Rank{0}) return;
    for (auto const& tensor : model->parameters()) state.push_back(tensor.detach().cpu().clone());
    for (auto const& tensor : model->buffers()) state.push_back(tensor.detach().cpu().clone());
  };
  Trainer<TorchBackend> trainer{
      train,
      {.scaling = gpu_scaling(training.workers, training.on_gpu),
       .run =
           {.name = "run", .storage_path = folder, .failure = {.max_failures = 1}, .seed = 5, .handle_signals = false},
       .datasets = {{"train", small_images(192)}},
       .backend = {.gpu_exchange = training.exchange}}};
  CHECK(warnings_with(trainer.fit(), "not the same on every rank") == 0);
  return state;
}

auto trained(GpuTraining const& training) -> Tensors {
  TemporaryFolder const folder;
  return trained_in(folder.path(), training);
}

/// Bit by bit on pretended GPUs; a real one rounds otherwise.
void check_same(Tensors const& left, Tensors const& right) {
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (has_real_gpu()) {
      CHECK(torch::allclose(left[i].to(torch::kDouble), right[i].to(torch::kDouble), 1e-3, 1e-3));
    } else {
      CHECK(torch::equal(left[i], right[i]));
    }
  }
}

}  // namespace

TEST_CASE("workers that share a GPU train as they do on the CPU") {
  Gpus const gpus;
  for (auto const workers : {1, 2, 4}) {
    CAPTURE(workers);
    check_same(trained({.workers = workers}), trained({.workers = workers, .on_gpu = false}));
  }
}

TEST_CASE("gradients of a GPU that are exchanged through CPU memory train as those on the CPU") {
  Gpus const gpus;
  check_same(trained({.workers = 3, .exchange = GpuExchange::cpu}), trained({.workers = 3, .on_gpu = false}));
}

TEST_CASE("gradients of a GPU that are exchanged during a backward train as those that are exchanged behind it") {
  Gpus const gpus;
  auto const behind = trained({});
  for (auto const overlap : {Overlap::on, Overlap::measured}) {
    check_same(trained({.options = {.bucket_bytes = 512, .overlap = overlap}}), behind);
  }
  check_same(trained({.options = {.bucket_bytes = 512, .overlap = Overlap::on}, .exchange = GpuExchange::cpu}), behind);
}

TEST_CASE("batches are accumulated on a GPU as on the CPU") {
  Gpus const gpus;
  check_same(trained({.accumulate = 3}), trained({.on_gpu = false, .accumulate = 3}));
}

TEST_CASE("a sharded optimizer of a GPU makes the same steps as a whole one") {
  Gpus const gpus;
  check_same(trained({.is_sharded = true}), trained({}));
  check_same(trained({.is_sharded = true, .exchange = GpuExchange::cpu}), trained({}));
}

TEST_CASE("a training on a GPU goes on from a checkpoint of the CPU, and the reverse") {
  Gpus const gpus;
  for (auto const is_sharded : {false, true}) {
    for (auto const on_gpu : {false, true}) {
      CAPTURE(is_sharded);
      CAPTURE(on_gpu);
      TemporaryFolder const folder;
      (void)trained_in(folder.path(), {.on_gpu = on_gpu, .is_sharded = is_sharded, .epochs = 2});
      auto const gone_on = trained_in(folder.path(), {.on_gpu = !on_gpu, .is_sharded = is_sharded, .epochs = 4});
      check_same(gone_on, trained({.on_gpu = false, .is_sharded = is_sharded, .epochs = 4}));
    }
  }
}

TEST_CASE("a checkpoint of a GPU holds what was there when it was reported, whatever is put on the GPU behind that") {
  Gpus const gpus;
  TemporaryFolder const folder;
  auto const fill = [](torch::nn::Linear& model, double value) {
    torch::NoGradGuard const no_grad;
    model->weight.fill_(value);
  };
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{1'024, 1'024}; });
    for (auto epoch = 0; epoch < 4; ++epoch) {
      fill(model, epoch);
      ctx.report(Epoch{epoch, 0.5}, save(model));
      fill(model, -1);
    }
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = gpu_scaling(2, true),
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
  auto const result = trainer.fit();
  CHECK(result.checkpoints.size() == 4);
  for (auto const& checkpoint : result.checkpoints) {
    torch::nn::Linear model{1'024, 1'024};
    load(checkpoint, {model});
    auto const expected = static_cast<double>(checkpoint.training_iteration()) - 1;
    CHECK(torch::equal(model->weight, torch::full_like(model->weight, expected)));
  }
}

TEST_CASE("a failure on a GPU costs what was trained since the last checkpoint, and changes nothing") {
  Gpus const gpus;
  auto has_failed = std::make_shared<std::atomic<bool>>(false);
  auto const fail_once = [has_failed](TorchContext& ctx, int step) {
    if (ctx.world_rank() == Rank{1} && step == 9 && !has_failed->exchange(true)) throw std::runtime_error{"lost"};
  };
  check_same(trained({.epochs = 3, .behind_step = fail_once}), trained({.epochs = 3}));
  CHECK(*has_failed);
}

TEST_CASE("gradients of a GPU are compressed, and exchanged by the program's own exchange") {
  Gpus const gpus;
  struct Doubled : GradientExchange {
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      bucket.values.mul_(2);
      std::span const values{bucket.values.data_ptr<float>(), static_cast<std::size_t>(bucket.values.numel())};
      collective.all_reduce(values, ReduceOp::average);
      bucket.values.mul_(0.5);
    }
  };
  auto const with = [&](bool on_gpu, auto const& make) {
    Tensors result;
    TemporaryFolder const folder;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{8, 4}; }, {.exchange = make()});
      torch::manual_seed(3);
      auto const x =
          torch::linspace(-1, 1, 64).view({8, 8}).to(ctx.device()) * (1 + static_cast<int>(ctx.world_rank().value));
      model(x).square().mean().backward();
      if (ctx.world_rank() == Rank{0}) result = {model->weight.grad().cpu(), model->bias.grad().cpu()};
    };
    Trainer<TorchBackend>{train,
                          {.scaling = gpu_scaling(2, on_gpu),
                           .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
    return result;
  };
  auto const own = [] { return std::make_shared<Doubled>(); };
  auto const bf16 = [] { return compressed(Compression::bf16); };
  check_same(with(true, own), with(false, own));
  check_same(with(true, bf16), with(false, bf16));
}

TEST_CASE("more GPUs than there are, and parts that are none, are refused before a worker starts") {
  Gpus const gpus{2};
  auto const refused = [&](ScalingConfig const& scaling) {
    auto started = std::make_shared<std::atomic<bool>>(false);
    TemporaryFolder const folder;
    auto const text = thrown_error([&] {
      Trainer<TorchBackend>{
          [started](TorchContext&) { *started = true; },
          {.scaling = scaling, .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
          .fit();
    });
    CHECK_FALSE(*started);
    return text;
  };
  check_contains(refused({.num_workers = 1, .resources_per_worker = {.gpus = 1.5}, .use_gpu = true}),
                 "must be whole, or a part of one");
  check_contains(refused({.num_workers = 1, .resources_per_worker = {.gpus = -1}, .use_gpu = true}),
                 "must be whole, or a part of one");
  check_contains(refused({.num_workers = 1, .resources_per_worker = {.gpus = 1}}), "use_gpu is not");
  check_contains(refused({.num_workers = 1, .accelerator_type = "H100"}), "use_gpu is not");
  check_contains(refused({.num_workers = 1, .resources_per_worker = {.gpus = 512}, .use_gpu = true}),
                 "a worker asks for 512 GPUs, and this host has ");
  check_contains(refused({.num_workers = 2, .use_gpu = true, .virtual_shards = 4}), "virtual shards");
  if (has_real_gpu()) {
    check_contains(refused({.num_workers = 1, .use_gpu = true, .accelerator_type = "Z999"}),
                   "is 'Z999', and cuda:0 of rank 0 is '");
  }
}

TEST_CASE("workers that the GPUs of the host have no room for are refused before one starts, with the GPUs there are") {
  Gpus const gpus{2};
  auto const devices = raytrain::detail::Devices::here().count;
  auto started = std::make_shared<std::atomic<bool>>(false);
  TemporaryFolder const folder;
  auto const text = thrown_error([&] {
    Trainer<TorchBackend>{
        [started](TorchContext&) { *started = true; },
        {.scaling = {.num_workers = 2 * devices + 1, .resources_per_worker = {.gpus = 0.5}, .use_gpu = true},
         .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  CHECK_FALSE(*started);
  check_contains(text, "invalid_config: ScalingConfig::resources_per_worker.gpus");
  check_contains(text, std::to_string(2 * devices + 1) + " workers of this host ask for 0.5 GPUs each");
  check_contains(text, "and it has " + std::to_string(devices) + " (0: ");
  check_contains(text, raytrain::detail::Devices::names().back() + ")");
}

TEST_CASE(
    "a process that other workers of its host divide the GPUs with has no room for all, unless they may see others") {
  Gpus const gpus{2};
  auto const devices = raytrain::detail::Devices::here().count;
  auto const refusal = [](Launch launch) {
    return thrown_error([&] { raytrain::detail::check_devices({.launch = launch, .use_gpu = true}); });
  };
  auto const workers = std::to_string(devices + 1);
  ::setenv("LOCAL_WORLD_SIZE", workers.c_str(), 1);
  check_contains(refusal(Launch::processes), workers + " workers of this host ask for 1 GPU each");
  check_contains(refusal(Launch::ranks), workers + " workers of this host ask for 1 GPU each");
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  check_contains(refusal(Launch::processes), workers + " workers of this host ask for 1 GPU each");
  CHECK_NOTHROW(raytrain::detail::check_devices({.launch = Launch::ranks, .use_gpu = true}));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("LOCAL_WORLD_SIZE");
}

TEST_CASE("a GPU is asked for where there is none: the error says why there is none, and what to do") {
  if (has_real_gpu()) return;
  TemporaryFolder const folder;
  auto const text = thrown_error([&] {
    Trainer<TorchBackend>{
        [](TorchContext&) {},
        {.scaling = {.use_gpu = true}, .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  auto const problem = gpu_problem(read_gpu_facts());
  REQUIRE(problem);
  check_contains(text, "ScalingConfig::use_gpu: is set, and " + problem->happened);
  check_contains(text, problem->remedy + "; or leave use_gpu out to train on the CPU");
}

TEST_CASE("a backend that trains on the CPU refuses GPUs") {
  TemporaryFolder const folder;
  auto const text = thrown_error([&] {
    Trainer<MpiBackend>{
        [](MpiContext&) {},
        {.scaling = {.use_gpu = true}, .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  check_contains(text, "whose workers train on the CPU");
}

TEST_CASE("GPUs are divided by the worker's number") {
  using raytrain::detail::share_devices;
  CHECK(share_devices({.worker = 3, .workers = 4, .gpus = 1}, {.count = 4}).devices == std::vector{3});
  CHECK(share_devices({.worker = 1, .workers = 2, .gpus = 2}, {.count = 4}).devices == std::vector{2, 3});
  CHECK(share_devices({.worker = 5, .workers = 8, .gpus = 0.25}, {.count = 2}).devices == std::vector{1});
  CHECK(share_devices({.worker = 5, .workers = 8, .gpus = 0.25}, {.count = 2}).workers == 4);
  CHECK(share_devices({.worker = 4, .workers = 5, .gpus = 0.25}, {.count = 2}).workers == 1);
  CHECK(share_devices({.worker = 0, .workers = 1, .gpus = 0.25}, {.count = 1}).workers == 1);
  for (std::uint32_t workers = 1; workers <= 256; ++workers) {
    CHECK(share_devices({.worker = workers - 1, .workers = workers, .gpus = 1.0 / workers}, {.count = 1}).workers ==
          workers);
  }
  check_contains(
      thrown_error([] { (void)share_devices({.worker = 0, .workers = 9, .gpus = 0.25}, {.count = 2}); }),
      "9 workers of this host ask for 0.25 GPUs each, and it has 2; use 8 workers here, or write 1.0 / 5, by "
      "which 5 workers share each GPU");
  check_contains(thrown_error([] { (void)share_devices({.worker = 0, .workers = 3, .gpus = 2}, {.count = 4}); }),
                 "3 workers of this host ask for 2 GPUs each, and it has 4; use 2 workers here, or ask for at most 1 "
                 "GPU per worker");
}

TEST_CASE("who asks for more GPUs than there are is told what there is room for") {
  using raytrain::detail::DeviceClaim;
  using raytrain::detail::HostDevices;
  using raytrain::detail::share_devices;
  auto const refused = [](DeviceClaim const& claim, HostDevices const& host) {
    auto const text = thrown_error([&] { (void)share_devices(claim, host); });
    constexpr std::string_view field = "ScalingConfig::resources_per_worker.gpus: ";
    auto const at = text.find(field);
    return at == std::string::npos ? text : text.substr(at + field.size());
  };
  CHECK(refused({.workers = 1, .gpus = 4}, {.count = 2}) ==
        "a worker asks for 4 GPUs, and this host has 2; ask for at most 2 GPUs per worker");
  CHECK_NOTHROW((void)share_devices({.workers = 1, .gpus = 2}, {.count = 2}));
  CHECK(refused({.workers = 1, .gpus = 2}, {.count = 1}) ==
        "a worker asks for 2 GPUs, and this host has 1; ask for at most 1 GPU per worker");
  CHECK(refused({.workers = 2, .gpus = 8}, {.count = 4}) ==
        "2 workers of this host ask for 8 GPUs each, and it has 4; ask for at most 2 GPUs per worker");
  CHECK(refused({.workers = 3, .gpus = 4}, {.count = 2}) ==
        "3 workers of this host ask for 4 GPUs each, and it has 2; use 2 workers here with 1 GPU each, or write 1.0 / "
        "2, by which 2 workers share each GPU");
  CHECK_NOTHROW((void)share_devices({.workers = 2, .gpus = 1}, {.count = 2}));
  CHECK_NOTHROW((void)share_devices({.workers = 3, .gpus = 1.0 / 2}, {.count = 2}));
  CHECK(refused({.workers = 2, .gpus = 1}, {.count = 1, .may_share = false}) ==
        "2 workers of this host ask for 1 GPU each, and it has 1; use 1 worker here");
  CHECK(refused({.workers = 4, .gpus = 1.0 / 3}, {.count = 1}) ==
        "4 workers of this host ask for 0.3333 GPUs each, and it has 1; use 3 workers here, or write 1.0 / 4, by which "
        "4 workers share each GPU");
  CHECK_NOTHROW((void)share_devices({.workers = 4, .gpus = 1.0 / 4}, {.count = 1}));
  CHECK(refused({.workers = 1, .gpus = 1}, {.count = 0}) ==
        "a worker asks for 1 GPU, and this host has none; run it on hosts with GPUs, or leave use_gpu out to train on "
        "the CPU");
}

TEST_CASE("each GPU of a worker must be of the name that was asked for, as far as names are known") {
  using raytrain::detail::check_accelerator;
  using raytrain::detail::share_devices;
  ScalingConfig const scaling{.accelerator_type = "H100"};
  auto const refused = [&](std::vector<std::string> names) {
    auto const own = share_devices({.worker = 1, .workers = 2, .gpus = 2}, {.count = 4, .names = std::move(names)});
    return thrown_error([&] { check_accelerator(scaling, Rank{1}, own); });
  };
  CHECK_NOTHROW(check_accelerator(scaling, Rank{1}, share_devices({}, {.count = 1})));
  CHECK_NOTHROW(check_accelerator(scaling, Rank{1}, share_devices({}, {.count = 2, .names = {"H100 PCIe", "A100"}})));
  check_contains(refused({"A100", "A100", "H100 PCIe", "A100"}), "is 'H100', and cuda:3 of rank 1 is 'A100'");
}

TEST_CASE("a model that was moved behind prepare_model is refused by name") {
  Gpus const gpus;
  if (!has_real_gpu()) return;  // there is no other device
  TemporaryFolder const folder;
  auto const text = thrown_error([&] {
    Trainer<TorchBackend>{
        [](TorchContext& ctx) {
          auto model = ctx.prepare_model([] { return torch::nn::Linear{4, 4}; });
          auto const elsewhere = has_real_gpu() ? torch::kCPU : torch::kMeta;
          model->to(elsewhere);
          model(torch::ones({2, 4}, elsewhere)).sum().backward();
        },
        {.scaling = gpu_scaling(2, true), .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  check_contains(text, "parameter 'bias' has another shape, type or device than when the model was prepared");
}

TEST_CASE("a GPU without room says which rank asked, and for how much") {
  Gpus const gpus;
  if (!has_real_gpu()) return;
  TemporaryFolder const folder;
  auto const text = thrown_error([&] {
    Trainer<TorchBackend>{
        [](TorchContext& ctx) {
          if (ctx.world_rank() == Rank{1}) (void)torch::empty({std::int64_t{1} << 42}, ctx.device());
          ctx.collective().barrier();
        },
        {.scaling = gpu_scaling(2, true), .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false}}}
        .fit();
  });
  check_contains(text, "rank 1");
  check_contains(text, "out of memory");
}

TEST_CASE("NCCL is refused where workers share a GPU, and one GPU for all where they do not") {
  Gpus const gpus{2};
  auto const refused = [&](ScalingConfig const& scaling, GpuExchange exchange) {
    TemporaryFolder const folder;
    return thrown_error([&] {
      Trainer<TorchBackend>{[](TorchContext&) {},
                            {.scaling = scaling,
                             .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false},
                             .backend = {.gpu_exchange = exchange}}}
          .fit();
    });
  };
  check_contains(refused(gpu_scaling(2, true), GpuExchange::nccl), "is nccl, and several workers share a GPU");
  if (raytrain::detail::Devices::here().count < 2) return;
  check_contains(refused({.num_workers = 2, .use_gpu = true}, GpuExchange::shared_device),
                 "the workers are not threads of one process on one GPU");
}
