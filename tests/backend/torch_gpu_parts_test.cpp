// SPDX-License-Identifier: Apache-2.0
// Parts of TorchBackend on a GPU, compared with the CPU. Without a GPU such a test is skipped, and what exchanges
// arrays of a device runs with those of the CPU alone.
#include <c10/core/AutogradState.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/power_sgd.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

auto const gpu = torch::Device{torch::kCUDA, 0};

auto is_without_gpu() -> bool {
  if (torch::cuda::is_available()) return false;
  MESSAGE("skipped: no GPU");
  return true;
}

/// As in a worker on a GPU: LibTorch would run all workers' backwards in one thread, in which they wait for each other.
void run_backwards_here() {
#if TORCH_VERSION_MAJOR >= 2
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
#endif
}

auto gpu_shard_of(Dataset dataset) -> TorchShard {
  return TorchShard{DatasetShard{std::move(dataset), ShardOptions{}},
                    {.copies = std::make_shared<raytrain::detail::DeviceCopies>(gpu)}};
}

/// A collective of a device's arrays, for which another one exchanges copies in CPU memory.
class StagedCollective final : public Collective {
 public:
  StagedCollective(Collective& through_memory, torch::Device device)
      : through_memory_{through_memory}, device_{device} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return through_memory_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return through_memory_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return through_memory_.stop_agreed(); }
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool override { return true; }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    auto const is_in_place = task.from.data() == task.to.data();
    auto const from = bytes_of(task.from).cpu().clone();
    auto const to = is_in_place ? from : bytes_of(task.to).cpu().clone();
    auto staged = task;
    staged.from = {static_cast<std::byte const*>(from.data_ptr()), task.from.size()};
    staged.to = {static_cast<std::byte*>(to.data_ptr()), task.to.size()};
    through_memory_.start(staged).wait();
    bytes_of(task.to).copy_(to);
    return {};
  }

 private:
  [[nodiscard]] auto bytes_of(std::span<std::byte const> bytes) const -> torch::Tensor {
    auto const options = torch::TensorOptions{torch::kByte}.device(device_);
    if (bytes.empty()) return torch::empty({0}, options);
    return torch::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, options);
  }

  Collective& through_memory_;
  torch::Device device_;
};

/// What a worker makes on a device, with a collective of its arrays.
using OfWorker = std::function<Tensors(torch::Device device, Collective& collective)>;

