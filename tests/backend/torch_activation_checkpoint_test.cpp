// SPDX-License-Identifier: Apache-2.0
// Functions that run once more in backward, in the place of what they would keep.
#include <raytrain/backend/torch/activation_checkpoint.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// With a buffer that changes in each forward and has a part in it, and one that stays as it is.
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear dense = register_module("dense", torch::nn::Linear{30, 30});
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear{30, 30});
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{30});
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout{0.3});

  torch::Tensor drift = register_buffer("drift", torch::zeros({30}));
  torch::Tensor scale = register_buffer("scale", torch::full({30}, 0.5));

  auto forward(torch::Tensor const& x) -> torch::Tensor {
    drift.mul_(0.9).add_(x.detach().mean(0), 0.1);
    return x + scale * dropout(torch::tanh(norm(dense(x - drift).pow(2))));
  }
};
TORCH_MODULE(Block);

/// With a layer that is used within a checkpointed function and behind it, and one that rank 1 alone uses, within one.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool checkpoints = true) : is_checkpointed{checkpoints} {}

  bool is_checkpointed;
  torch::nn::Linear first = register_module("first", torch::nn::Linear{10, 30});
  Block block1 = register_module("block1", Block{});
  Block block2 = register_module("block2", Block{});
  torch::nn::Linear twice = register_module("twice", torch::nn::Linear{30, 30});
  raytrain::SyncBatchNorm joined = register_module("joined", raytrain::SyncBatchNorm{30});
  torch::nn::Linear of_one = register_module("of_one", torch::nn::Linear{30, 30});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{30, 1});

  auto forward(torch::Tensor x, Rank rank = {}) -> torch::Tensor {
    x = torch::tanh(first(x));
    auto const middle = [this, rank](torch::Tensor const& y) {
      auto const z = joined(twice(block2(y)));
      return rank == Rank{1} ? z + of_one(z) : z;
    };
    x = is_checkpointed ? activation_checkpoint(block1, x) : block1(x);
    x = is_checkpointed ? activation_checkpoint(*this, middle, x) : middle(x);
    return last(torch::tanh(twice(x))).pow(2).mean();
  }
};
TORCH_MODULE(Net);

auto rows_of(Rank rank, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(100 * static_cast<std::uint64_t>(step) + rank.value);
  return torch::randn({8, 10}, generator);
}

using Loop = std::function<void(TorchContext&, Net&, torch::optim::Optimizer&)>;

void plain_loop(TorchContext& ctx, Net& model, torch::optim::Optimizer& optimizer) {
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    model(rows_of(ctx.world_rank(), step), ctx.world_rank()).backward();
    CHECK(!model->block1->unused->weight.grad().defined());
    CHECK(model->of_one->weight.grad().defined());
    optimizer.step();
  }
}

/// Of each of two workers: parameters, buffers, and a number that is drawn behind the training.
auto train(bool checkpoints, ModelOptions const& options, Loop const& loop = plain_loop) -> std::vector<Tensors> {
  std::vector<Tensors> trained(2);
  run_once({}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([&] { return Net{checkpoints}; }, options);
    torch::optim::SGD optimizer{model->parameters(), 0.05};
    loop(ctx, model, optimizer);
    auto state = model->parameters();
    for (auto const& buffer : model->buffers()) state.push_back(buffer);
    state.push_back(torch::rand({1}));
    trained[ctx.world_rank().value] = copies(state);
  });
  return trained;
}

void check_same(std::vector<Tensors> const& left, std::vector<Tensors> const& right) {
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    CAPTURE(rank);
    CHECK(same_bits(left[rank], right[rank]));
  }
}

/// The gradients of the tensors by a loss that weighs each element otherwise, which are taken away.
auto gradients_of(torch::Tensor const& result, Tensors tensors) -> Tensors {
  auto const weights = torch::arange(1, result.numel() + 1).to(result.scalar_type()).view(result.sizes());
  (result * weights).sum().backward();
  Tensors gradients;
  for (auto& tensor : tensors) gradients.push_back(std::exchange(tensor.mutable_grad(), {}));
  return gradients;
}

}  // namespace

