// Finds clusters of Fashion-MNIST's images by k-means, the same ones on any number of workers, and says how pure they
// are. Run ./examples/run kmeans on threads, or mpirun -n 4 build/examples/kmeans; expect a purity of 55 % or more.
#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "fashion_mnist/data.hpp"

namespace {

constexpr std::size_t pixels = 28 * 28;
constexpr std::size_t classes = 10;

struct Options {
  std::filesystem::path data = fashion_mnist_folder;
  std::size_t samples = 60'000;
  std::size_t clusters = 10;
  int workers = 0;
  int iterations = 50;
  std::uint64_t seed = 0;
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

struct Iteration {
  int iteration = 0;
  double inertia = 0;  // sum of the images' squared distances to the nearest centroid, of pixels from 0 to 255
  double purity = 0;   // share of the images whose label is the most frequent one in their cluster
  double moved = 0;    // how far the centroid went that went farthest
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(iteration), CEREAL_NVP(inertia), CEREAL_NVP(purity), CEREAL_NVP(moved));
  }
};

using Pixels = std::span<std::uint8_t const, pixels>;

// A worker's part of the images. Together the workers have each one once, however many they are.
class Images {
 public:
  explicit Images(raytrain::DatasetShard const& shard)
      : part_{shard.part()},
        pixels_{part_.column("image").as<std::uint8_t>()},
        labels_{part_.column("label").as<std::uint8_t>()},
        all_{shard.dataset().rows()} {}

  [[nodiscard]] auto size() const -> std::size_t { return part_.rows(); }
  [[nodiscard]] auto all() const -> std::size_t { return all_; }  // of all workers
  [[nodiscard]] auto operator[](std::size_t i) const -> Pixels { return pixels_.subspan(i * pixels).first<pixels>(); }
  [[nodiscard]] auto label(std::size_t i) const -> std::size_t { return labels_[i]; }

 private:
  raytrain::Dataset part_;
  std::span<std::uint8_t const> pixels_;
  std::span<std::uint8_t const> labels_;
  std::size_t all_;
};

// Images far from those that were taken before are taken with a greater chance (Arthur and Vassilvitskii, "k-means++",
// 2007). In integers, so that all numbers of workers take the same ones.
auto first_centroids(raytrain::MpiContext& ctx, Images const& images, std::size_t clusters) -> std::vector<float> {
  std::mt19937_64 random{ctx.seed()};
  std::vector<std::uint64_t> chances(images.size(), 1);
  std::vector<float> centroids;
  for (std::size_t cluster = 0; cluster < clusters; ++cluster) {
    auto const sums = ctx.all_gather(std::reduce(chances.begin(), chances.end()));
    auto const all = std::reduce(sums.begin(), sums.end());
    if (all == 0) throw std::runtime_error{fmt::format("there are only {} different images", cluster)};
    auto left = random() % all;
    raytrain::Rank owner;
    for (; left >= sums[owner.value]; ++owner.value) left -= sums[owner.value];
    std::array<std::uint8_t, pixels> taken{};
    if (owner == ctx.world_rank()) {
      std::size_t at = 0;
      for (; left >= chances[at]; ++at) left -= chances[at];
      std::ranges::copy(images[at], taken.begin());
    }
    ctx.replicate(taken, owner);
    centroids.insert(centroids.end(), taken.begin(), taken.end());
    for (std::size_t i = 0; i < images.size(); ++i) {
      std::uint64_t distance = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        auto const difference = images[i][p] - taken[p];
        distance += static_cast<std::uint64_t>(difference * difference);
      }
      chances[i] = cluster == 0 ? distance : std::min(chances[i], distance);
    }
  }
  return centroids;
}

// Squared. Sixteen sums side by side, which a processor adds to at once.
auto distance(std::span<float const, pixels> image, std::span<float const, pixels> centroid) -> float {
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> sums{};
  for (std::size_t p = 0; p < pixels; p += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto const difference = image[p + lane] - centroid[p + lane];
      sums[lane] += difference * difference;
    }
  }
  return std::reduce(sums.begin(), sums.end());
}