/// What each of the workers makes, on the CPU. `is_staged`: their collective takes the device's arrays.
auto made_by_workers(WorldSize workers, torch::Device device, bool is_staged, OfWorker const& make)
    -> std::vector<Tensors> {
  auto const collectives = local_collectives(workers, {});
  std::vector<Tensors> made(workers.value);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers.value; ++rank) {
    threads.emplace_back([&, rank] {
      run_backwards_here();
      auto const through_memory = collectives.collective_of(Rank{rank});
      StagedCollective staged{*through_memory, device};
      for (auto const& tensor : make(device, is_staged ? static_cast<Collective&>(staged) : *through_memory)) {
        made[rank].push_back(tensor.detach().cpu());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return made;
}

/// How far values may be from those of the CPU; zeros: the same bits.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

/// Compares what workers make with the CPU's collective with what they make with one of a device's arrays: of the CPU's
/// as of a device, in the same operations, and of a GPU's where there is one.
void check_on_devices(WorldSize workers, Tolerance on_cpu, Tolerance on_gpu, OfWorker const& make) {
  auto const expected = made_by_workers(workers, torch::kCPU, false, make);
  auto const check = [&](torch::Device device, bool is_staged, Tolerance tolerance) {
    CAPTURE(device.str());
    auto const made = made_by_workers(workers, device, is_staged, make);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      CAPTURE(rank);
      REQUIRE(made[rank].size() == expected[rank].size());
      for (std::size_t i = 0; i < made[rank].size(); ++i) {
        CAPTURE(i);
        CHECK(torch::allclose(made[rank][i], expected[rank][i], tolerance.relative, tolerance.absolute));
      }
    }
  };
  check(torch::kCPU, true, on_cpu);
  if (!is_without_gpu()) check(gpu, true, on_gpu);
}

/// A worker's gradients of a matrix and a bias in some steps, behind an exchange.
auto exchanged_by(std::function<std::shared_ptr<GradientExchange>()> const& make_exchange) -> OfWorker {
  return [make_exchange](torch::Device device, Collective& collective) {
    auto const exchange = make_exchange();
    Tensors exchanged;
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto generator = at::detail::createCPUGenerator(10 * step + collective.rank().value);
      GradientBucket bucket;
      bucket.count = 1;
      bucket.values = torch::randn({24 * 40 + 24}, generator).to(device);
      bucket.parts.push_back({"matrix", {}, bucket.values.narrow(0, 0, 24 * 40).view({24, 40}), true});
      bucket.parts.push_back({"bias", {}, bucket.values.narrow(0, 24 * 40, 24), true});
      exchange->exchange(bucket, collective);
      exchanged.push_back(bucket.values);
    }
    return exchanged;
  };
}

/// A step of a layer of SyncBatchNorm: its result, gradients and running statistics.
auto normalized(torch::Device device, Collective& collective) -> Tensors {
  auto const joined =
      std::make_shared<raytrain::detail::JoinedBatch>(collective, std::make_shared<raytrain::detail::WorkerStep>());
  SyncBatchNorm norm{5};
  {
    torch::NoGradGuard const no_grad;
    norm->weight.copy_(torch::arange(1, 6));
  }
  norm->to(device);
  norm->connect(joined, {.model = 1, .layer = 1});
  auto generator = at::detail::createCPUGenerator(collective.rank().value);
  auto const x = (torch::randn({4, 5, 3}, generator) * 2 + 1).to(device).requires_grad_();
  auto const y = norm->forward(x);
  (y * torch::arange(60, torch::TensorOptions{torch::kFloat}.device(device)).view({4, 5, 3}) / 60).sum().backward();
  return {y, x.grad(), norm->weight.grad(), norm->bias.grad(), norm->running_mean, norm->running_var};
}

/// Dropout and a product on a device, with the gradient of the input.
auto gradient_through_dropout(torch::Tensor const& input, bool is_checkpointed) -> torch::Tensor {
  auto const x = input.detach().clone().requires_grad_();
  torch::nn::Linear linear{8, 8};
  torch::NoGradGuard no_grad;
  linear->weight.fill_(0.25F);
  linear->bias.fill_(0.5F);
  linear->to(input.device());
  torch::AutoGradMode const with_grad{true};
  auto const block = [&](torch::Tensor const& given) {
    return torch::dropout(linear->forward(given), 0.5, true).pow(2);
  };
  auto const y = [&] {
    Autocast const autocast{Precision::bf16, input.device()};
    return is_checkpointed ? activation_checkpoint(linear, block, x) : block(x);
  }();
  y.to(torch::kFloat).sum().backward();
  return x.grad();
}

auto is_copy_of(torch::Tensor const& on_gpu, torch::Tensor const& on_cpu) -> bool {
  return on_gpu.device() == gpu && torch::equal(on_gpu.cpu(), on_cpu);
}

/// Parameters of two types with gradients on a device, and what a GradScaler with a scale of 1024 makes of them.
auto stepped(torch::Device device, double last_gradient) -> std::pair<bool, Tensors> {
  Tensors parameters;
  for (auto const type : {torch::kFloat, torch::kDouble, torch::kFloat}) {
    parameters.push_back(torch::ones({3}, torch::TensorOptions{type}.device(device)).requires_grad_());
    parameters.back().mutable_grad() = torch::full({3}, 3, parameters.back().options().requires_grad(false));
  }
  parameters.back().mutable_grad()[2] = last_gradient;
  torch::optim::SGD optimizer{parameters, 1.0};
  GradScaler scaler{Precision::fp16, {.init_scale = 1024}};
  auto const is_stepped = scaler.step(optimizer);
  scaler.update();
  Tensors values;
  for (auto const& parameter : parameters) values.push_back(parameter.detach().cpu());
  return {is_stepped, values};
}

/// What a thread draws in a thread of its own, without a generator.
auto drawn_in_thread(std::optional<std::uint64_t> seed, torch::Device device) -> Tensors {
  Tensors drawn;
  std::thread{[&] {
    std::optional<raytrain::detail::OwnDefaultGenerator> own;
    if (seed) own.emplace(*seed, device);
    auto const ones = torch::ones({1'000}, device);
    for (int i = 0; i < 3; ++i) {
      drawn.push_back(torch::dropout(ones, 0.5, true));
      drawn.push_back(torch::bernoulli(ones / 2));
      drawn.push_back(torch::rand({100}, device));
      drawn.push_back(torch::randperm(100, torch::TensorOptions{torch::kLong}.device(device)));
    }
  }}.join();
  return drawn;
}

}  // namespace

TEST_CASE("on a GPU a batch's tensors are there, with the rows of the CPU's, bit by bit, for every batch of an epoch") {
  if (is_without_gpu()) return;
  auto const dataset = small_images(1'000);
  auto on_gpu = gpu_shard_of(dataset);
  TorchShard on_cpu{DatasetShard{dataset, ShardOptions{}}};
  BatchOptions const options{.batch_size = 64};
  Tensors expected;
  for (auto batch : on_cpu.batches(options)) expected.push_back(batch["image"]);
  Tensors given;
  for (auto batch : on_gpu.batches(options)) given.push_back(batch["image"]);
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(is_copy_of(given[i], expected[i]));
}

TEST_CASE("on a GPU batches that are let go while it computes with them are not overwritten by those behind them") {
  if (is_without_gpu()) return;
  std::size_t constexpr rows = 64;
  std::size_t constexpr columns = 1 << 16;
  std::vector<float> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / columns);
  auto shard = gpu_shard_of(Dataset::from_columns({{"x", std::move(values), {columns}}}));
  auto const slow = torch::ones({2'048, 2'048}, gpu);
  auto product = slow;
  Tensors means;
  for (auto batch : shard.batches({.batch_size = 1, .shuffle = false})) {
    auto const x = batch["x"];
    product = product.mm(slow) / 2'048;  // keeps the GPU behind the program
    means.push_back((x * product[0][0]).mean());
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    CHECK(means[i].item<float>() == doctest::Approx(static_cast<double>(i)).epsilon(1e-5));
  }
}

TEST_CASE("what map calls has the CPU's tensors, also where batches go to a GPU") {
  if (is_without_gpu()) return;
  auto shard = gpu_shard_of(small_images(10));
  auto const range = shard.batches({.batch_size = 5});
  for (auto images : range.map([](TorchBatch const& batch) { return batch["image"]; })) CHECK(images.is_cpu());
}

TEST_CASE("gradients in 16 bits travel from a device as from the CPU, bit by bit") {
  for (auto const compression : {Compression::bf16, Compression::fp16}) {
    check_on_devices(WorldSize{3}, {}, {}, exchanged_by([=] { return compressed(compression); }));
  }
}

TEST_CASE("an adaptive sum on a device is that of the CPU but for the order of sums of double") {
  Tolerance const rounding{.relative = 1e-6, .absolute = 1e-6};
  for (std::uint32_t const workers : {1U, 2U, 3U, 4U}) {
    check_on_devices(WorldSize{workers}, rounding, rounding, exchanged_by([] { return adaptive_sum(); }));
  }
}

TEST_CASE("PowerSGD on a device exchanges what it exchanges on the CPU, but for the rounding of products") {
  check_on_devices(WorldSize{2}, {}, {.relative = 1e-3, .absolute = 1e-4}, exchanged_by([] {
                     return std::make_shared<PowerSGD>(PowerSGDConfig{.rank = 2, .exact_steps = 1});
                   }));
}

TEST_CASE("a layer of SyncBatchNorm on a device is that of the CPU, but for rounding") {
  check_on_devices(WorldSize{2}, {}, {.relative = 1e-4, .absolute = 1e-5}, normalized);
}

TEST_CASE(
    "a layer of SyncBatchNorm on a GPU goes through CPU memory where the collective takes no arrays of a device") {
  if (is_without_gpu()) return;
  auto const expected = made_by_workers(WorldSize{2}, torch::kCPU, false, normalized);
  auto const made = made_by_workers(WorldSize{2}, gpu, false, normalized);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < expected[rank].size(); ++i) {
      CHECK(torch::allclose(made[rank][i], expected[rank][i], 1e-4, 1e-5));
    }
  }
}