TEST_CASE("a training with activation checkpoints has the bits of one without, with any exchange of gradients") {
  auto const expected = train(false, {});
  CHECK(!same_bits(expected[0], train(false, {}, [](auto&&...) {})[0]));
  check_same(train(true, {}), expected);
  for (std::size_t const bytes : {1, 500, 5000, 1 << 20}) {
    CAPTURE(bytes);
    check_same(train(true, {.bucket_bytes = bytes, .overlap = Overlap::on}), expected);
  }
  check_same(train(true, {.bucket_bytes = 500, .overlap = Overlap::measured}), expected);
}

TEST_CASE("a training that accumulates, adds up and keeps gradients has the same bits with activation checkpoints") {
  Loop const loop = [](TorchContext& ctx, Net& model, torch::optim::Optimizer& optimizer) {
    auto const rank = ctx.world_rank();
    for (int step = 0; step < 3; ++step) {
      if (step != 2) model->zero_grad(step == 1);
      model(rows_of(rank, step), rank).backward();
      model(rows_of(rank, 10 + step), rank).backward();
      optimizer.step();
    }
    model->zero_grad(true);
    for (int batch = 0; batch < 6; ++batch) {
      auto const is_last = ctx.accumulate(3);
      model(rows_of(rank, 30 + batch), rank).backward();
      if (!is_last) continue;
      optimizer.step();
      model->zero_grad(true);
    }
  };
  auto const expected = train(false, {}, loop);
  check_same(train(true, {}, loop), expected);
  check_same(train(true, {.bucket_bytes = 1, .overlap = Overlap::on}, loop), expected);
}

TEST_CASE("nothing is kept of what lies between inputs and results, and the function runs once more in backward") {
  torch::nn::Linear dense{4, 4};
  auto calls = 0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> between;
  auto const function = [&](torch::Tensor const& x) {
    ++calls;
    auto const y = torch::sigmoid(dense(x));  // keeps its result
    between.push_back(y.storage().getWeakStorageImpl());
    return y * y;
  };
  auto const x = torch::ones({2, 4}, torch::requires_grad());
  auto const plain = function(x);
  CHECK(!between.back().expired());
  auto const y = activation_checkpoint(dense, function, x);
  CHECK(between.back().expired());
  CHECK(calls == 2);
  CHECK(torch::equal(y, plain));
  y.sum().backward();
  CHECK(calls == 3);
  CHECK(between.back().expired());
}

TEST_CASE("tensors, tuples and vectors go through an activation checkpoint, with the gradients of each") {
  torch::nn::Linear dense{3, 3};
  auto const a = torch::randn({2, 3}).requires_grad_();
  auto const b = torch::randn({2, 3}).requires_grad_();
  auto const mask = torch::tensor({{true, false, true}});
  auto const all = [&](torch::Tensor const& result) {
    return gradients_of(result, {a, b, dense->weight, dense->bias});
  };
  auto const of = [&](torch::Tensor const& left, torch::Tensor const& right) {
    return std::tuple{torch::tanh(dense(left * right)).masked_fill(mask, 0), right.exp(), mask.logical_not()};
  };
  auto const of_vector = [&](Tensors const& both) {
    auto const [left, right, rest] = of(both[0], both[1]);
    return Tensors{left, right, rest};
  };
  auto const joined = [](auto const& left, auto const& right) { return torch::cat({left, right}); };
  auto const expected = all(joined(std::get<0>(of(a, b)), std::get<1>(of(a, b))));
  auto const [left, right, rest] = activation_checkpoint(dense, of, a, b);
  CHECK(same_bits(all(joined(left, right)), expected));
  CHECK(torch::equal(rest, mask.logical_not()));
  auto const results = activation_checkpoint(dense, of_vector, Tensors{a, b});
  REQUIRE(results.size() == 3);
  CHECK(same_bits(all(joined(results[0], results[1])), expected));

  // Of some results, or of inputs some of which need none.
  auto const of_second = all(std::get<1>(activation_checkpoint(dense, of, a, b)));
  CHECK(!of_second[0].defined());
  CHECK(torch::equal(of_second[1], all(b.exp())[1]));
  CHECK(!of_second[2].defined());
  auto const no_gradient = a.detach();
  CHECK(torch::equal(all(std::get<0>(activation_checkpoint(dense, of, no_gradient, no_gradient)))[2],
                     all(std::get<0>(of(no_gradient, no_gradient)))[2]));
}

