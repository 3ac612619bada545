// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/data/dataset.hpp>

#include "torch_run.hpp"

namespace {

using namespace raytrain;

/// One weight whose gradient is the mean of the inputs.
struct MeanImpl : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::zeros({4}));
  auto forward(torch::Tensor const& x) -> torch::Tensor { return (w * x).sum(); }
};
TORCH_MODULE(Mean);

auto all(double value) -> torch::Tensor { return torch::full({4}, value); }

/// What the only failure of a run says; empty for a run that succeeds.
auto failure_in(TrainTorch const& train, RunSetup const& setup = {}) -> std::string {
  try {
    run_once(setup, train);
  } catch (TrainingFailed const& failed) {
    return failed.what();
  }
  return {};
}

/// What a rank has asked of its collective.
struct Asked {
  std::vector<std::string> calls;                             ///< As "broadcast 24", in bytes.
  std::vector<std::pair<std::byte const*, std::size_t>> own;  ///< Memory that it has allocated there.
  bool all_reduced_own = true;                                ///< No other memory was summed.
};

/// A collective that notes what it is asked.
class NotingCollective final : public Collective {
 public:
  NotingCollective(Collective& inner, Asked& asked) : inner_{inner}, asked_{asked} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return inner_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return inner_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return inner_.stop_agreed(); }
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> override {
    auto memory = inner_.allocate_zeros(size_bytes);
    asked_.own.emplace_back(static_cast<std::byte const*>(memory.get()), size_bytes);
    return memory;
  }
  [[nodiscard]] auto start(Task const& task) -> Pending override {
    bool const sums = task.call.operation == Operation::all_reduce;
    asked_.calls.push_back((sums ? "all_reduce " : "broadcast ") + std::to_string(task.to.size()));
    if (sums) {
      bool is_own = false;
      for (auto const& [begin, size] : asked_.own) {
        is_own = is_own || (task.from.data() >= begin && task.from.data() + task.from.size() <= begin + size);
      }
      asked_.all_reduced_own = asked_.all_reduced_own && is_own;
    }
    return inner_.start(task);
  }

 private:
  Collective& inner_;
  Asked& asked_;
};

void check_says(std::string const& text, std::string const& part) {
  CAPTURE(text);
  CHECK_MESSAGE(text.find(part) != std::string::npos, "without: " << part);
}

/// Takes six steps, of input 1 to 6, but for those that the rank leaves out as a whole; gives the weight of each rank.
auto weights_without(std::array<std::vector<int>, 2> const& left_out, Tensors& weights) -> TrainTorch {
  weights.resize(2);
  return [&weights, left_out](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_model([] { return Mean{}; });
    torch::optim::SGD optimizer{model->parameters(), 1.0};
    for (int step = 1; step <= 6; ++step) {
      if (std::ranges::count(left_out[rank], step) > 0) continue;
      optimizer.zero_grad();
      model(all(step)).backward();
      optimizer.step();
    }
    ctx.report(Epoch{0, 0.0});
    weights[rank] = model->w.detach();
  };
}

}  // namespace

TEST_CASE(
    "a rank that takes fewer steps on data of the program's own than another is refused, wherever it left one out") {
  Tensors weights;
  for (int const step : {1, 3, 6}) {
    CAPTURE(step);
    auto const text = failure_in(weights_without({std::vector<int>{}, std::vector{step}}, weights));
    check_says(text,
               "rank 1 has ended while rank 0 waits in all_reduce(20 x float32, average) for backward 6 of model 1");
    check_says(text, "make every rank call the same operations, as often");
  }
}

TEST_CASE("as many steps on every rank are averaged in their order, as they are when nobody leaves one out") {
  Tensors weights;
  auto const result = run_once({}, weights_without({std::vector{2}, std::vector{5}}, weights));
  // 1 with 1, 3 with 2, 4 with 3, 5 with 4, 6 with 6.
  CHECK(same_bits(weights, {all(-17.5), all(-17.5)}));
  CHECK(warnings_with(result, "parameters") == 0);
}

TEST_CASE("a rank that leaves out the last step of an epoch is told when another rank reaches their next collective") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    for (int step = 0; step < 3; ++step) {
      if (step < 2 || ctx.world_rank() == Rank{0}) model(all(step)).backward();
    }
    ctx.barrier();
  });
  check_says(text, "rank 0 calls all_reduce(20 x float32, average) for backward 3 of model 1");
  check_says(text, "but rank 1 calls barrier(); make every rank run the same backwards in the same order");
}

