// SPDX-License-Identifier: Apache-2.0
// How long a checkpoint of a model stops training, until it is on disk and to load it, and the same work in other ways.
//   checkpoint_cost save MIB TURNS FOLDER    medians of the turns, in which all ways have their place
//   checkpoint_cost load MIB torch|raytrain cached|cold FOLDER    once, what `save` has left in the folder
#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/trainer.hpp>

namespace {

constexpr std::size_t aligned_to = 4096;
constexpr std::size_t piece_bytes = std::size_t{8} << 20U;

struct Epoch {
  int epoch;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch));
  }
};

auto now_ms() -> double {
  return std::chrono::duration<double, std::milli>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// Square layers of 4 MiB each.
auto make_model(std::size_t mebibytes) -> torch::nn::Sequential {
  torch::NoGradGuard const no_grad;
  torch::nn::Sequential model;
  for (std::size_t i = 0; i < std::max<std::size_t>(mebibytes / 4, 1); ++i) {
    torch::nn::Linear layer{torch::nn::LinearOptions(1024, 1024).bias(false)};
    layer->weight.fill_(static_cast<double>(i) + 0.5);
    model->push_back(layer);
  }
  return model;
}

auto has_same_values(torch::nn::Sequential& left, torch::nn::Sequential& right) -> bool {
  auto const a = left->parameters();
  auto const b = right->parameters();
  return std::ranges::equal(a, b, [](auto const& one, auto const& other) { return torch::equal(one, other); });
}

/// Tells when a checkpoint is on disk and committed.
struct Committed : raytrain::Callback {
  void on_checkpoint(raytrain::Checkpoint const& checkpoint) override {
    number = checkpoint.number().value;
    number.notify_all();
  }
  std::atomic<std::uint64_t> number{0};
};

/// Writes all of a buffer to a new file, durably, O_DIRECT where `flags` say so; its size is that of whole pages.
void write_durably(std::string const& path, std::byte const* bytes, std::size_t size_bytes, int flags) {
  raytrain::FileDescriptor const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | flags, 0666)};
  for (std::size_t place = 0; file.is_open() && place < size_bytes;) {
    auto const written = ::write(file.get(), bytes + place, std::min(piece_bytes, size_bytes - place));
    if (written <= 0) throw std::runtime_error{"cannot write " + path};
    place += static_cast<std::size_t>(written);
  }
  if (!file.is_open() || ::fsync(file.get()) != 0) throw std::runtime_error{"cannot write " + path};
}

class Figures {
 public:
  template <class F>
  void time(std::string const& name, F&& work) {
    auto const begin = now_ms();
    work();
    add(name, now_ms() - begin);
  }
  void add(std::string const& name, double value) { values_[name].push_back(value); }

