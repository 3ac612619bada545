// SPDX-License-Identifier: Apache-2.0
// Models of safetensors files and of checkpoints: what is written, what is read, and what is refused.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/averaged_model.hpp>
#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>
#include <raytrain/checkpoint/safetensors.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// A net of every kind of state: dense and convolved weights, and the statistics of a BatchNorm.
struct SmallNet : torch::nn::Module {
  explicit SmallNet(std::int64_t classes = 3) {
    convolution = register_module("convolution", torch::nn::Conv2d{1, 2, 3});
    norm = register_module("norm", torch::nn::BatchNorm2d{2});
    dense = register_module("dense", torch::nn::Sequential{torch::nn::Linear{8, 4}, torch::nn::Linear{4, classes}});
  }
  auto forward(torch::Tensor const& images) -> torch::Tensor {
    return dense->forward(torch::relu(norm(convolution(images))).flatten(1));
  }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential dense{nullptr};
};

/// Another net with one of the first inside.
struct Outer : torch::nn::Module {
  Outer() {
    inner = register_module("inner", std::make_shared<SmallNet>());
    head = register_module("head", torch::nn::Linear{3, 2});
  }
  std::shared_ptr<SmallNet> inner;
  torch::nn::Linear head{nullptr};
};

/// Two layers with one weight, as the ends of a language model often have it.
struct Tied : torch::nn::Module {
  Tied() {
    auto const weight = torch::randn({3, 2});
    for (auto const* const name : {"embedding", "head"}) {
      auto const layer = register_module(name, std::make_shared<torch::nn::Module>());
      layer->register_parameter("weight", weight);
    }
  }
};

/// One that stores a number beside its tensors.
struct Counting : torch::nn::Module {
  Counting() { register_parameter("weight", torch::ones({2})); }
  void save(torch::serialize::OutputArchive& archive) const override {
    Module::save(archive);
    archive.write("count", c10::IValue{std::int64_t{7}});
  }
};

auto state_of_all(torch::nn::Module const& module) -> std::vector<torch::Tensor> {
  auto state = module.parameters();
  for (auto const& buffer : module.buffers()) state.push_back(buffer);
  return state;
}

auto same_state(torch::nn::Module const& one, torch::nn::Module const& other) -> bool {
  return same_bits(state_of_all(one), state_of_all(other));
}

void scramble(torch::nn::Module const& module) {
  torch::NoGradGuard const no_grad;
  for (auto const& tensor : state_of_all(module)) tensor.copy_(torch::rand_like(tensor, torch::kFloat));
}

auto names_in(std::filesystem::path const& folder) -> std::string {
  std::string names;
  for (auto const& entry : std::filesystem::directory_iterator{folder}) names += entry.path().filename().string() + " ";
  return names;
}

/// A file of that header and so many bytes of tensors.
auto file_of(std::string_view header, std::size_t data_bytes) -> std::string {
  std::string file;
  for (std::size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> 8 * i & 0xFFU);
  return file.append(header).append(data_bytes, '\0');
}

auto refusal(std::filesystem::path const& file, auto& model, SafetensorsOptions const& options = {}) -> std::string {
  return thrown_error([&] {
    load_safetensors(model, file, options);
    return 0;
  });
}

/// A net of one weight of two numbers and a number beside it.
struct Line : torch::nn::Module {
  Line() {
    weight = register_parameter("weight", torch::ones({2}));
    bias = register_parameter("bias", torch::ones({}));
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor { return x.mv(weight) + bias; }
  torch::Tensor weight;
  torch::Tensor bias;
};

constexpr std::string_view line_header =
    R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"bias":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";

auto with(std::string text, std::string_view part, std::string_view other) -> std::string {
  auto const place = text.find(part);
  REQUIRE(place != std::string::npos);
  return text.replace(place, part.size(), other);
}

}  // namespace

TEST_CASE("a model of a file has the bits of the one that was saved, where its own tensors were") {
  TemporaryFolder const folder;
  torch::nn::ModuleHolder<SmallNet> const model{std::make_shared<SmallNet>()};
  scramble(*model);
  save_safetensors(model, folder.path() / "net.safetensors");
  CHECK(names_in(folder.path()) == "net.safetensors ");
  SmallNet other;
  auto const before = state_of_all(other);
  auto const unmatched = load_safetensors(other, folder.path() / "net.safetensors");
  CHECK(unmatched.missing.empty());
  CHECK(unmatched.unexpected.empty());
  CHECK(same_state(*model, other));
  CHECK(same_bits(before, state_of_all(other)));
}

