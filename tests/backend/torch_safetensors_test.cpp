// SPDX-License-Identifier: Apache-2.0
// Models and optimizers as files that Python's safetensors reads.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/safetensors.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// Every kind of tensor that a module may hold.
struct Mixed : torch::nn::Module {
  Mixed() {
    torch::NoGradGuard const no_grad;
    register_parameter("matrix", torch::randn({300, 50}));
    register_parameter("transposed", torch::randn({30, 50}).t());
    register_parameter("sliced", torch::randn({30, 50}).slice(1, 3, 50, 2));
    register_parameter("scalar", torch::randn({}));
    register_parameter("empty", torch::randn({0, 3}));
    register_parameter("half", torch::randn({5}).to(torch::kHalf));
    register_parameter("bfloat16", torch::randn({7, 1}).to(torch::kBFloat16));
    register_parameter("double", torch::randn({1, 2, 3, 4}, torch::kDouble));
    register_buffer("bool", torch::rand({9}) > 0.5);
    register_buffer("byte", torch::randint(0, 256, {3}, torch::kByte));
    register_buffer("char", torch::randint(-128, 128, {3}, torch::kChar));
    register_buffer("short", torch::randint(-128, 128, {3}, torch::kShort));
    register_buffer("int", torch::randint(-128, 128, {3}, torch::kInt));
    register_buffer("long", torch::randint(-128, 128, {3}, torch::kLong));
    auto const linear = register_module("linear", torch::nn::Linear{torch::nn::LinearOptions(2, 3).bias(false)});
    auto const again = register_module("again", linear);
    register_module("norm", torch::nn::BatchNorm1d{torch::nn::BatchNormOptions(3).affine(false)});
    register_module("relu", torch::nn::Functional{torch::relu});
  }
};

/// One that stores a text beside its tensors.
struct Versioned : torch::nn::Module {
  Versioned() { register_module("linear", torch::nn::Linear{2, 3}); }
  void save(torch::serialize::OutputArchive& archive) const override {
    Module::save(archive);
    archive.write("version", c10::IValue{version});
  }
  void load(torch::serialize::InputArchive& archive) override {
    Module::load(archive);
    c10::IValue stored;
    archive.read("version", stored);
    version = stored.toStringRef();
  }
  std::string version;
};

/// One that stores other numbers than it has.
struct Scaled : torch::nn::Module {
  Scaled() { weight = register_parameter("weight", torch::ones({3})); }
  void save(torch::serialize::OutputArchive& archive) const override { archive.write("weight", weight / 2); }
  void load(torch::serialize::InputArchive& archive) override {
    Module::load(archive);
    torch::NoGradGuard const no_grad;
    weight.mul_(2);
  }
  torch::Tensor weight;
};

template <class Child>
struct Parent : torch::nn::Module {
  Parent() : child{register_module("child", std::make_shared<Child>())} {}
  std::shared_ptr<Child> child;
};

auto state_in(torch::nn::Module const& module) -> Tensors {
  auto state = module.parameters();
  for (auto const& buffer : module.buffers()) state.push_back(buffer);
  return state;
}

auto refusal(Stored const& stored, auto& model) -> std::string {
  return thrown_error([&] {
    load(stored.checkpoint(), model);
    return 0;
  });
}

}  // namespace

TEST_CASE("tensors of any type, shape and place in memory come back to where they were, bit by bit") {
  Mixed const model;
  Mixed other;
  Stored const stored{model};
  CHECK(stored.names() == "model.safetensors ");
  auto const state = state_in(other);
  CHECK_FALSE(same_bits(state_in(model), state));
  load(stored.checkpoint(), other);
  CHECK(same_bits(state_in(model), state));  // the tensors of before: none was replaced
  CHECK(same_bits(state_in(model), state_in(other)));
  for (std::size_t i = 0; i < state.size(); ++i) CHECK(state[i].is_same(state_in(other)[i]));
}