TEST_CASE("two models of one size that ranks use in another order are refused, and the error names both") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto first = ctx.prepare_model([] { return Mean{}; });
    auto second = ctx.prepare_model([] { return Mean{}; });
    auto& now = ctx.world_rank() == Rank{0} ? first : second;
    auto& then = ctx.world_rank() == Rank{0} ? second : first;
    now(all(1)).backward();
    then(all(2)).backward();
  });
  check_says(text, "rank 0 calls all_reduce(20 x float32, average) for backward 1 of model 1 (");
  check_says(text, "but rank 1 calls all_reduce(20 x float32, average) for backward 1 of model 2 (");
  check_says(text, "make every rank run the same backwards in the same order");
}

TEST_CASE(
    "ranks whose parameters drift apart, since each leaves out a backward and steps all the same, are warned of") {
  auto const train = [](bool leaves_out) {
    return run_once({}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Mean{}; });
      torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
      for (int step = 0; step < 6; ++step) {
        model->zero_grad(false);
        auto const loss = model(all(step + 1));
        if (!leaves_out || step != (ctx.world_rank() == Rank{0} ? 2 : 4)) loss.backward();
        optimizer.step();
      }
    });
  };
  CHECK(warnings_with(train(false), "parameters") == 0);
  CHECK(warnings_with(train(true),
                      "the parameters of model 1 are not the same on every rank in its backward 3; change "
                      "them on every rank alike") == 1);
}

TEST_CASE("ranks that leave out a batch each are refused, and the error names how far each is in the data") {
  auto const train = [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    auto shard = ctx.dataset_shard("train");
    std::int64_t step = 0;
    for (auto batch : shard.batches({.batch_size = 8})) {
      if (step++ == (ctx.world_rank() == Rank{0} ? 1 : 2)) continue;
      model(all(static_cast<double>(batch.size()))).backward();
    }
  };
  auto const text = failure_in(train, {.datasets = {{"train", small_images(64)}}});
  check_says(text, "(after 48 samples of epoch 0), but rank 1 calls");
  check_says(text, "(after 32 samples of epoch 0)");
}

TEST_CASE("ranks whose batches have other sizes are refused in their first backward, and told to make them alike") {
  auto const train = [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    for (auto batch : ctx.dataset_shard("train").batches({.batch_size = ctx.world_rank() == Rank{0} ? 4 : 8}))
      model(all(static_cast<double>(batch.size()))).backward();
  };
  auto const text = failure_in(train, {.datasets = {{"train", small_images(64)}}});
  check_says(text, "(after 8 samples of epoch 0), but rank 1 calls");
  check_says(text, "(after 16 samples of epoch 0)");
  check_says(text, "on as many batches of one size");
}

TEST_CASE("a rank may look at other data and take a training epoch's data of its own between two epochs") {
  run_once({.datasets = {{"train", small_images(64)}, {"valid", small_images(32)}}}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    auto shard = ctx.dataset_shard("train");
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
        if (ctx.world_rank() == Rank{0}) {
          for (auto other : ctx.dataset_shard("valid").batches({.batch_size = 8})) (void)other;
        }
        model(all(static_cast<double>(batch.size()))).backward();
      }
      if (ctx.world_rank() == Rank{0}) {
        for (auto again : ctx.dataset_shard("train").batches({.batch_size = 8, .shuffle = false})) (void)again;
      }
    }
    CHECK(torch::equal(model->w.grad(), all(64)));
  });
}

TEST_CASE("a caller's own sum is not mistaken for an averaging of the same size") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    if (ctx.world_rank() == Rank{0}) return model(all(1)).backward();
    std::vector<float> own(20);
    ctx.collective().all_reduce(std::span{own}, ReduceOp::average);
  });
  check_says(text, "for backward 1 of model 1 (");
  check_says(text, "but rank 1 calls all_reduce(20 x float32, average);");
}

