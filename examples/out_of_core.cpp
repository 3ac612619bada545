// Trains on rows that take more space than the process may have memory: they lie in memory-mapped files, and each epoch
// takes them window by window, shuffled.
// Run ./examples/run out_of_core --stream 4G --memory 200M, on threads or with --ranks 2, and expect 85 % or more; the
// system refuses more memory than that.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/preprocess/concatenator.hpp>
#include <raytrain/trainer.hpp>

namespace {

using raytrain::Dataset;
using raytrain::DatasetBlocks;

struct Options {
  std::size_t stream = std::size_t{256} << 20U;
  std::size_t memory = std::size_t{200} << 20U;
  std::string csv = "";
  int workers = 0;
  int epochs = 2;
  std::filesystem::path folder = "out_of_core_rows";
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

constexpr std::size_t features = 28;
constexpr std::size_t block_rows = 65'536;

/// "x" has numbers from -1 to 1; "y" is 1 where their alternating sum plus noise is above 0.
auto drawn_rows(std::uint64_t seed, std::size_t rows) -> Dataset {
  std::mt19937_64 random{seed};
  auto const share = [&] { return static_cast<float>(random() >> 40U) * 0x1p-23F - 1; };
  std::vector<float> x(rows * features);
  std::vector<float> y(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    auto score = share();
    for (std::size_t i = 0; i < features; ++i) {
      auto& value = x[row * features + i];
      value = share();
      score += i % 2 == 0 ? value : -value;
    }
    y[row] = score > 0 ? 1 : 0;
  }
  return Dataset::from_columns({{"x", std::move(x), {features}}, {"y", std::move(y)}});
}

/// Of the CSV files, whose last column is the label, or else drawn rows of about `stream` bytes.
auto blocks_of(Options const& options) -> DatasetBlocks {
  if (!options.csv.empty()) {
    return raytrain::csv_blocks(options.csv).map("x and y", [](Dataset const& block) {
      auto names = block.column_names();
      auto const label = names.back();
      names.pop_back();
      return raytrain::Concatenator{.columns = names, .output_column_name = "x"}.transform(block).rename_columns(
          {{label, "y"}});
    });
  }
  auto const blocks = std::max<std::size_t>(options.stream / (block_rows * (features + 1) * sizeof(float)), 1);
  return {fmt::format("{} blocks of {} drawn rows, version 1", blocks, block_rows),
          [blocks, next = std::size_t{0}]() mutable -> std::optional<Dataset> {
            if (next == blocks) return std::nullopt;
            return drawn_rows(next++, block_rows);
          }};
}

struct Epoch {
  std::int64_t epoch = 0;
  double accuracy = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(accuracy)); }
};

/// Logistic regression. The accuracy is that of each batch before the weights learn from it.
void train(raytrain::MpiContext& ctx, int const& epochs) {
  auto shard = ctx.dataset_shard("train");
  auto const width = shard.dataset().column("x").row_values();
  std::vector<float> weights(width + 1);
  std::vector<float> x;
  std::vector<float> y;
  for (auto epoch = ctx.restore({{"weights", weights}}); epoch < epochs; ++epoch) {
    double right = 0;
    double rows = 0;
    for (auto const batch : shard.batches({.batch_size = 1'024, .epoch = epoch, .shuffle_window = block_rows})) {
      x.resize(batch.size() * width);
      y.resize(batch.size());
      batch.gather("x", std::span{x});
      batch.gather("y", std::span{y});
      std::vector<float> gradient(weights.size());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        auto const row = std::span{x}.subspan(i * width, width);
        auto const score = std::inner_product(row.begin(), row.end(), weights.begin(), weights.back());
        auto const error = 1 / (1 + std::exp(-score)) - y[i];
        for (std::size_t p = 0; p < width; ++p) gradient[p] += error * row[p];
        gradient[width] += error;
        right += (score > 0) == (y[i] > 0.5F) ? 1 : 0;
      }
      rows += static_cast<double>(batch.size());
      ctx.average(gradient);
      for (std::size_t p = 0; p <= width; ++p) weights[p] -= 0.01F * gradient[p];
    }
    ctx.report(Epoch{epoch, ctx.average(right / rows)}, raytrain::save({{"weights", weights}}));
  }
}

/// From then on the system refuses more memory of the process's own; mapped files do not count.
void limit_memory(std::size_t bytes) {
  ::rlimit const limit{bytes, bytes};
  if (::setrlimit(RLIMIT_DATA, &limit) == 0) return;
  throw std::system_error{errno, std::generic_category(), "--memory: the system does not limit it"};
}

/// Resident memory that is no part of a file, in MiB.
auto own_mib() -> double {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    if (double kilobytes = 0; word == "RssAnon:" && status >> kilobytes) return kilobytes / 1024;
  }
  throw std::runtime_error{"/proc/self/status has no RssAnon"};
}

auto run(Options const& options) -> int {
  limit_memory(options.memory);
  auto const begin = std::chrono::steady_clock::now();
  auto const rows = raytrain::materialize(options.folder, blocks_of(options));
  auto const seconds = std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count();
  std::size_t bytes = 0;
  for (auto const& column : rows.columns()) bytes += column.bytes().size();
  if (raytrain::is_first_of_job()) {
    fmt::print("{} rows, {} MiB, are in '{}' after {:.1f} s\n", rows.rows(), bytes >> 20U, options.folder.string(),
               seconds);
  }
  auto const job = raytrain::job_environment();
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  raytrain::Trainer<raytrain::MpiBackend> trainer{
      train,
      options.epochs,
      {.scaling = {.num_workers = workers},
       .run = {.name = "out_of_core",
               .storage_path = options.storage,
               .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic},
       .datasets = {{"train", rows}},
       .callbacks = {std::make_shared<raytrain::ProgressBar>()}}};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return 75;
  auto const accuracy = result.metrics.number("accuracy").value_or(0);
  if (raytrain::is_first_of_job()) {
    fmt::print("\n{:.2f} % of the rows are told apart; {:.0f} MiB of memory are in use, of at most {}\n",
               100 * accuracy, own_mib(), options.memory >> 20U);
  }
  return accuracy > 0.85 ? 0 : 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Trains on rows that take more space than the process may have memory."};
  app.option_defaults()->always_capture_default();
  auto* const stream = app.add_option("--stream", options.stream, "bytes of rows to be drawn: 256M, 4G")
                           ->transform(CLI::AsSizeValue{false});
  app.add_option("--memory", options.memory, "most bytes that the process may keep: 200M")
      ->transform(CLI::AsSizeValue{false});
  app.add_option("--csv", options.csv, "files of numbers, the label 0 or 1 last, in place of drawn rows: 'rows/*.csv'")
      ->excludes(stream);
  app.add_option("--workers", options.workers,
                 "threads that work together, ScalingConfig::num_workers; 0: 2, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--epochs", options.epochs, "passes over the rows")->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder,
                 "where the rows lie; the next start finds them there, and other rows need another one");
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