TEST_CASE("a model's file has the names, types and shapes of its tensors, and says that they are PyTorch's") {
  auto const draft = draft_of(Mixed{});
  auto const file = draft.files().at("model.safetensors");
  auto const index = read_tensor_index(file.view(), "reading");
  CHECK(index.metadata == TensorMetadata{{"format", "pt"}});
  std::string found;
  for (auto const& tensor : index.tensors) {
    found += tensor.name + ":" + tensor.type;
    for (auto const extent : tensor.shape) found += "," + std::to_string(extent);
    found += ' ';
  }
  CHECK(found ==
        "double:F64,1,2,3,4 long:I64,3 norm.num_batches_tracked:I64 matrix:F32,300,50 transposed:F32,50,30 "
        "sliced:F32,30,24 scalar:F32 empty:F32,0,3 int:I32,3 linear.weight:F32,3,2 again.weight:F32,3,2 "
        "norm.running_mean:F32,3 norm.running_var:F32,3 half:F16,5 bfloat16:BF16,7,1 short:I16,3 bool:BOOL,9 byte:U8,3 "
        "char:I8,3 ");
}

TEST_CASE_TEMPLATE("a model whose state is more than its tensors is stored as an archive, and comes back whole", Model,
                   Versioned, Scaled) {
  Parent<Model> model;
  if constexpr (std::same_as<Model, Versioned>) {
    model.child->version = "7";
  } else {
    torch::NoGradGuard const no_grad;
    model.child->weight.fill_(6);
  }
  Stored const stored{model};
  CHECK(stored.names() == "model.pt ");
  Parent<Model> other;
  load(stored.checkpoint(), other);
  CHECK(same_bits(state_in(model), state_in(other)));
  if constexpr (std::same_as<Model, Versioned>) CHECK(other.child->version == "7");
}

TEST_CASE("a model with a type that safetensors does not have is stored as an archive") {
  torch::nn::Module model;
  model.register_buffer("waves", torch::randn({3}, torch::kComplexDouble));
  Stored const stored{model};
  CHECK(stored.names() == "model.pt ");
  torch::nn::Module other;
  other.register_buffer("waves", torch::zeros({3}, torch::kComplexDouble));
  load(stored.checkpoint(), other);
  CHECK(same_bits(model.buffers(), other.buffers()));
}

TEST_CASE("a model with elements that lie at one place, or names that no file can have, is stored as an archive") {
  struct Odd : torch::nn::Module {};
  auto const names_of = [](auto const& add) {
    Odd model;
    add(model);
    Stored const stored{model};
    Odd other;
    add(other);
    load(stored.checkpoint(), other);
    return stored.names();
  };
  CHECK(names_of([](Odd& model) { model.register_buffer("scale", torch::ones({1}).expand({3})); }) == "model.pt ");
  CHECK(names_of([](Odd& model) { model.register_buffer("__metadata__", torch::ones({1})); }) == "model.pt ");
  CHECK(names_of([](Odd& model) { model.register_buffer("\xff\xfe", torch::ones({1})); }) == "model.pt ");
}

TEST_CASE("a buffer in memory that is not LibTorch's gets memory of its own, since it may be read-only") {
  struct WithTable : torch::nn::Module {
    explicit WithTable(float const* values) {
      table = register_buffer("table", torch::from_blob(const_cast<float*>(values), {4}));
    }
    torch::Tensor table;
  };
  static float const table[]{1, 2, 3, 4};
  static float const other_table[]{0, 0, 0, 0};
  WithTable const model{table};
  Stored const stored{model};
  CHECK(stored.names() == "model.safetensors ");
  WithTable other{other_table};
  load(stored.checkpoint(), other);
  CHECK(other.table.equal(model.table));
  CHECK(other_table[1] == 0);
}

TEST_CASE("an empty module holder is refused, and the message says what was attempted") {
  torch::nn::Linear const none{nullptr};
  check_contains(thrown_error([&] {
                   (void)draft_of(none);
                   return 0;
                 }),
                 "storing a state: ");
}

TEST_CASE("a shared_ptr and a holder without a model are refused wherever one is given, and the message says where") {
  auto const none = std::shared_ptr<Mixed>{};
  auto const stored = [&](auto const& model) { return thrown_error([&] { return draft_of(model).files().size(); }); };
  check_contains(stored(none), "storing a state: ");
  torch::nn::Linear linear{2, 3};
  Stored const checkpoint{linear};
  check_contains(thrown_error([&] { return load_model(checkpoint.checkpoint(), [&] { return none; }); }),
                 "there is no model in the std::shared_ptr");
  auto const refusal = [](TrainTorch const& train) {
    return thrown_error([&] { return run_once({.workers = 2}, train).history.size(); });
  };
  std::vector<std::string> const texts{
      refusal([&](TorchContext& ctx) { (void)ctx.prepare_model([&] { return none; }); }),
      refusal([&](TorchContext& ctx) { (void)ctx.prepare_model(none); }),
      refusal([&](TorchContext& ctx) { (void)ctx.prepare_local_model([&] { return none; }); }),
      refusal([&](TorchContext& ctx) { (void)ctx.prepare_model([] { return torch::nn::Linear{nullptr}; }); })};
  for (auto const& text : texts) {
    check_contains(text, "preparing a model: ");
    check_contains(text, "; give one, or a function that returns one");
  }
}