TEST_CASE("a saved model's names are those of Python's state_dict, buffers and all") {
  TemporaryFolder const folder;
  SmallNet const model;
  save_safetensors(model, folder.path() / "net.safetensors");
  auto const text = read_text(folder.path() / "net.safetensors");
  auto const index = read_tensor_index(bytes_of(text), "reading");
  CHECK(index.metadata == TensorMetadata{{"format", "pt"}});
  std::set<std::string> names;
  for (auto const& tensor : index.tensors) names.insert(tensor.name);
  CHECK(names == std::set<std::string>{"convolution.weight", "convolution.bias", "norm.weight", "norm.bias",
                                       "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
                                       "dense.0.weight", "dense.0.bias", "dense.1.weight", "dense.1.bias"});
}

TEST_CASE("a relative name is a file of the working directory") {
  TemporaryFolder const folder;
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  save_safetensors(SmallNet{}, "net.safetensors");
  SmallNet model;
  load_safetensors(model, "net.safetensors");
  std::filesystem::current_path(before);
  CHECK(names_in(folder.path()) == "net.safetensors ");
}

TEST_CASE("a model takes the place of the one in a file, and one that cannot be stored leaves it alone") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "net.safetensors";
  save_safetensors(SmallNet{5}, file);
  SmallNet const model;
  save_safetensors(model, file);
  SmallNet other;
  load_safetensors(other, file);
  CHECK(same_state(model, other));

  torch::nn::Module waves;
  waves.register_buffer("waves", torch::ones({3}, torch::kComplexDouble));
  check_contains(thrown_error([&] {
                   save_safetensors(waves, file);
                   return 0;
                 }),
                 "backend: saving the model '" + file.string() +
                     "': such a file cannot hold its tensor 'waves', {3} ComplexDouble; store it as LibTorch does");
  check_contains(thrown_error([&] {
                   save_safetensors(Counting{}, file);
                   return 0;
                 }),
                 "its save() stores more than parameters and buffers");
  check_contains(thrown_error([&] {
                   save_safetensors(torch::nn::Linear{nullptr}, file);
                   return 0;
                 }),
                 "backend: saving a model: ");
  load_safetensors(other, file);
  CHECK(names_in(folder.path()) == "net.safetensors ");
}

TEST_CASE("a file that cannot be written is refused with its name and the reason, and nothing is left beside it") {
  TemporaryFolder const folder;
  auto const saved = [&](std::filesystem::path const& file) {
    return thrown_error([&] {
      save_safetensors(SmallNet{}, file);
      return 0;
    });
  };
  auto const text = saved(folder.path() / "none" / "net.safetensors");
  check_contains(text,
                 "io: saving the model '" + (folder.path() / "none" / "net.safetensors").string() + "': creating");
  check_contains(text, "No such file or directory");
  check_contains(text, "; name a file that can be written");
  std::filesystem::create_directory(folder.path() / "taken");
  check_contains(saved(folder.path() / "taken"), "Is a directory");
  CHECK(names_in(folder.path()) == "taken ");
}

TEST_CASE("a model of other names, shapes and types is refused with each of them, and nothing is filled") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "net.safetensors";
  save_safetensors(SmallNet{}, file);
  torch::nn::Sequential inner{torch::nn::Linear{8, 4}, torch::nn::Linear{torch::nn::LinearOptions(4, 5).bias(false)}};
  struct Other : torch::nn::Module {
  } model;
  model.register_module("dense", inner);
  model.register_module("norm", torch::nn::BatchNorm2d{2})->to(torch::kDouble);
  auto const before = copies(state_of_all(model));
  auto const text = refusal(file, model);
  check_contains(text, "backend: loading the model '" + file.string() + "': ");
  check_contains(text, "'dense.1.weight' is {3, 4} Float there and {5, 4} Float in this model");
  check_contains(text, "'norm.weight' is {2} Float there and {2} Double in this model");
  check_contains(text, "'convolution.bias' {2} Float is not in this model");
  check_contains(text, "; build the model as the one that the file is of, or name another file");
  CHECK(same_bits(before, state_of_all(model)));
}

TEST_CASE("a file that is not there is told from one that is no file of tensors") {
  TemporaryFolder const folder;
  SmallNet model;
  check_contains(refusal(folder.path() / "none.safetensors", model),
                 "not_found: loading the model '" + (folder.path() / "none.safetensors").string() +
                     "': there is no such file; name a file that save_safetensors");
  write_text(folder.path() / "empty", "");
  check_contains(refusal(folder.path() / "empty", model), "corrupt_checkpoint: loading the model '");
  check_contains(refusal(folder.path() / "empty", model), "it has 0 bytes, and 8 tell its length");
  check_contains(refusal("/dev/null", model), "is not a regular file");
}

