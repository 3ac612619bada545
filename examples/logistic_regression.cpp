// Tells shoes from clothes on Fashion-MNIST: workers have a part of the images each, and average their gradients.
// Run ./examples/run logistic_regression, or mpirun -n 4 build/examples/logistic_regression, and expect 99 % or more.
#include <raytrain/backend/mpi.hpp>
#include <raytrain/trainer.hpp>

#include "fashion_mnist/data.hpp"

struct Epoch {
  int epoch = 0;
  double accuracy = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(accuracy)); }
};

constexpr std::size_t pixels = 28 * 28;
constexpr auto shoes = std::array{5, 7, 9};  // the labels of sandals, sneakers and ankle boots
struct Sample {
  std::span<std::uint8_t const> image;
  bool is_shoe;
  Sample(raytrain::Dataset const& data, std::size_t row)
      : image{data.column("image").as<std::uint8_t>().subspan(row * pixels, pixels)},
        is_shoe{std::ranges::count(shoes, data.column("label").as<std::uint8_t>()[row]) > 0} {}
  auto probability_of_shoe(std::vector<float> const& weights) const -> float {  // one a pixel, and the bias
    return 1 / (1 + std::exp(-std::inner_product(image.begin(), image.end(), weights.begin(), weights.back())));
  }
};

void train(raytrain::MpiContext& ctx) {  // runs on every worker, a thread or a rank
  std::vector<float> weights(pixels + 1);
  auto shard = ctx.dataset_shard("train"), tests = ctx.dataset_shard("t10k");
  for (auto epoch = ctx.restore({{"weights", weights}}); epoch < 3; ++epoch) {
    for (auto const batch : shard.batches({.batch_size = 32, .epoch = epoch})) {
      std::vector<float> gradient(weights.size());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        Sample const sample{shard.dataset(), batch.row(i)};
        auto const error = sample.probability_of_shoe(weights) - static_cast<float>(sample.is_shoe);
        for (std::size_t p = 0; p < pixels; ++p) gradient[p] += error * sample.image[p];
        gradient[pixels] += error;
      }
      ctx.average(gradient);
      for (std::size_t p = 0; p <= pixels; ++p) weights[p] -= 1e-7F * gradient[p];
    }
    auto right = 0.0;
    for (auto const batch : tests.batches({.batch_size = 1, .shuffle = false})) {
      Sample const sample{tests.dataset(), batch.row(0)};
      right += (sample.probability_of_shoe(weights) > 0.5F) == sample.is_shoe;
    }
    auto const accuracy = ctx.average(right / static_cast<double>(tests.rows()));
    ctx.report(Epoch{epoch, accuracy}, raytrain::save({{"weights", weights}}));
  }
}

int main() {
  raytrain::TrainerConfig<raytrain::MpiBackend> config{.data = {.datasets_to_split = {"train", "t10k"}}};
  for (auto part : {"train", "t10k"}) config.datasets[part] = read_fashion_mnist(fashion_mnist_folder, part);
  if (!raytrain::job_environment()) config.scaling.num_workers = 2;  // threads; a job has its ranks
  auto const result = raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
  if (result.state == raytrain::RunState::aborted) return 75;  // stopped: run again, it goes on
  auto const accuracy = result.metrics.number("accuracy").value_or(0);
  if (raytrain::is_first_of_job()) fmt::print("{:.2f} % of the test images are told apart\n", 100 * accuracy);
  return accuracy > 0.98 ? 0 : 1;
}