TEST_CASE("a name in a refusal has no control characters of the file") {
  auto const header = tensor_header(place_tensors({{"evil\x1b[31m\nFATAL", "F32", {0}, 0, 0}}, {}));
  torch::nn::Linear model{1, 1};
  auto const text = thrown_error([&] {
    raytrain::detail::load_model(bytes_of(header), *model, "loading it");
    return 0;
  });
  check_contains(text, "FATAL");
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a checkpoint of another model is refused with all that differs, and nothing is copied") {
  torch::nn::Sequential const model{torch::nn::Linear{2, 3}, torch::nn::Linear{3, 4}, torch::nn::Linear{4, 5}};
  Stored const stored{model};
  torch::nn::Sequential other{torch::nn::Linear{2, 3}, torch::nn::Linear{torch::nn::LinearOptions(3, 9).bias(false)},
                              torch::nn::ReLU{},
                              torch::nn::BatchNorm1d{torch::nn::BatchNormOptions(1).track_running_stats(false)}};
  auto const before = copies(other->parameters());
  auto const text = refusal(stored, other);
  check_contains(text, "backend: loading ");
  check_contains(text,
                 "/model.safetensors: '1.weight' is {4, 3} Float there and {9, 3} Float in this model, "
                 "'3.weight' {1} Float is not there, '3.bias' {1} Float is not there, "
                 "'1.bias' {4} Float is not in this model, '2.bias' {5} Float is not in this model, "
                 "'2.weight' {5, 4} Float is not in this model; build it as it was when it was saved");
  CHECK(same_bits(other->parameters(), before));
}

TEST_CASE("of many differences a refusal shows eight, and how many more there are") {
  torch::nn::Sequential model;
  for (int i = 0; i < 10; ++i) model->push_back(torch::nn::Linear{2, 2});
  torch::nn::Linear other{2, 2};
  auto const text = refusal(Stored{model}, other);
  check_contains(text, "'bias' {2} Float is not there");
  check_contains(text, ", and 14 more differ; build it");
}

TEST_CASE("another type of the same shape is refused") {
  torch::nn::Linear model{2, 2};
  Stored const stored{model};
  model->to(torch::kDouble);
  check_contains(refusal(stored, model), "'bias' is {2} Float there and {2} Double in this model");
}

TEST_CASE("a file of tensors that is cut short is refused as corrupt") {
  auto const draft = draft_of(torch::nn::Linear{2, 2});
  auto const file = draft.files().at("model.safetensors").view();
  CheckpointDraft cut;
  cut.add("model.safetensors", Bytes{file.begin(), file.end() - 1});
  torch::nn::Linear model{2, 2};
  check_contains(refusal(Stored{cut}, model), "corrupt_checkpoint: loading ");
}

TEST_CASE("a run goes on from what an earlier version has written, archives of LibTorch's") {
  auto const checkpoint =
      Checkpoint::from_directory(std::filesystem::path{__FILE__}.parent_path() / "checkpoint_of_archives");
  checkpoint.verify();
  torch::nn::Linear model{2, 1};
  torch::optim::Adam optimizer{model->parameters(), 0.5};
  torch::optim::StepLR scheduler{optimizer, 2, 0.5};
  load(checkpoint, model, optimizer, scheduler);
  CHECK(torch::allclose(model->weight, torch::tensor({{0.25F, -3.25F}})));
  CHECK(torch::allclose(model->bias, torch::tensor({6.75F})));
  CHECK(raytrain::detail::learning_rates(optimizer) == std::vector{0.25});
  CHECK(optimizer.state().size() == 2);
  scheduler.step();
  scheduler.step();
  CHECK(raytrain::detail::learning_rates(optimizer) == std::vector{0.125});
}