TEST_CASE("of a folder it is the model's file that is read, be it Hugging Face's or a checkpoint") {
  TemporaryFolder const folder;
  SmallNet model;
  scramble(model);
  check_contains(refusal(folder.path(), model), "the folder has no model.safetensors; name a file");
  write_text(folder.path() / "model.safetensors.index.json", "{}");
  check_contains(refusal(folder.path(), model), "load each of its files, with {.strict = false}");
  save_safetensors(model, folder.path() / "model.safetensors");
  SmallNet other;
  load_safetensors(other, folder.path());
  CHECK(same_state(model, other));
}

TEST_CASE("a damaged file is refused with what is wrong, and the model stays as it was") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "line.safetensors";
  Line model;
  auto const refused = [&](std::string const& content) {
    write_text(file, content);
    auto const text = refusal(file, model);
    check_contains(text, "loading the model '" + file.string() + "': ");
    CHECK(model.weight.equal(torch::ones({2})));
    return text;
  };
  std::string const header{line_header};
  write_text(file, file_of(header, 12));
  load_safetensors(model, file);  // control: as it should be
  CHECK(model.weight.equal(torch::zeros({2})));
  model.weight.data().fill_(1);

  check_contains(refused(file_of(header, 11)), "data_offsets of 'bias' lie outside of the file");
  check_contains(refused(file_of(header, 12).substr(0, 40)), "its header would have");
  check_contains(refused(file_of(header, 13)), "its tensors end at byte");
  check_contains(refused(file_of(with(header, "[8,12]", "[4,8]"), 8)), "'bias' begins at byte");
  check_contains(refused(file_of(with(header, "\"bias\"", "\"weight\""), 12)), "'weight' comes twice");
  check_contains(
      refused(with(file_of(header, 12), file_of(header, 0).substr(0, 8), std::string("\0\0\0\x80\0\0\0\0", 8))),
      "its header would have 2147483648 bytes, and 100000000 are the most");
  check_contains(refused(file_of(with(header, "F32", "F33"), 12)),
                 "'weight' has the type 'F33', which is unknown here");
  check_contains(refused(file_of(with(header, "\"F32\"", "\"I32\""), 12)),
                 "'weight' is {2} Int there and {2} Float in this model");
  check_contains(refused(file_of(with(header, "\"F32\"", "\"F16\""), 12)), "'weight' has 8 bytes, and its type");
  check_contains(refused(file_of(with(header, "\"F32\",\"shape\":[2]", "\"U64\",\"shape\":[1]"), 12)),
                 "'weight' is {1} U64 there and {2} Float in this model");
}

TEST_CASE("every prefix of a file is refused, and the model stays as it was") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "line.safetensors";
  Line model;
  auto const whole = file_of(line_header, 12);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(file, std::string_view{whole}.substr(0, size));
    CHECK(refusal(file, model).starts_with("corrupt_checkpoint: "));
  }
  CHECK(model.weight.equal(torch::ones({2})));
}

TEST_CASE("a prefix takes one module's part of a file, and what is not under it belongs to others") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "outer.safetensors";
  Outer const outer;
  scramble(*outer.inner);
  save_safetensors(outer, file);
  SmallNet model;
  auto const unmatched = load_safetensors(model, file, {.prefix = "inner."});
  CHECK(unmatched.unexpected.empty());
  CHECK(same_state(model, *outer.inner));
  CHECK_FALSE(refusal(file, model).empty());
  check_contains(
      refusal(file, model, {.prefix = "bert."}),
      "none of its names begins with 'bert.', as 'inner.norm.num_batches_tracked' does not; give the prefix");
  // The other way about, where it is the model's names that have more.
  save_safetensors(model, file);
  Outer again;
  load_safetensors(*again.inner, file);
  CHECK(same_state(*again.inner, model));
}

TEST_CASE("without strict what only one of both has is left as it is, and named") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "outer.safetensors";
  Outer outer;
  scramble(outer);
  outer.inner->register_buffer("mask", torch::ones({2}));
  save_safetensors(outer, file);
  SmallNet model;
  auto const extra = model.register_parameter("temperature", torch::full({}, 3.0));
  auto const unmatched = load_safetensors(model, file, {.prefix = "inner.", .strict = false});
  CHECK(unmatched.missing == std::vector<std::string>{"temperature"});
  CHECK(unmatched.unexpected == std::vector<std::string>{"inner.mask"});
  CHECK(extra.item<float>() == 3);
  CHECK(model.dense->parameters()[0].equal(outer.inner->dense->parameters()[0]));
  SmallNet wide{4};
  check_contains(refusal(file, wide, {.prefix = "inner.", .strict = false}),
                 "'dense.1.weight' is {3, 4} Float there and {4, 4} Float in this model");
  Line line;
  check_contains(refusal(file, line, {.strict = false}), "no name in it is one of this model's");
}