TEST_CASE("a parameter that is unfrozen after prepare_model is refused by name, with the remedy") {
  struct Frozen : torch::nn::Module {
    torch::nn::Linear body = register_module("body", torch::nn::Linear{2, 2});
    torch::nn::Linear head = register_module("head", torch::nn::Linear{2, 1});
  };
  auto const prepare = [](TorchContext& ctx) {
    return ctx.prepare_model([] {
      Frozen net;
      for (auto& parameter : net.body->parameters()) parameter.requires_grad_(false);
      return net;
    });
  };
  auto const text = failure_in([&](TorchContext& ctx) {
    auto model = prepare(ctx);
    model->head(model->body(torch::ones({1, 2}))).sum().backward();
    model->body->weight.requires_grad_(true);
    model->head(model->body(torch::ones({1, 2}))).sum().backward();
  });
  check_says(text, "parameter 'body.weight' wants a gradient since the model was prepared");
  check_says(text, "call prepare_model() again with this model");

  run_once({}, [&](TorchContext& ctx) {
    auto model = prepare(ctx);
    model->body->weight.requires_grad_(true);
    model = ctx.prepare_model(model);
    model->head(model->body(torch::ones({1, 2}) * (ctx.world_rank().value + 1.0))).sum().backward();
    CHECK(torch::equal(model->head->bias.grad(), torch::ones({1})));
    auto const expected = (model->head->weight.t() * 1.5).expand({2, 2});
    CHECK(torch::allclose(model->body->weight.grad(), expected));
  });
}

TEST_CASE("a module that is registered after prepare_model is refused, when it is reported at the latest") {
  struct Grows : torch::nn::Module {
    torch::nn::Linear body = register_module("body", torch::nn::Linear{2, 2});
  };
  auto const grow_and = [](auto const& use) {
    return failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Grows{}; });
      torch::nn::Linear head = model->register_module("head", torch::nn::Linear{2, 1});
      use(ctx, model->body, head);
    });
  };
  auto const x = torch::ones({1, 2});
  auto const expected = "parameter 'head.weight' wants a gradient since the model was prepared";
  check_says(grow_and([&](auto&, auto& body, auto& head) { head(body(x)).sum().backward(); }), expected);
  check_says(grow_and([&](auto& ctx, auto&, auto& head) {
               head(x).sum().backward();
               ctx.report(Epoch{0, 1.0});
             }),
             expected);
}

TEST_CASE("a buffer that is registered after prepare_model is refused when it is reported, unless none is shared") {
  auto const grow_and_report = [](ModelOptions const& options) {
    return failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::BatchNorm1d{2}; }, options);
      ctx.report(Epoch{0, 1.0});
      model->register_buffer("seen", torch::zeros({1}));
      ctx.report(Epoch{1, 1.0});
    });
  };
  check_says(grow_and_report({}),
             "sharing buffers: buffer 'seen' was registered since the model was prepared, and each rank would keep its "
             "own; call prepare_model() again with this model after such a change");
  CHECK(grow_and_report({.broadcast_buffers = false}).empty());
}

TEST_CASE("a buffer whose size only one rank has changed is refused, however small") {
  for (auto const numbers : {3, 4, 5}) {
    CAPTURE(numbers);
    auto const text = failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::BatchNorm1d{2}; });
      if (ctx.world_rank() == Rank{1}) model->running_mean.resize_({numbers});
      model->running_mean.fill_(static_cast<double>(ctx.world_rank().value));
      (model->weight.sum() + model->bias.sum()).backward();
    });
    check_says(text, "collective call: rank 0 calls broadcast(24 x uint8, root 0) for backward 1 of model 1");
  }
}

TEST_CASE("a gradient that was kept stays what it was when the next one is computed in another place") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    auto const rank = ctx.world_rank().value;
    model(all(1 + rank)).backward();
    auto const kept = model->w.grad();
    auto const part = model->w.grad().view({2, 2})[1];
    model->zero_grad(true);
    model(all(10 + rank)).backward();
    CHECK(torch::equal(kept, all(1.5)));
    CHECK(torch::equal(part, torch::full({2}, 1.5)));
    CHECK(torch::equal(model->w.grad(), all(10.5)));

    model->w.mutable_grad() = all(100);
    auto const replaced = model->w.grad();
    model(all(10 + rank)).backward();
    CHECK(torch::equal(model->w.grad(), all(110.5)));
    auto const last = model->w.grad();
    model->zero_grad(true);
    CHECK(torch::equal(last, all(110.5)));
  });
}