TEST_CASE("a worker copies its model once the one before is written, to the same place") {
  TemporaryFolder const folder;
  std::vector<std::byte const*> places;
  run_in(folder.path(), {.workers = 1}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2048, 2048}; });
    for (int epoch = 0; epoch < 4; ++epoch) {
      ctx.report(Epoch{epoch, 1.0}, CheckpointDraft::replicated([&](CheckpointDraft& draft) {
                   (void)raytrain::detail::add_model(draft, *model, "model");
                   places.push_back(draft.files().at("model.safetensors").view().data());
                 }));
    }
  });
  CHECK(places == std::vector(4, places.front()));
}

namespace {

/// A net with two groups of parameters, one of which has no gradient.
struct Trained {
  Trained() {
    torch::manual_seed(1);
    model = torch::nn::Sequential{torch::nn::Linear{8, 16}, torch::nn::Tanh{}, torch::nn::Linear{16, 1}};
    unused = torch::zeros({2}, torch::requires_grad());
  }
  [[nodiscard]] auto groups() const -> std::vector<torch::optim::OptimizerParamGroup> {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{model->ptr(0)->parameters()});
    auto rest = model->ptr(2)->parameters();
    rest.insert(rest.begin(), unused);
    groups.emplace_back(std::move(rest));
    return groups;
  }
  void step(torch::optim::Optimizer& optimizer) {
    auto const inputs = torch::linspace(-1, 1, 32 * 8).view({32, 8});
    optimizer.step([&] {
      optimizer.zero_grad();
      auto loss = torch::mse_loss(model->forward(inputs), inputs.sum(1, true).sin());
      loss.backward();
      return loss;
    });
  }

  torch::nn::Sequential model;
  torch::Tensor unused;
};

struct MakeAdagrad {
  static auto make(Trained const& net) {
    return torch::optim::Adagrad{net.groups(), torch::optim::AdagradOptions{0.1}.lr_decay(0.01)};
  }
};
struct MakeAdam {
  static auto make(Trained const& net) {
    return torch::optim::Adam{net.groups(), torch::optim::AdamOptions{0.1}.amsgrad(true).betas({0.8, 0.9})};
  }
};
struct MakeAdamW {
  static auto make(Trained const& net) {
    return torch::optim::AdamW{net.groups(), torch::optim::AdamWOptions{1.0 / 3}};
  }
};
struct MakeAdadelta {
  static auto make(Trained const& net) { return Adadelta{net.groups(), AdadeltaOptions{}.rho(0.8)}; }
};
struct MakeLamb {
  static auto make(Trained const& net) { return LAMB{net.groups(), LAMBOptions{0.01}.betas({0.8, 0.9})}; }
};
struct MakeLars {
  static auto make(Trained const& net) { return LARS{net.groups(), LARSOptions{2.0}.weight_decay(0.01)}; }
};
struct MakeLbfgs {
  static auto make(Trained const& net) {
    auto all = net.groups()[0].params();
    for (auto const& parameter : net.model->ptr(2)->parameters()) all.push_back(parameter);
    return torch::optim::LBFGS{
        all, torch::optim::LBFGSOptions{0.5}.max_iter(3).history_size(4).line_search_fn("strong_wolfe")};
  }
};
struct MakeRmsprop {
  static auto make(Trained const& net) {
    return torch::optim::RMSprop{net.groups(), torch::optim::RMSpropOptions{0.01}.centered(true).momentum(0.5)};
  }
};
struct MakeSgd {
  static auto make(Trained const& net) {
    return torch::optim::SGD{net.groups(), torch::optim::SGDOptions{0.1}.momentum(0.9).nesterov(true)};
  }
};

}  // namespace

TEST_CASE_TEMPLATE("an optimizer goes on from its file to the very bits of one that was not stored", Make, MakeAdagrad,
                   MakeAdadelta, MakeAdam, MakeAdamW, MakeLamb, MakeLars, MakeLbfgs, MakeRmsprop, MakeSgd) {
  for (int const steps : {0, 1, 5}) {
    CAPTURE(steps);
    Trained whole;
    auto optimizer = Make::make(whole);
    for (int step = 0; step < steps; ++step) whole.step(optimizer);
    optimizer.param_groups().back().options().set_lr(0.07);
    Stored const stored{whole.model, optimizer};
    CHECK(stored.names() == "model.safetensors optimizer.safetensors ");
    Trained again;
    auto other = Make::make(again);
    load(stored.checkpoint(), again.model, other);
    CHECK(raytrain::detail::learning_rates(other) == raytrain::detail::learning_rates(optimizer));
    // The same archive but for the keys of parameters, which are their addresses.
    CHECK(other.state().size() == optimizer.state().size());
    CHECK(text_of(draft_of(again.model, other).files().at("optimizer.safetensors").view()) ==
          text_of(draft_of(whole.model, optimizer).files().at("optimizer.safetensors").view()));
    for (int step = 0; step < 3; ++step) {
      whole.step(optimizer);
      again.step(other);
    }
    CHECK(same_bits(whole.model->parameters(), again.model->parameters()));
  }
}