TEST_CASE("a weight that a file has under one of its names is not missing under the others") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "tied.safetensors";
  write_text(file, file_of(R"({"head.weight":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})", 24));
  Tied model;
  load_safetensors(model, file);
  CHECK(model.named_parameters()["embedding.weight"].equal(torch::zeros({3, 2})));
  auto const unmatched = load_safetensors(model, file, {.strict = false});
  CHECK(unmatched.missing.empty());

  save_safetensors(model, file);  // both names, as load_state_dict wants them
  torch::nn::Module embedding;
  embedding.register_parameter("weight", torch::ones({3, 2}));
  load_safetensors(embedding, file, {.prefix = "embedding."});
  CHECK(embedding.parameters()[0].equal(torch::zeros({3, 2})));
}

TEST_CASE("a training's model is a new one, by its class, its arguments or a function") {
  TemporaryFolder const folder;
  std::vector<torch::Tensor> trained;
  auto const result = run_in(folder.path(), {.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SmallNet{4}; });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    for (int epoch = 0; epoch < 2; ++epoch) {
      optimizer.zero_grad();
      model->forward(torch::rand({5, 1, 4, 4})).sum().backward();
      optimizer.step();
      AveragedModel averaged{model};
      averaged.update();
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer, averaged));
    }
    if (ctx.world_rank() == Rank{0}) trained = copies(state_of_all(*model));
  });
  auto const checkpoint = result.checkpoint().value();
  auto const by_class = load_model<SmallNet>(checkpoint, 4);
  CHECK(same_bits(trained, state_of_all(*by_class)));
  CHECK(by_class->is_training());
  auto const by_function = load_model(checkpoint, [] { return std::make_shared<SmallNet>(4); });
  static_assert(std::same_as<decltype(by_function), std::shared_ptr<SmallNet> const>);
  CHECK(same_bits(trained, state_of_all(*by_function)));
  auto const of_file = load_model<SmallNet>(checkpoint.path() / "model.safetensors", 4);
  CHECK(same_bits(trained, state_of_all(*of_file)));
  auto averaged = load_model<SmallNet>(checkpoint, 4);
  auto const unmatched = load_safetensors(averaged, checkpoint.path() / AveragedModel::file_name, {.strict = false});
  CHECK(unmatched.missing.size() == averaged->buffers().size());
  check_contains(thrown_error([&] { return load_model<SmallNet>(checkpoint); }),
                 "'dense.1.weight' is {4, 4} Float there and {3, 4} Float in this model");
}

TEST_CASE("by a checkpoint's folder a model has the bytes that were committed, and others are refused") {
  TemporaryFolder const folder;
  auto const result = run_in(folder.path(), {.workers = 1}, [](TorchContext& ctx) {
    ctx.report(Epoch{0, 1.0}, save(ctx.prepare_model([] { return torch::nn::Linear{2, 3}; })));
  });
  auto const path = result.checkpoint().value().path();
  auto const before = load_model<torch::nn::Linear>(path, 2, 3);
  {
    std::fstream file{path / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary};
    file.seekg(-1, std::ios::end);
    auto const byte = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }
  torch::nn::Linear model{2, 3};
  auto const own = copies(model->parameters());
  check_contains(thrown_error([&] { return load_safetensors(model, path).missing; }),
                 "file 'model.safetensors' has other bytes than were written");
  CHECK(same_bits(copies(model->parameters()), own));
  load_safetensors(model, path / "model.safetensors");  // as Python reads it
  CHECK_FALSE(same_bits(copies(model->parameters()), copies(before->parameters())));
}

TEST_CASE("a module of LibTorch's own is loaded as itself") {
  TemporaryFolder const folder;
  torch::nn::Linear const linear{2, 3};
  save_safetensors(linear, folder.path() / "linear.safetensors");
  auto const again = load_model<torch::nn::Linear>(folder.path() / "linear.safetensors", 2, 3);
  static_assert(std::same_as<decltype(again), torch::nn::Linear const>);
  CHECK(same_state(*linear, *again));
}