  void print(std::size_t bytes) {
    std::printf("{\"bytes\": %zu, \"torch\": \"%s\"", bytes, TORCH_VERSION);
    for (auto& [name, values] : values_) {
      auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::ranges::nth_element(values, middle);
      std::printf(", \"%s\": %.3f", name.c_str(), *middle);
    }
    std::printf("}\n");
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

/// Memory of the benchmark's own, all pages there.
class Warm {
 public:
  explicit Warm(std::size_t size_bytes)
      : size_bytes_{(size_bytes + aligned_to - 1) / aligned_to * aligned_to},
        bytes_{static_cast<std::byte*>(std::aligned_alloc(aligned_to, size_bytes_))} {
    std::memset(bytes_.get(), 1, size_bytes_);
  }
  [[nodiscard]] auto data() const -> std::byte* { return bytes_.get(); }
  [[nodiscard]] auto size() const -> std::size_t { return size_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::size_t size_bytes_;
  std::unique_ptr<std::byte, Free> bytes_;
};

/// What training is stopped by and for how long, and how long the disk takes.
void save_in_turns(raytrain::TorchContext& ctx, torch::nn::Sequential& model, Committed& committed, int turns,
                   std::string const& folder, Figures& figures) {
  std::size_t bytes = 0;
  for (auto const& parameter : model->parameters()) bytes += parameter.nbytes();
  Warm const copy{bytes};
  for (int turn = 0; turn <= turns; ++turn) {
    auto const is_first = turn == 0;
    auto const begin = now_ms();
    ctx.report(Epoch{turn}, raytrain::save(model));
    figures.add(is_first ? "first_stall_ms" : "stall_ms", now_ms() - begin);
    committed.number.wait(static_cast<std::uint64_t>(turn));
    if (is_first) continue;
    figures.add("durable_ms", now_ms() - begin);
    figures.time("memcpy_ms", [&] {
      auto* place = copy.data();
      for (auto const& parameter : model->parameters()) {
        std::memcpy(place, parameter.data_ptr(), parameter.nbytes());
        place += parameter.nbytes();
      }
    });
    figures.time("torch_save_memory_ms", [&] {
      std::ostringstream stream;
      torch::save(model, stream);
    });
    std::filesystem::remove(folder + "/model.pt");
    figures.time("torch_save_file_ms", [&] { torch::save(model, folder + "/model.pt"); });
    ::sync();  // what torch::save has left to write is not the next one's work
    // The one before goes when the new one is there, as in a store that keeps one.
    auto const write = [&](std::string const& name, int flags) {
      figures.time(name + "_ms", [&] { write_durably(folder + "/" + name + ".new", copy.data(), copy.size(), flags); });
      std::filesystem::rename(folder + "/" + name + ".new", folder + "/" + name);
    };
    write("write", 0);
    write("direct", O_DIRECT);
  }
}

/// Saves in turns, and leaves the last checkpoint and model.pt in the folder.
void save_all(std::size_t mebibytes, int turns, std::string const& folder) {
  auto model = make_model(mebibytes);
  auto const committed = std::make_shared<Committed>();
  Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) { save_in_turns(ctx, model, *committed, turns, folder, figures); },
      {.scaling = {.num_workers = 1},
       .run = {.name = "run", .storage_path = folder, .checkpoint = {.num_to_keep = 1}},
       .callbacks = {committed}}};
  auto const result = trainer.fit();
  if (!result.checkpoint()) throw std::runtime_error{"there is no checkpoint"};
  std::filesystem::rename(result.checkpoint()->path(), folder + "/checkpoint");
  figures.print(mebibytes << 20U);
}

/// Has the system keep a file in its memory, or not.
void set_cached(std::string const& path, bool cached) {
  if (cached) {
    std::ifstream file{path, std::ios::binary};
    for (std::vector<char> piece(std::size_t{1} << 20U); file.read(piece.data(), std::ssize(piece));) {
    }
    return;
  }
  raytrain::FileDescriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  auto const is_written = file.is_open() && ::fsync(file.get()) == 0;
  if (is_written && ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0) return;
  throw std::runtime_error{"the system does not let go of " + path};
}

/// Loads once, as at the start of a process.
void load_one(std::size_t mebibytes, bool by_torch, bool cached, std::string const& folder) {
  set_cached(by_torch ? folder + "/model.pt" : folder + "/checkpoint/model.safetensors", cached);
  auto model = make_model(mebibytes);
  auto loaded = make_model(mebibytes);
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : loaded->parameters()) parameter.zero_();
  }
  Figures figures;
  figures.time("load_ms", [&] {
    if (by_torch) {
      torch::load(loaded, folder + "/model.pt");
    } else {
      raytrain::load(raytrain::Checkpoint::from_directory(folder + "/checkpoint"), loaded);
    }
  });
  if (!has_same_values(loaded, model)) throw std::runtime_error{"other values were loaded"};
  figures.print(mebibytes << 20U);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::vector<std::string> const arguments{argv + 1, argv + argc};
  auto const saves = arguments.size() == 4 && arguments[0] == "save";
  if (!saves && arguments.size() != 5) {
    throw std::invalid_argument{"arguments: save MiB turns folder, or load MiB raytrain|torch cached|cold folder"};
  }
  auto const mebibytes = static_cast<std::size_t>(std::stoul(arguments[1]));
  if (saves) {
    std::filesystem::create_directories(arguments[3]);
    save_all(mebibytes, std::stoi(arguments[2]), arguments[3]);
  } else {
    load_one(mebibytes, arguments[2] == "torch", arguments[3] == "cached", arguments[4]);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "checkpoint_cost: %s\n", error.what());
  return 1;
}
