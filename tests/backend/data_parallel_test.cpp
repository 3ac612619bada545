// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "torch_run.hpp"

namespace {

using namespace raytrain;

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{64, 32});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{32, 10});
  auto forward(torch::Tensor const& x) -> torch::Tensor { return second(torch::relu(first(x.flatten(1)))); }
};
TORCH_MODULE(Mlp);

struct ConvNet : torch::nn::Module {
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d{torch::nn::Conv2dOptions{1, 4, 3}});
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d{torch::nn::Conv2dOptions{4, 8, 3}});
  torch::nn::Linear third = register_module("third", torch::nn::Linear{128, 10});
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    return third(torch::relu(second(torch::relu(first(x.unsqueeze(1))))).flatten(1));
  }
};

struct Outcome {
  std::vector<Tensors> parameters;  // by rank
};

/// Trains for two epochs at a global batch of 128 and gives every rank's parameters.
template <class Net>
auto train_small(int workers, std::uint64_t seed) -> Outcome {
  Outcome outcome{std::vector<Tensors>(static_cast<std::size_t>(workers))};
  run_once({workers, seed, {{"train", small_images(512)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.05}.momentum(0.9)};
    auto shard = ctx.dataset_shard("train");
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto batch : shard.batches({.batch_size = 128 / workers, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const images = batch["image"].to(torch::kFloat) / 255;
        torch::nn::functional::cross_entropy(model->forward(images), batch["label"].to(torch::kLong)).backward();
        optimizer.step();
      }
    }
    outcome.parameters[ctx.world_rank().value] = copies(model->parameters());
  });
  return outcome;
}

auto check_close(Tensors const& left, Tensors const& right) {
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i < left.size(); ++i) CHECK(torch::allclose(left[i], right[i], 1e-4, 1e-6));
}

struct Branches : torch::nn::Module {
  torch::nn::Linear both = register_module("both", torch::nn::Linear{2, 1});
  torch::nn::Linear one = register_module("one", torch::nn::Linear{2, 1});
  torch::nn::Linear none = register_module("none", torch::nn::Linear{2, 1});
};

/// One weight whose gradient is the mean of the inputs.
struct WeightImpl : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::zeros({4}));
  auto forward(torch::Tensor const& x) -> torch::Tensor { return (w * x).sum(); }
};
TORCH_MODULE(Weight);

auto filled(double value) -> torch::Tensor { return torch::full({4}, value); }

