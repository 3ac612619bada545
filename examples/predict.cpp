// Tells what the test images of Fashion-MNIST show, by a network that fashion_mnist has trained, from its best
// checkpoint. Run ./examples/run fashion_mnist, then ./examples/run predict [RUN], and expect the accuracy that the
// training has reported.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>
#include <raytrain/train/result.hpp>

#include "fashion_mnist/data.hpp"
#include "fashion_mnist/networks.hpp"

constexpr std::array kinds{"T-shirt", "trousers", "pullover", "dress", "coat",
                           "sandal",  "shirt",    "sneaker",  "bag",   "boot"};

int main(int argc, char** argv) try {
  auto const run = std::filesystem::weakly_canonical(argc > 1 ? argv[1] : "runs/fashion_mnist_mlp");
  auto const run_name = (run.has_filename() ? run : run.parent_path()).filename().string();
  std::string const beginning = "fashion_mnist_";
  if (!run_name.starts_with(beginning)) {
    throw std::runtime_error{
        fmt::format("{} is no run of fashion_mnist: name one, as runs/fashion_mnist_mlp", run.string())};
  }
  auto const result = raytrain::Result::from_path(run);
  auto const best = result.best_checkpoint("accuracy", raytrain::ScoreOrder::max);
  if (!best) throw std::runtime_error{fmt::format("{} has no finished epoch yet: train on", run.string())};
  auto const& checkpoint = *best;
  auto const network = run_name.substr(beginning.size());  // mlp, conv or resnet18
  raytrain::TorchPredictor const predictor{raytrain::load_model(checkpoint, [&] { return make_network(network); })};

  auto const test = read_fashion_mnist(fashion_mnist_folder, "t10k");
  auto const column = [&](auto const& name) {
    auto const bytes = test.column(name).bytes();
    return torch::from_blob(const_cast<std::byte*>(bytes.data()), static_cast<std::int64_t>(bytes.size()),
                            torch::kByte);
  };
  auto const said = predictor.predict(standardized(column("image").view({-1, 28, 28}))).argmax(1);
  auto const truth = column("label");
  for (int image = 0; image < 8; ++image) {
    fmt::print("{:<10} is said to be a {}\n", kinds.at(truth[image].item<int>()), kinds.at(said[image].item<int>()));
  }
  auto const accuracy = said.eq(truth).to(torch::kDouble).mean().item<double>();
  auto const reported = checkpoint.metrics().number("accuracy").value();
  fmt::print("{:.2f} % are right; the training has reported {:.2f} %\n", 100 * accuracy, 100 * reported);
  return std::abs(accuracy - reported) < 1e-3 ? 0 : 1;
} catch (std::exception const& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