TEST_CASE("a module's forward is checkpointed by value, in a holder and in a shared_ptr") {
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const check = [&](auto const& module, auto& network) {
    auto const parameters = module_of(module).parameters();
    auto tensors = parameters;
    tensors.push_back(x);
    CHECK(
        same_bits(gradients_of(activation_checkpoint(module, x), tensors), gradients_of(network.forward(x), tensors)));
  };
  torch::nn::LinearImpl value{3, 3};
  check(value, value);
  torch::nn::Sequential holder{torch::nn::Linear{3, 3}, torch::nn::Tanh{}};
  check(holder, *holder);
  auto const shared = std::make_shared<torch::nn::LinearImpl>(3, 3);
  check(shared, *shared);
}

TEST_CASE("a module lives as long as a graph that runs its functions again") {
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto dense = std::make_shared<torch::nn::LinearImpl>(3, 3);
  std::weak_ptr const module = dense;
  auto y = activation_checkpoint(*dense, x);
  dense.reset();
  CHECK(!module.expired());
  CHECK(gradients_of(y, {x})[0].defined());
  y.reset();
  CHECK(module.expired());
}

TEST_CASE("dropout draws the same numbers when it runs again, and the next ones behind the backward are others") {
  torch::nn::Sequential layers{torch::nn::Linear{8, 8}, torch::nn::Dropout{0.5}, torch::nn::Linear{8, 8}};
  auto const x = torch::randn({16, 8}).requires_grad_();
  auto tensors = layers->parameters();
  tensors.push_back(x);
  auto const of = [&](bool checkpoints) {
    torch::manual_seed(3);
    auto const y = checkpoints ? activation_checkpoint(layers, x) : layers->forward(x);
    auto const behind_forward = torch::rand({4});
    auto drawn = gradients_of(y, tensors);
    drawn.push_back(behind_forward);
    drawn.push_back(torch::rand({4}));
    return drawn;
  };
  CHECK(same_bits(of(true), of(false)));
}

TEST_CASE("a function runs again in the precision of its forward, whatever that of the backward") {
  torch::nn::Linear dense{4, 4};
  auto const x = torch::randn({2, 4}).requires_grad_();
  std::vector<at::ScalarType> types;
  auto const function = [&](torch::Tensor const& input) {
    auto const y = dense(input);
    types.push_back(y.scalar_type());
    return y.exp();
  };
  auto const of = [&](bool checkpoints, Precision precision) {
    auto const y = [&] {
      Autocast const autocast{precision, torch::kCPU};
      return checkpoints ? activation_checkpoint(dense, function, x) : function(x);
    }();
    return gradients_of(y, {x, dense->weight, dense->bias});
  };
  auto const expected = of(false, Precision::bf16);
  CHECK(same_bits(of(true, Precision::bf16), expected));
  CHECK((types == std::vector(3, torch::kBFloat16)));
  types.clear();
  Autocast const outer{Precision::bf16, torch::kCPU};
  auto const exact = of(false, Precision::fp32);
  CHECK(same_bits(of(true, Precision::fp32), exact));
  CHECK((types == std::vector(3, torch::kFloat)));
  (void)function(x);
  CHECK((types.back() == torch::kBFloat16));
}