TEST_CASE("a parameter that an optimizer lists twice does not move what is stored of the others") {
  struct Tied {
    Tied() {
      torch::manual_seed(3);
      net.model = torch::nn::Sequential{torch::nn::Linear{8, 8}, torch::nn::Tanh{}, torch::nn::Linear{8, 1}};
      auto all = net.model->ptr(0)->parameters();
      for (auto const& parameter : net.model->ptr(0)->parameters()) all.push_back(parameter);
      for (auto const& parameter : net.model->ptr(2)->parameters()) all.push_back(parameter);
      optimizer.emplace(all, torch::optim::SGDOptions{0.1}.momentum(0.9));
    }
    Trained net;
    std::optional<torch::optim::SGD> optimizer;
  };
  Tied whole;
  for (int step = 0; step < 3; ++step) whole.net.step(*whole.optimizer);
  Stored const stored{whole.net.model, *whole.optimizer};
  CHECK(stored.names() == "model.safetensors optimizer.safetensors ");
  Tied again;
  load(stored.checkpoint(), again.net.model, *again.optimizer);
  for (int step = 0; step < 3; ++step) {
    whole.net.step(*whole.optimizer);
    again.net.step(*again.optimizer);
  }
  CHECK(same_bits(whole.net.model->parameters(), again.net.model->parameters()));
}

TEST_CASE("an optimizer of another class is refused with the names of both") {
  Trained net;
  auto optimizer = MakeAdam::make(net);
  net.step(optimizer);
  Stored const stored{net.model, optimizer};
  auto other = MakeSgd::make(net);
  check_contains(thrown_error([&] {
                   load(stored.checkpoint(), net.model, other);
                   return 0;
                 }),
                 "it is of a torch::optim::Adam, and this optimizer is a torch::optim::SGD");
}

TEST_CASE("an optimizer's file has a tensor for each parameter's moments, and numbers that Python reads as JSON") {
  Trained net;
  auto optimizer = MakeAdam::make(net);
  net.step(optimizer);
  auto const draft = draft_of(net.model, optimizer);
  auto const index = read_tensor_index(draft.files().at("optimizer.safetensors").view(), "reading");
  CHECK(index.tensors.size() == 4 * 3);
  CHECK(std::ranges::count(index.tensors, "0.exp_avg", &StoredTensor::name) == 1);
  CHECK(std::ranges::count(index.tensors, "4.max_exp_avg_sq", &StoredTensor::name) == 1);
  CHECK(std::ranges::count(index.tensors, "2.exp_avg", &StoredTensor::name) == 0);  // it had no gradient
  CHECK(index.metadata.at("3.step") == "1");
  CHECK(index.metadata.at("group.0.lr") == "0.1");
  CHECK(index.metadata.at("group.1.betas") == "[0.8, 0.9]");
  CHECK(index.metadata.at("group.1.amsgrad") == "true");
  CHECK(index.metadata.at("group.1.params") == "3");
}

TEST_CASE("an optimizer of another number of parameters or groups is refused") {
  Trained net;
  auto optimizer = MakeSgd::make(net);
  Stored const stored{net.model, optimizer};
  auto const refused = [&](torch::optim::SGD other) {
    return thrown_error([&] {
      load(stored.checkpoint(), net.model, other);
      return 0;
    });
  };
  check_contains(refused(torch::optim::SGD{net.model->parameters(), 0.1}), "different number of parameter groups");
  auto groups = net.groups();
  groups[1].params().pop_back();
  check_contains(refused(torch::optim::SGD{groups, 0.1}), "optimizer.safetensors: loaded state dict contains");
}