// One of Lloyd's iterations: each image goes to the nearest centroid, and each centroid to the middle of its images.
auto iterate(raytrain::MpiContext& ctx, Images const& images, std::span<float> centroids) -> Iteration {
  auto const clusters = centroids.size() / pixels;
  std::vector<std::uint32_t> sums(centroids.size());      // of the pixels, by cluster
  std::vector<std::uint32_t> counts(clusters * classes);  // of the images, by cluster and label
  std::array<float, pixels> image{};
  Iteration report;
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::ranges::copy(images[i], image.begin());
    auto nearest = std::numeric_limits<float>::infinity();
    std::size_t cluster = 0;
    for (std::size_t candidate = 0; candidate < clusters; ++candidate) {
      auto const far = distance(image, centroids.subspan(candidate * pixels).first<pixels>());
      if (far < nearest) {
        nearest = far;
        cluster = candidate;
      }
    }
    report.inertia += nearest;
    for (std::size_t p = 0; p < pixels; ++p) sums[cluster * pixels + p] += images[i][p];
    ++counts[cluster * classes + images.label(i)];
  }

  ctx.sum(sums);  // integers: the same for any number of workers
  ctx.sum(counts);
  report.inertia = ctx.sum(report.inertia);

  auto pure = 0.0;
  auto all = 0.0;
  for (std::size_t cluster = 0; cluster < clusters; ++cluster) {
    auto const labels = std::span{counts}.subspan(cluster * classes, classes);
    auto const size = std::reduce(labels.begin(), labels.end());
    pure += std::ranges::max(labels);
    all += size;
    if (size == 0) continue;  // an empty cluster stays where it is
    auto moved = 0.0;
    for (std::size_t at = cluster * pixels; at < (cluster + 1) * pixels; ++at) {
      auto const middle = static_cast<float>(static_cast<double>(sums[at]) / size);
      moved += (middle - centroids[at]) * (middle - centroids[at]);
      centroids[at] = middle;
    }
    report.moved = std::max(report.moved, std::sqrt(moved));
  }
  report.purity = pure / all;
  return report;
}

void train(raytrain::MpiContext& ctx, Options const& options) {
  Images const images{ctx.dataset_shard("train")};
  std::vector<float> centroids(options.clusters * pixels);
  auto iteration = ctx.restore({{"centroids", centroids}});
  if (iteration == 0) centroids = first_centroids(ctx, images, options.clusters);
  auto moves = iteration == 0 || ctx.checkpoint()->metrics().number("moved") != 0.0;
  for (; moves && iteration < options.iterations; ++iteration) {
    auto report = iterate(ctx, images, centroids);
    if (ctx.stop_requested()) return;
    report.iteration = iteration;
    moves = report.moved > 0;
    ctx.progress(images.all() * static_cast<std::size_t>(iteration + 1),
                 images.all() * static_cast<std::size_t>(options.iterations),
                 fmt::format("inertia {:.4e}, purity {:.1f} %", report.inertia, 100 * report.purity));
    ctx.report(report, raytrain::save({{"centroids", centroids}}));
  }
}

// What went wrong, if anything did: no iteration makes the distances longer.
auto problem_of(raytrain::Result const& result, std::size_t clusters) -> std::string {
  std::map<int, double> inertia;
  for (auto const& report : result.history) {
    auto const iteration = raytrain::metrics_cast<Iteration>(report.metrics);
    inertia[iteration.iteration] = iteration.inertia;
  }
  auto last = std::numeric_limits<double>::infinity();
  for (auto const& [iteration, value] : inertia) {
    if (!(value <= last * (1 + 1e-6))) return fmt::format("Inertia went up in iteration {}.", iteration);
    last = value;
  }
  auto const purity = result.metrics.number("purity").value_or(0);
  if (clusters >= classes && purity < 0.4) return "The clusters have little to do with the labels.";
  return {};
}

auto run(Options const& options) -> int {
  auto const data = read_fashion_mnist(options.data, "train");
  auto const job = raytrain::job_environment();
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  raytrain::Trainer<raytrain::MpiBackend> trainer{
      train,
      options,
      {.scaling = {.num_workers = workers},
       .run = {.name = fmt::format("kmeans_{}", options.samples),  // of other images the inertia is another one
               .storage_path = options.storage,
               .checkpoint = {.num_to_keep = 2},
               .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic,
               .seed = options.seed},
       .datasets = {{"train", data.head(options.samples)}},
       .callbacks = {std::make_shared<raytrain::ProgressBar>()}}};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return EX_TEMPFAIL;
  auto const problem = problem_of(result, options.clusters);
  if (raytrain::is_first_of_job()) {  // the result is the same on every rank
    auto const last = raytrain::metrics_cast<Iteration>(result.metrics);
    fmt::print("\n{} iterations, inertia {:.6e}, purity {:.2f} %\n", last.iteration + 1, last.inertia,
               100 * last.purity);
    if (auto const checkpoint = result.checkpoint()) {
      fmt::print("centroids        {}\n", (checkpoint->path() / "centroids.npy").string());
    }
    auto const further = last.moved > 0 ? "--iterations N goes on with more of them; " : "";
    if (result.nothing_left) fmt::print("\nThis run is finished. {}--fresh starts anew.\n", further);
    if (!problem.empty()) fmt::print(stderr, "\n{}\n", problem);
  }
  return problem.empty() ? 0 : 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Finds clusters of Fashion-MNIST's images. Run again, it goes on from its newest checkpoint."};
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.data, "folder with the four files of Fashion-MNIST, gzip");
  app.add_option("--samples", options.samples, "training images to use, the first ones")->check(CLI::PositiveNumber);
  app.add_option("--clusters", options.clusters, "how many to find")->check(CLI::PositiveNumber);
  app.add_option("--workers", options.workers,
                 "threads that work together, ScalingConfig::num_workers; 0: 2, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--iterations", options.iterations, "at most; it ends when no centroid moves")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of the choice of the first centroids");
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