/// Fails in backward while `armed`.
struct Trap : torch::autograd::Function<Trap> {
  static inline thread_local bool armed = false;
  static auto forward(torch::autograd::AutogradContext*, torch::Tensor const& x) -> torch::Tensor { return x.clone(); }
  static auto backward(torch::autograd::AutogradContext*, torch::autograd::variable_list gradients)
      -> torch::autograd::variable_list {
    if (armed) throw std::runtime_error{"trap"};
    return gradients;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("two workers with batch 64 reach the parameters of one with batch 128 up to rounding", Net, Mlp,
                   ConvNet) {
  auto const one = train_small<Net>(1, 7);
  auto const two = train_small<Net>(2, 7);
  CHECK(same_bits(two.parameters[0], two.parameters[1]));
  check_close(one.parameters[0], two.parameters[0]);
}

TEST_CASE_TEMPLATE("the same seed gives the same bits on every run, and another seed gives others", Net, Mlp, ConvNet) {
  for (int const workers : {2, 3}) {
    auto const first = train_small<Net>(workers, 11);
    for (int run = 0; run < 4; ++run) {
      auto const again = train_small<Net>(workers, 11);
      for (auto const& parameters : again.parameters) CHECK(same_bits(parameters, first.parameters[0]));
    }
    CHECK_FALSE(same_bits(train_small<Net>(workers, 12).parameters[0], first.parameters[0]));
  }
}

TEST_CASE("one worker draws the same numbers in every run of a seed, with or without a factory for its model") {
  auto const drawn = [](std::uint64_t seed) {
    Tensors numbers;
    run_once({.workers = 1, .seed = seed}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model(torch::nn::Linear{5, 3});
      numbers = copies({model->weight, torch::rand({4})});
    });
    return numbers;
  };
  auto const first = drawn(11);
  CHECK(same_bits(drawn(11), first));
  CHECK_FALSE(same_bits(drawn(12), first));
}

TEST_CASE("a model that differs between ranks becomes rank 0's, buffers included") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    torch::nn::BatchNorm1d own{40'000};  // parameters of 160 kB travel in place, the counter packed
    torch::nn::init::constant_(own->weight, ctx.world_rank().value + 1.0);
    own->running_mean.fill_(ctx.world_rank().value + 10.0);
    own->num_batches_tracked.fill_(static_cast<std::int64_t>(ctx.world_rank().value) + 100);
    auto const model = ctx.prepare_model(own);
    CHECK(torch::equal(model->weight, torch::full({40'000}, 1.0)));
    CHECK(torch::equal(model->running_mean, torch::full({40'000}, 10.0)));
    CHECK(model->num_batches_tracked.item<std::int64_t>() == 100);
  });
}

TEST_CASE("gradients are averaged when backward ends, in one piece of memory that every zero_grad leaves in use") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mlp{}; });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    auto const backward = [&] {
      model->forward(torch::full({1, 64}, ctx.world_rank().value + 1.0)).sum().backward();
      std::vector<void*> places;
      for (auto const& parameter : model->parameters()) places.push_back(parameter.grad().data_ptr());
      return places;
    };
    auto const places = backward();
    auto const expected = copies({model->second->bias.grad(), model->first->weight.grad()});
    CHECK(torch::equal(expected[0], torch::ones({10})));
    auto const [first, last] = std::ranges::minmax(places);
    CHECK(static_cast<char*>(last) - static_cast<char*>(first) < (64 * 32 + 32 + 320 + 64) * 4);
    for (auto* const place : places) CHECK(reinterpret_cast<std::uintptr_t>(place) % 64 == 0);

    auto const check_again = [&] {
      CHECK(backward() == places);
      CHECK(same_bits({model->second->bias.grad(), model->first->weight.grad()}, expected));
    };
    optimizer.zero_grad();
    check_again();
    model->zero_grad(true);
    CHECK_FALSE(model->second->bias.grad().defined());
    check_again();
    model->zero_grad(false);
    CHECK(model->second->bias.grad().sum().item<float>() == 0);
    check_again();

    optimizer.zero_grad();
    model->second->bias.mutable_grad() = torch::full({10}, 5.0);  // somebody else's tensor
    CHECK(backward() == places);
    CHECK(torch::equal(model->second->bias.grad(), torch::full({10}, 6.0)));
  });
}

TEST_CASE("gradients of several backwards add up as they would in one process") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    auto const rank = ctx.world_rank().value;
    model(filled(rank == 0 ? 1 : 3)).backward();
    CHECK(torch::equal(model->w.grad(), filled(2)));
    model(filled(rank == 0 ? 10 : 30)).backward();
    CHECK(torch::equal(model->w.grad(), filled(22)));
  });
}

TEST_CASE("a parameter that one rank uses is averaged with zeros, and one that none uses gets no gradient") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Branches{}; });
    auto const x = torch::ones({1, 2});
    for (int step = 0; step < 3; ++step) {
      model->zero_grad(step == 1);
      auto loss = model->both(x).sum();
      if (ctx.world_rank() == Rank{1}) loss = loss + 4 * model->one(x).sum();
      loss.backward();
      CHECK(torch::equal(model->both->weight.grad(), torch::ones({1, 2})));
      CHECK(torch::equal(model->one->weight.grad(), torch::full({1, 2}, 2.0)));
      CHECK_FALSE(model->none->weight.grad().defined());
    }
    // What an earlier backward used counts no more.
    model->zero_grad(true);
    model->both(x).sum().backward();
    CHECK_FALSE(model->one->weight.grad().defined());
  });
}

TEST_CASE("gradients in float and double are both averaged, and frozen parameters are left alone") {
  struct Mixed : torch::nn::Module {
    torch::Tensor single = register_parameter("single", torch::zeros({3}));
    torch::Tensor twice = register_parameter("twice", torch::zeros({3}, torch::kDouble));
    torch::Tensor frozen = register_parameter("frozen", torch::zeros({3}, torch::kHalf), false);
  };
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mixed{}; });
    auto const rank = ctx.world_rank().value;
    (model->single.sum() * (rank + 1.0) + model->twice.sum() * (rank + 3.0)).backward();
    CHECK(torch::equal(model->single.grad(), torch::full({3}, 1.5)));
    CHECK(torch::equal(model->twice.grad(), torch::full({3}, 3.5, torch::kDouble)));
    CHECK_FALSE(model->frozen.grad().defined());
  });
}

TEST_CASE("two models are averaged apart, one backward through both included") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto first = ctx.prepare_model([] { return Weight{}; });
    auto second = ctx.prepare_model(std::make_shared<WeightImpl>());
    auto const x = filled(ctx.world_rank().value);
    first(x).backward();
    CHECK(torch::equal(first->w.grad(), filled(0.5)));
    CHECK_FALSE(second->w.grad().defined());
    (first(x) + second->forward(x) * 2).backward();
    CHECK(torch::equal(first->w.grad(), filled(1)));
    CHECK(torch::equal(second->w.grad(), filled(1)));
  });
}