TEST_CASE("a gradient that was kept stays what it was when no rank computes another") {
  struct Branches : torch::nn::Module {
    torch::nn::Linear one = register_module("one", torch::nn::Linear{2, 1});
    torch::nn::Linear two = register_module("two", torch::nn::Linear{2, 1});
  };
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Branches{}; });
    auto const x = torch::ones({1, 2});
    (model->one(x) + model->two(x)).sum().backward();
    auto const kept = model->two->weight.grad();
    model->zero_grad(true);
    model->one(x).sum().backward();
    CHECK(torch::equal(kept, torch::ones({1, 2})));
    CHECK_FALSE(model->two->weight.grad().defined());
  });
}

TEST_CASE("backward with create_graph is refused, since averaged gradients have no graph") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    model(model->w * all(2)).backward({}, true, true);
  });
  check_says(text,
             "parameter 'w': backward with create_graph makes a graph, which the average of all ranks would lose");
  check_says(text, "torch::autograd::grad");
}

TEST_CASE("torch::autograd::grad exchanges nothing and touches no gradient; a backward through it is averaged") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mean{}; });
    auto const rank = ctx.world_rank().value;
    model(all(1 + rank)).backward();
    if (rank == 0) {
      auto const own = torch::autograd::grad({model(all(7))}, {model->w});
      CHECK(torch::equal(own[0], all(7)));
    }
    CHECK(torch::equal(model->w.grad(), all(1.5)));

    model->zero_grad(true);
    auto const square = (model->w + 1).pow(2).sum() * (1.0 + rank);
    auto const slope = torch::autograd::grad({square}, {model->w}, {}, true, true)[0];
    CHECK_FALSE(model->w.grad().defined());
    slope.sum().backward();
    CHECK(torch::equal(model->w.grad(), all(3)));
  });
}

TEST_CASE("a backward into chosen parameters is averaged for these, and leaves the others alone") {
  struct Two : torch::nn::Module {
    torch::Tensor v = register_parameter("v", torch::zeros({4}));
    torch::Tensor w = register_parameter("w", torch::zeros({4}));
  };
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Two{}; });
    auto const rank = ctx.world_rank().value;
    auto const loss = ((model->v + model->w) * all(1 + rank)).sum();
    // Both ranks call it, so that an exchange would succeed.
    auto const own = torch::autograd::grad({loss}, {model->v, model->w}, {}, true);
    CHECK(same_bits(own, {all(1 + rank), all(1 + rank)}));
    CHECK_FALSE(model->w.grad().defined());
    loss.backward({}, false, false, {{model->w}});
    CHECK(torch::equal(model->w.grad(), all(1.5)));
    CHECK_FALSE(model->v.grad().defined());
  });
}