TEST_CASE("what a thread draws follows from its own generator, also where that was made for the CPU by name") {
  CHECK(same_bits(drawn_in_thread(5, torch::kCPU), drawn_in_thread(5, torch::kCPU)));
  CHECK_FALSE(same_bits(drawn_in_thread(5, torch::kCPU), drawn_in_thread(6, torch::kCPU)));
}

TEST_CASE("on a GPU a thread with an own generator draws what LibTorch's default one would, which stays where it is") {
  if (is_without_gpu()) return;
  auto generator = at::globalContext().defaultGenerator(gpu);
  generator.set_current_seed(5);
  auto const by_default = drawn_in_thread(std::nullopt, gpu);
  generator.set_current_seed(77);
  auto const before = generator.get_state();
  CHECK(same_bits(drawn_in_thread(5, gpu), by_default));
  CHECK(torch::equal(generator.get_state(), before));
  CHECK_FALSE(same_bits(drawn_in_thread(6, gpu), by_default));
}

TEST_CASE("on a GPU threads with own generators draw at the same time what each draws alone") {
  if (is_without_gpu()) return;
  std::vector<Tensors> alone;
  for (std::uint64_t seed = 0; seed < 4; ++seed) alone.push_back(drawn_in_thread(seed, gpu));
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::vector<Tensors> together(alone.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      threads.emplace_back([&, i] { together[i] = drawn_in_thread(i, gpu); });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same_bits(together[i], alone[i]));
  }
}