TEST_CASE("models built one after the other from one seed differ") {
  run_once({.workers = 1}, [](TorchContext& ctx) {
    auto const first = ctx.prepare_model([] { return Mlp{}; });
    auto const second = ctx.prepare_model([] { return Mlp{}; });
    CHECK_FALSE(torch::equal(first->first->weight, second->first->weight));
  });
}

TEST_CASE("running statistics are rank 0's everywhere when backward has ended") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::BatchNorm1d{3}; });
    for (int step = 1; step <= 3; ++step) {
      model(torch::arange(12, torch::kFloat).view({4, 3}) * (ctx.world_rank().value + 1.0)).pow(2).sum().backward();
      auto mean = model->running_mean.clone();
      CHECK(mean[0].item<float>() == doctest::Approx(4.5 * (1 - std::pow(0.9, step))));
      CHECK(model->num_batches_tracked.item<std::int64_t>() == step);
    }
  });
}

TEST_CASE("two forwards with running statistics may come before their backwards, on every rank") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::BatchNorm1d{3}; });
    auto const rows = torch::arange(12, torch::kFloat).view({4, 3}) * (ctx.world_rank().value + 1.0);
    auto const first = model(rows).pow(2).sum();
    auto const second = model(rows + 1).pow(2).sum();
    first.backward();
    second.backward();
    CHECK(model->num_batches_tracked.item<std::int64_t>() == 2);
    auto mean = model->running_mean.clone();
    CHECK(mean[0].item<float>() == doctest::Approx(0.1 * 4.5 * 0.9 + 0.1 * 5.5));  // rank 0's
  });
}

TEST_CASE("a backward that failed half way does not keep the next one from being averaged") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Branches{}; });
    auto const x = torch::full({1, 2}, ctx.world_rank().value + 1.0);
    auto const backward = [&] {
      auto const late = Trap::apply(model->one->weight).sum();  // made first, so its gradient comes last
      (late + model->both(x).sum()).backward();
    };
    Trap::armed = true;
    CHECK_THROWS_WITH_AS(backward(), doctest::Contains("trap"), std::runtime_error);
    CHECK(torch::equal(model->both->weight.grad(), x));
    Trap::armed = false;
    model->zero_grad(true);
    backward();
    CHECK(torch::equal(model->both->weight.grad(), torch::full({1, 2}, 1.5)));
  });
}

TEST_CASE("a worker that fails ends the others inside backward, and its own text is reported") {
  auto const train = [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    if (ctx.world_rank() == Rank{1}) throw std::out_of_range{"no such row"};
    CHECK_THROWS_AS(model(filled(1)).backward(), Stopped);
    throw Stopped{};
  };
  try {
    run_once({.workers = 2}, train);
    FAIL("must throw");
  } catch (TrainingFailed const& failed) {
    REQUIRE(failed.failures().size() == 1);
    CHECK(failed.failures()[0].rank == Rank{1});
    CHECK(failed.failures()[0].text() == "no such row");
  }
}

TEST_CASE("workers that failed in the middle and were started again reach the bits of undisturbed ones") {
  std::vector<Tensors> reached;
  for (auto const fails : {false, true}) {
    TemporaryFolder const folder;
    Tensors parameters;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Mlp{}; });
      torch::optim::Adam optimizer{model->parameters(), 1e-3};
      auto shard = ctx.dataset_shard("train");
      for (auto epoch = ctx.restore(model, optimizer); epoch < 4; ++epoch) {
        for (auto batch : shard.batches({.batch_size = 64, .epoch = epoch})) {
          optimizer.zero_grad();
          auto const images = batch["image"].to(torch::kFloat) / 255;
          torch::nn::functional::cross_entropy(model(images), batch["label"].to(torch::kLong)).backward();
          optimizer.step();
          if (fails && ctx.attempt() == Attempt{1} && epoch == 2 && ctx.world_rank() == Rank{1}) {
            throw std::out_of_range{"no such row"};
          }
        }
        ctx.report(Epoch{epoch, 0}, save(model, optimizer));
      }
      if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
    };
    Trainer<TorchBackend> trainer{
        train,
        {.scaling = {.num_workers = 2},
         .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 1}},
         .datasets = {{"train", small_images(512)}}}};
    CHECK(trainer.fit().attempts.size() == (fails ? 2U : 1U));
    reached.push_back(parameters);
  }
  CHECK(same_bits(reached[0], reached[1]));
}