TEST_CASE("metadata that are no optimizer's are refused as corrupt, with the value") {
  torch::nn::Linear model{1, 1};
  torch::optim::SGD optimizer{model->parameters(), 0.1};
  auto const refused = [&](TensorMetadata const& metadata) {
    auto const index = place_tensors({}, metadata);
    auto const header = tensor_header(index);
    return thrown_error([&] {
      raytrain::detail::load_optimizer(bytes_of(header), optimizer, "loading it");
      return 0;
    });
  };
  auto const with = [](std::string const& name, std::string const& text) {
    TensorMetadata metadata{{"pytorch_version", "\"1.5.0\""}, {"group.0.params", "2"}, {"0.step", "1"}};
    metadata[name] = text;
    return metadata;
  };
  check_contains(refused({}),
                 "corrupt_checkpoint: loading it: it holds no state of an optimizer: its metadata have no "
                 "pytorch_version; build it as it was");
  check_contains(refused(with("group.0.params", "-1")), "group.0.params is -1");
  check_contains(refused(with("group.0.params", "1e9")), "group.0.params is 1e9");
  check_contains(refused(with("0.step", "one")), "0.step is not JSON");
  check_contains(refused(with("0.step", "{}")), "0.step is {}");
  check_contains(refused(with("0.step", R"({"tensors": 99999999999})")), "0.step is {\"tensors\": 99999999999}");
}

namespace {

/// One whose state no archive of LibTorch's own has.
struct Counting : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  void save(torch::serialize::OutputArchive& archive) const override {
    SGD::save(archive);
    archive.write("count", c10::IValue{count});
  }
  void load(torch::serialize::InputArchive& archive) override {
    SGD::load(archive);
    c10::IValue stored;
    archive.read("count", stored);
    count = stored.toInt();
  }
  std::int64_t count = 0;
};

struct DottedState : torch::optim::OptimizerCloneableParamState<DottedState> {
  void serialize(torch::serialize::OutputArchive& archive) const override { archive.write("ema.short", ema, true); }
  void serialize(torch::serialize::InputArchive& archive) override { archive.read("ema.short", ema, true); }
  torch::Tensor ema = torch::ones({2});
};

/// One whose state has a name of that form, and which trains nothing.
struct Dotted : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  auto step(LossClosure /*closure*/ = nullptr) -> torch::Tensor override {
    // LibTorch 1 has numbers in texts for keys, LibTorch 2 the addresses.
    auto const add = [](auto& states, auto* parameter) {
      if constexpr (std::is_same_v<typename std::decay_t<decltype(states)>::key_type, std::string>) {
        states[std::to_string(reinterpret_cast<std::uintptr_t>(parameter))] = std::make_unique<DottedState>();
      } else {
        states[parameter] = std::make_unique<DottedState>();
      }
    };
    add(state_, param_groups()[0].params()[0].unsafeGetTensorImpl());
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<DottedState, torch::optim::SGDOptions>(archive, *this);
  }
};

/// One that derives something from its tensors when it is loaded.
struct Cached : torch::nn::Module {
  Cached() { weight = register_parameter("weight", torch::ones({3})); }
  void load(torch::serialize::InputArchive& archive) override {
    Module::load(archive);
    sum = weight.sum().item<float>();
  }
  torch::Tensor weight;
  float sum = 0;
};

}  // namespace

TEST_CASE("an optimizer that stores more than LibTorch's do is an archive, and comes back whole") {
  Trained net;
  Counting optimizer{net.model->parameters(), 0.1};
  optimizer.count = 7;
  Stored const stored{net.model, optimizer};
  CHECK(stored.names() == "model.safetensors optimizer.pt ");
  Counting other{net.model->parameters(), 0.1};
  load(stored.checkpoint(), net.model, other);
  CHECK(other.count == 7);
}

TEST_CASE("an optimizer with a dot in the name of a state is an archive, since lists are named so") {
  Trained net;
  Dotted optimizer{net.model->parameters(), 0.1};
  optimizer.step();
  CHECK(Stored{net.model, optimizer}.names() == "model.safetensors optimizer.pt ");
}

TEST_CASE("a number that JSON does not have makes an optimizer an archive") {
  Trained net;
  torch::optim::SGD optimizer{net.model->parameters(), 0.1};
  optimizer.param_groups()[0].options().set_lr(std::numeric_limits<double>::infinity());
  CHECK(Stored{net.model, optimizer}.names() == "model.safetensors optimizer.pt ");
}

TEST_CASE("the load of a program's own module is called when its tensors are there") {
  Parent<Cached> model;
  model.child->weight.data().fill_(5);
  Stored const stored{model};
  CHECK(stored.names() == "model.safetensors ");
  Parent<Cached> other;
  load(stored.checkpoint(), other);
  CHECK(other.child->sum == 15);
}