TEST_CASE("running statistics take a batch in once, and buffers stay where they are") {
  Block block;
  auto const statistics = [&] { return copies(block->buffers()); };
  auto const* const memory = block->norm->running_mean.data_ptr();
  activation_checkpoint(block, torch::randn({8, 30})).sum().backward();
  CHECK(block->norm->num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(block->norm->running_mean.data_ptr() == memory);
  auto const before = statistics();
  auto const y = activation_checkpoint(block, torch::randn({8, 30}));
  auto const behind = statistics();
  CHECK(!same_bits(behind, before));
  y.sum().backward();
  CHECK(same_bits(statistics(), behind));
}

TEST_CASE("gradients are those by the buffers of each forward, where several come before their backwards") {
  Block block;
  auto const function = [&](torch::Tensor const& x) {
    {
      torch::NoGradGuard const no_grad;
      block->drift.add_(1);
    }
    return x * block->drift;  // which its gradient needs
  };
  auto const x = torch::ones({1, 30}, torch::requires_grad());
  auto const first = activation_checkpoint(block, function, x);
  auto const second = activation_checkpoint(block, function, x);
  CHECK(torch::equal(torch::autograd::grad({second.sum()}, {x})[0], torch::full({1, 30}, 2.0)));
  CHECK(torch::equal(torch::autograd::grad({first.sum()}, {x})[0], torch::full({1, 30}, 1.0)));
  CHECK(torch::equal(block->drift, torch::full({30}, 2.0)));
}

TEST_CASE("a parameter's hook is called once in a backward, with the whole gradient") {
  torch::nn::Linear dense{3, 3};
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const of = [&](bool checkpoints) {
    auto const y = checkpoints ? activation_checkpoint(dense, x) : dense(x);
    return gradients_of(dense(y), {dense->weight, dense->bias});
  };
  auto expected = of(false);
  Tensors seen;
  dense->weight.register_hook([&](torch::Tensor const& gradient) {
    seen.push_back(gradient);
    return gradient * 3;
  });
  auto const hooked = of(true);
  REQUIRE(seen.size() == 1);
  CHECK(torch::equal(seen[0], expected[0]));
  CHECK(torch::equal(hooked[0], expected[0] * 3));
  CHECK(torch::equal(hooked[1], expected[1]));
}

TEST_CASE("activation checkpoints within one have the same bits") {
  Block inner;
  Block outer;
  outer->register_module("inner", inner);
  torch::nn::BatchNorm1d without_statistics{torch::nn::BatchNorm1dOptions{30}.track_running_stats(false)};
  outer->register_module("without_statistics", without_statistics);
  auto const x = torch::randn({8, 30}).requires_grad_();
  auto tensors = Tensors{x, inner->dense->weight, inner->norm->weight, outer->dense->weight};
  auto const of = [&](bool checkpoints) {
    torch::manual_seed(4);
    auto const within = [&](torch::Tensor const& y) {
      return outer(without_statistics(checkpoints ? activation_checkpoint(inner, y) : inner(y)));
    };
    for (auto const& drift : {inner->drift, outer->drift}) drift.zero_();
    return gradients_of(checkpoints ? activation_checkpoint(outer, within, x) : within(x), tensors);
  };
  CHECK(same_bits(of(true), of(false)));
}

TEST_CASE("a function runs once where nothing needs a gradient, and as it is where only what it captures does") {
  torch::nn::Linear dense{3, 3};
  auto calls = 0;
  auto const other = torch::randn({3}).requires_grad_();
  auto const function = [&](torch::Tensor const& x) {
    ++calls;
    return dense(x) * other;
  };
  auto const x = torch::randn({2, 3});
  {
    torch::NoGradGuard const no_grad;
    CHECK(!activation_checkpoint(dense, function, x).requires_grad());
  }
  CHECK(calls == 1);
  for (auto& parameter : dense->parameters()) parameter.requires_grad_(false);
  CHECK(gradients_of(activation_checkpoint(dense, function, x), {other})[0].defined());
  CHECK(calls == 2);
}

TEST_CASE("a graph that is kept gives the same gradients again, and one that is not refuses") {
  torch::nn::Linear dense{3, 3};
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const loss = activation_checkpoint(dense, x).sum();
  loss.backward({}, true);
  auto const first = std::exchange(dense->weight.mutable_grad(), {});
  loss.backward();
  CHECK(torch::equal(dense->weight.grad(), first));
  CHECK_THROWS_AS(loss.backward(), c10::Error);
}

TEST_CASE("results may be what others have, which stays as it is") {
  torch::nn::Linear dense{3, 3};
  auto const constant = torch::ones({3});
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const function = [&](torch::Tensor const& y) { return std::tuple{constant, y, dense->bias, dense(y)}; };
  auto const loss = [&](auto const& results) {
    return std::apply([](auto const&... each) { return (each.sum() + ...); }, results);
  };
  auto const checkpointed = activation_checkpoint(dense, function, x);
  CHECK(!constant.requires_grad());
  CHECK(x.is_leaf());
  CHECK(dense->bias.is_leaf());
  auto const tensors = Tensors{x, dense->weight, dense->bias};
  CHECK(same_bits(gradients_of(loss(checkpointed), tensors), gradients_of(loss(function(x)), tensors)));
}

TEST_CASE("torch::autograd::grad gives gradients through an activation checkpoint") {
  torch::nn::Linear dense{3, 3};
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const of = [&](torch::Tensor const& y) { return torch::autograd::grad({y.pow(2).sum()}, {x, dense->weight}); };
  CHECK(same_bits(of(activation_checkpoint(dense, x)), of(dense(x))));
  CHECK(!dense->bias.grad().defined());
}

TEST_CASE("what an activation checkpoint cannot do is refused, and the message says what to do") {
  torch::nn::Linear dense{3, 3};
  torch::nn::Linear other{3, 3};
  auto const x = torch::randn({2, 3}).requires_grad_();
  auto const refusal = [&](auto const& function, bool create_graph = false) {
    return thrown_error([&] {
      auto const loss = activation_checkpoint(dense, function, x).sum();
      return torch::autograd::grad({loss}, {x}, {}, create_graph, create_graph);
    });
  };
  check_contains(refusal([&](torch::Tensor const& y) { return other(dense(y)); }),
                 "invalid_call: the backward of an activation_checkpoint(): its function uses a tensor of [3");
  auto const from_outside = dense(x);
  check_contains(
      refusal([&](torch::Tensor const& y) { return dense(y) + from_outside; }),
      "uses a tensor that is neither an input nor a parameter of its module, and would get no gradient; give "
      "it as another input, or give the module that has it");
  check_contains(refusal([&](torch::Tensor const&) { return from_outside; }), "neither an input nor a parameter");
  check_contains(refusal([&](torch::Tensor const&) { return other->weight; }),
                 "uses a tensor of [3, 3] that is neither");
  check_contains(refusal([&](torch::Tensor const& y) { return dense(y).detach(); }),
                 "no result of its function depends on an input or a parameter that requires a gradient; call the "
                 "function itself, under torch::NoGradGuard");
  check_contains(refusal([&](torch::Tensor const& y) { return dense(y); }, true),
                 "is called with create_graph, and has no gradient of its own; call it without create_graph");
  std::size_t calls = 0;
  check_contains(thrown_error([&] {
                   auto const grows = [&](torch::Tensor const& y) { return Tensors(++calls, y.exp()); };
                   activation_checkpoint(dense, grows, x)[0].sum().backward();
                   return true;
                 }),
                 "its function gives 2 tensors when it runs again, and gave 1; give it a function that does the same");
  check_contains(refusal([&](torch::Tensor const& y) { return dense(y.exp_()); }),
                 "invalid_call: activation_checkpoint(): its function changes an input in place");
  check_contains(refusal([&](torch::Tensor const&) { return torch::Tensor{}; }),
                 "result 1 of its function is undefined");
  check_contains(thrown_error([&] { return activation_checkpoint(dense, torch::Tensor{}); }),
                 "input 1 of its function is undefined; give it a function that leaves it out");
}

TEST_CASE("an input or a parameter that changes before the backward is refused by LibTorch") {
  torch::nn::Linear dense{3, 3};
  auto const backward_behind_change_of = [&](torch::Tensor const& changed, torch::Tensor const& x) {
    auto const y = activation_checkpoint(dense, x).sum();
    {
      torch::NoGradGuard const no_grad;
      torch::Tensor{changed}.mul_(2);
    }
    y.backward();
  };
  auto const x = torch::randn({2, 3});
  CHECK_THROWS_WITH_AS(backward_behind_change_of(x, x), doctest::Contains("modified by an inplace operation"),
                       c10::Error);
  CHECK_THROWS_WITH_AS(backward_behind_change_of(dense->bias, x), doctest::Contains("modified by an inplace operation"),
                       c10::Error);
}

TEST_CASE("a buffer that a function only reads, and that changes before the backward, is refused") {
  Block block;
  auto const function = [&](torch::Tensor const& x) { return x * block->drift; };
  auto const x = torch::ones({1, 30}, torch::requires_grad());
  activation_checkpoint(block, function, x).sum().backward();
  auto const y = activation_checkpoint(block, function, x).sum();
  {
    torch::NoGradGuard const no_grad;
    block->drift.add_(1);
  }
  check_contains(thrown_error([&] { y.backward(); }),
                 "finds a buffer of its module changed, with which its function would run again; change buffers before "
                 "the forward, or behind the backward");
}