TEST_CASE("gradients that cannot be averaged are refused, naming the parameter") {
  auto const complex = [](TorchContext& ctx) {
    auto model = torch::nn::Linear{2, 2};
    model->to(torch::kComplexFloat);
    (void)ctx.prepare_model(model);
  };
  CHECK_THROWS_WITH_AS(run_once({}, complex), doctest::Contains("parameter 'weight' is ComplexFloat on cpu"),
                       TrainingFailed);

  auto const changed = [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    model->to(torch::kDouble);
    model(filled(1)).backward();
  };
  CHECK_THROWS_WITH_AS(run_once({}, changed), doctest::Contains("parameter 'w' has another shape, type or device"),
                       TrainingFailed);
}

TEST_CASE("sparse gradients are averaged as dense ones") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Embedding{torch::nn::EmbeddingOptions{2, 3}.sparse(true)}; });
    model(torch::full({1}, static_cast<std::int64_t>(ctx.world_rank().value))).sum().backward();
    CHECK(torch::equal(model->weight.grad(), torch::full({2, 3}, 0.5)));
  });
}

TEST_CASE("a model outlives its averaging: gradients stay readable, and later backwards are the caller's own") {
  Weight kept{nullptr};
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    model(filled(ctx.world_rank().value)).backward();
    if (ctx.world_rank() == Rank{0}) kept = model;
  });
  CHECK(torch::equal(kept->w.grad(), filled(0.5)));
  kept(filled(7)).backward();
  CHECK(torch::equal(kept->w.grad(), filled(7.5)));
}

TEST_CASE("a worker has its own threads and random numbers, and fit() restores the thread count") {
  auto const before = at::get_num_threads();
  std::array<std::array<torch::Tensor, 2>, 2> drawn;
  for (auto& of_run : drawn) {
    run_once({.workers = 2, .cpus = before + 2}, [&](TorchContext& ctx) {
      CHECK(at::get_num_threads() == before + 2);
      CHECK(ctx.device().is_cpu());
      of_run[ctx.world_rank().value] = torch::rand({8}, ctx.generator());
    });
  }
  CHECK(at::get_num_threads() == before);
  int threads_of_new_thread = 0;
  std::thread{[&] { threads_of_new_thread = at::get_num_threads(); }}.join();
  CHECK(threads_of_new_thread == before);
  CHECK(torch::equal(drawn[0][0], drawn[1][0]));
  CHECK(torch::equal(drawn[0][1], drawn[1][1]));
  CHECK_FALSE(torch::equal(drawn[0][0], drawn[0][1]));
}

TEST_CASE("a factory is called by one worker at a time") {
  std::atomic<int> inside{0};
  run_once({.workers = 4}, [&](TorchContext& ctx) {
    (void)ctx.prepare_model([&] {
      CHECK(inside.fetch_add(1) == 0);
      auto built = Mlp{};
      CHECK(inside.fetch_sub(1) == 1);
      return built;
    });
  });
}

TEST_CASE("more threads than cores are a warning with the remedy, once") {
  auto const result = run_once({.workers = 300}, [](TorchContext&) {});
  auto const count = std::ranges::count_if(
      result.warnings, [](std::string const& text) { return text.find(".num_workers = ") != std::string::npos; });
  CHECK(count == 1);
}

TEST_CASE("a mistake in a shape is reported with LibTorch's text and without its stack") {
  try {
    (void)run_once({}, [](TorchContext&) { (void)torch::mm(torch::ones({2, 3}), torch::ones({2, 3})); });
    FAIL("must throw");
  } catch (TrainingFailed const& failure) {
    CHECK(std::string{failure.what()}.find("cannot be multiplied") != std::string::npos);
    CHECK(std::string{failure.what()}.find("frame #") == std::string::npos);
  }
}

TEST_CASE("a model that registers none of its layers is warned of once, and one that does is not") {
  struct Forgetful : torch::nn::Module {
    torch::nn::Linear layer{2, 2};
  };
  struct Careful : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear{2, 2});
  };
  for (auto const workers : {1, 2}) {
    CAPTURE(workers);
    auto const result = run_once({.workers = workers}, [](TorchContext& ctx) {
      auto const careful = ctx.prepare_model([] { return Careful{}; });
      auto const forgetful = ctx.prepare_model([] { return Forgetful{}; });
      auto const local = ctx.prepare_local_model([] { return Forgetful{}; });
      CHECK(careful->parameters().size() == 2);
      CHECK(forgetful->parameters().empty());
      CHECK(local->parameters().empty());
    });
    CHECK(warnings_with(result, "model 1 has no parameter") == 0);
    CHECK(warnings_with(result,
                        "model 2 has no parameter, and no buffer, so that nothing of it is trained or saved; if it has "
                        "layers, give "
                        "each to register_module() in its constructor") == 1);
    CHECK(warnings_with(result, "model 3 has no parameter") == 1);
  }
}