TEST_CASE("on a GPU an activation checkpoint has the gradients of its function, with dropout and in bf16, bit by bit") {
  if (is_without_gpu()) return;
  auto const input = torch::arange(64, torch::TensorOptions{torch::kFloat}.device(gpu)).view({8, 8}) / 64;
  auto const compare = [&] {
    auto generator = raytrain::detail::OwnDefaultGenerator::current(gpu);
    generator.set_current_seed(3);
    auto const expected = gradient_through_dropout(input, false);
    generator.set_current_seed(3);
    auto const checkpointed = gradient_through_dropout(input, true);
    CHECK(expected.device() == gpu);
    CHECK(torch::equal(checkpointed, expected));
    CHECK(expected.abs().sum().item<float>() > 0);
  };
  compare();
  std::thread{[&] {
    run_backwards_here();
    raytrain::detail::OwnDefaultGenerator const own{9, gpu};
    compare();
  }}.join();
}

TEST_CASE("autocast of a GPU leaves the CPU's settings, and ends with it") {
  auto const cpu_before = raytrain::detail::AutocastState::of(torch::kCPU).is_enabled;
  {
    Autocast const autocast{Precision::bf16, gpu};
    CHECK(raytrain::detail::AutocastState::of(torch::kCUDA).is_enabled);
    CHECK((raytrain::detail::AutocastState::of(torch::kCUDA).type == torch::kBFloat16));
    CHECK(raytrain::detail::AutocastState::of(torch::kCPU).is_enabled == cpu_before);
  }
  CHECK_FALSE(raytrain::detail::AutocastState::of(torch::kCUDA).is_enabled);
}

TEST_CASE("nobody is advised against a precision on a GPU, whatever the processor has instructions for") {
  for (auto const precision : {Precision::bf16, Precision::fp16}) {
    CHECK_FALSE(computes_in(precision, gpu).has_value());
    CHECK_FALSE(precision_advice(precision, computes_in(precision, gpu)).has_value());
  }
  CHECK(computes_in(Precision::fp32, gpu) == true);
}

TEST_CASE("products on a GPU have the type of its autocast") {
  if (is_without_gpu()) return;
  auto const ones = torch::ones({4, 4}, gpu);
  for (auto const& [precision, type] : {std::pair{Precision::fp32, torch::kFloat},
                                        {Precision::bf16, torch::kBFloat16},
                                        {Precision::fp16, torch::kHalf}}) {
    Autocast const autocast{precision, gpu};
    CHECK((ones.mm(ones).scalar_type() == type));
  }
}

TEST_CASE("a GradScaler steps with gradients on a GPU as with the CPU's, and leaves out those that are not finite") {
  for (auto const last :
       {3.0, -1e-3, double{std::numeric_limits<float>::infinity()}, double{std::numeric_limits<float>::quiet_NaN()}}) {
    auto const [is_stepped, values] = stepped(torch::kCPU, last);
    CHECK(is_stepped == std::isfinite(last));
    if (is_without_gpu()) continue;
    auto const [is_stepped_on_gpu, values_on_gpu] = stepped(gpu, last);
    CHECK(is_stepped_on_gpu == is_stepped);
    CHECK(same_bits(values_on_gpu, values));
  }
}

TEST_CASE("a predictor on a GPU predicts what one on the CPU does within 1e-5, for rows of either, where these are") {
  if (is_without_gpu()) return;
  torch::manual_seed(1);
  torch::nn::Linear const model{16, 4};
  auto const rows = torch::randn({100, 16});
  auto const expected = TorchPredictor{model}.predict(rows);
  TorchPredictor const on_gpu{model, {.batch_size = 32, .device = gpu}};
  auto const predicted = on_gpu.predict(rows);
  CHECK(predicted.is_cpu());
  CHECK(torch::allclose(predicted, expected, 1e-5, 1e-5));
  CHECK(on_gpu.predict(rows.to(gpu)).device() == gpu);
}

TEST_CASE("a predictor for a device that is not there is refused, and the message says what to write") {
  auto const device = torch::Device{torch::kCUDA, 99};
  auto const text = thrown_error([&] { return TorchPredictor{torch::nn::Linear{2, 2}, {.device = device}}; });
  for (auto const* const part :
       {"invalid_config", "TorchPredictorOptions::device", "cuda:99", "write {.device = torch::kCPU}"}) {
    check_contains(text, part);
  }
}