TEST_CASE("a buffer is sent after a backward only when a rank has changed it, a large one also with its submodule") {
  struct Buffered : torch::nn::Module {
    torch::Tensor w = register_parameter("w", torch::zeros({4}));
    torch::Tensor constant = register_buffer("constant", torch::ones({40'000}));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{20'000});
  };
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  std::vector<std::jthread> workers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      Asked asked;
      LocalCollective local{group, Rank{rank}};
      NotingCollective collective{local, asked};
      auto const module = std::make_shared<Buffered>();
      raytrain::detail::GradientAverager const averager{
          *module,
          1,
          {.collective = collective,
           .worker_step = std::make_shared<raytrain::detail::WorkerStep>(),
           .warn = [](std::string const&) {}}};
      auto const backward = [&] {
        asked.calls.clear();
        (module->w * all(1)).sum().backward();
        return asked.calls;
      };
      using Calls = std::vector<std::string>;
      auto const sum = "all_reduce " + std::to_string(4 * (16 + 2 * 20'000 + 3 + 4 + 3));
      Calls const no_buffer{sum};
      CHECK(backward() == no_buffer);
      if (rank == 1) module->norm(torch::rand({2, 20'000}));
      CHECK(backward() == Calls{sum, "broadcast 80000", "broadcast 80000", "broadcast 24"});
      CHECK(torch::equal(module->norm->running_mean, torch::zeros({20'000})));
      CHECK(module->norm->num_batches_tracked.item<std::int64_t>() == 0);
      CHECK(backward() == no_buffer);
      module->constant.set_data(torch::full({40'000}, rank + 2.0));
      CHECK(backward() == Calls{sum, "broadcast 160000"});
      CHECK(torch::equal(module->constant, torch::full({40'000}, 2.0)));
      CHECK(backward() == no_buffer);
      // A change that LibTorch does not count.
      if (rank == 1) *module->norm->num_batches_tracked.data_ptr<std::int64_t>() = 7;
      CHECK(backward() == Calls{sum, "broadcast 24"});
      CHECK(module->norm->num_batches_tracked.item<std::int64_t>() == 0);
      CHECK(backward() == no_buffer);
      CHECK(asked.all_reduced_own);
    });
  }
}

TEST_CASE(
    "a window of four backwards is exchanged by one all_reduce and one broadcast of statistics, in its last one") {
  struct Normed : torch::nn::Module {
    torch::Tensor w = register_parameter("w", torch::zeros({4}));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{2});
  };
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  std::vector<std::jthread> workers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      Asked asked;
      LocalCollective local{group, Rank{rank}};
      NotingCollective collective{local, asked};
      auto const module = std::make_shared<Normed>();
      auto const worker_step = std::make_shared<raytrain::detail::WorkerStep>();
      raytrain::detail::GradientAverager const averager{
          *module, 1, {.collective = collective, .worker_step = worker_step, .warn = [](std::string const&) {}}};
      asked.calls.clear();
      for (int backward = 1; backward <= 8; ++backward) {
        (void)worker_step->window.add(4, 0, false);
        (module->norm(torch::rand({3, 2})).sum() + (module->w * all(backward)).sum()).backward();
        using Calls = std::vector<std::string>;
        auto const sum = "all_reduce " + std::to_string(4 * (16 + 2 * 16 + 3 + 3 + 3));
        CHECK(asked.calls == (backward % 4 == 0 ? Calls{sum, "broadcast 72"} : Calls{}));
        if (backward % 4 == 0) asked.calls.clear();
        CHECK(module->norm->num_batches_tracked.item<std::int64_t>() == backward);
      }
      CHECK(torch::equal(module->w.grad(), all(2.5 + 6.5)));
      CHECK(asked.all_reduced_own);
    });
  }
}

TEST_CASE("models that nobody has any more are let go of when the next one is prepared, but not a parameter in use") {
  struct Counted : torch::nn::Module {
    explicit Counted(int& freed) {
      auto const free = [&freed](void* values) {
        delete[] static_cast<float*>(values);
        ++freed;
      };
      w = register_parameter("w", torch::from_blob(new float[4]{}, {4}, free));
    }
    torch::Tensor w;
  };
  std::array<int, 2> freed{};
  run_once({}, [&](TorchContext& ctx) {
    auto& freed_here = freed[ctx.world_rank().value];
    torch::Tensor kept;
    for (int i = 0; i < 5; ++i) {
      auto model = ctx.prepare_model([&] { return Counted{freed_here}; });
      CHECK(freed_here == std::max(i - 1, 0));
      (model->w * all(1)).sum().backward();
      if (i == 0) kept = model->w;
    }
    (void)ctx.prepare_model([] { return Mean{}; });
    (kept * all(ctx.world_rank().value)).sum().backward();
    CHECK(torch::equal(kept.grad(), all(1.5)));
  });
}

TEST_CASE("a factory may use collectives and prepare another model, and builds what it would build without") {
  auto const built = [](bool asks) {
    Tensors weights(2);
    run_once({}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model([&] {
        if (asks) {
          CHECK(ctx.all_gather(ctx.world_rank().value).size() == 2);
          ctx.barrier();
        }
        return torch::nn::Linear{4, 4};
      });
      weights[ctx.world_rank().value] = model->weight.detach();
    });
    return weights;
  };
  CHECK(same_bits(built(true), built(false)));

  run_once({}, [&](TorchContext& ctx) {
    auto const model = ctx.prepare_model([&] {
      torch::nn::Sequential both{ctx.prepare_model([] { return torch::nn::Linear{4, 4}; })};
      CHECK(ctx.all_gather(1).size() == 2);
      return both;
    });
    CHECK(model->size() == 1);
  });
}
