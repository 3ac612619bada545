// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

/// How a program without raytrain reads the images and draws its batches.
namespace job {

/// The bytes of a gzip file behind its header.
inline auto read_gzip(std::string const& path, std::int64_t header_bytes, std::int64_t bytes) -> torch::Tensor {
  std::unique_ptr<gzFile_s, decltype(&gzclose)> const file{gzopen(path.c_str(), "rb"), &gzclose};
  auto content = torch::empty({bytes}, torch::kByte);
  if (!file || gzbuffer(file.get(), 1U << 18U) != 0 || gzseek(file.get(), header_bytes, SEEK_SET) != header_bytes ||
      gzread(file.get(), content.data_ptr(), static_cast<unsigned>(bytes)) != bytes) {
    throw std::runtime_error{"cannot read " + path};
  }
  return content;
}

/// Random batches of one rank's part of the training set, drawn anew in every epoch.
class Batches {
 public:
  Batches(std::string const& folder, std::int64_t batch, int rank, int ranks)
      : images_{read_gzip(folder + "/train-images-idx3-ubyte.gz", 16, samples * 784).view({samples, 1, 28, 28})},
        labels_{read_gzip(folder + "/train-labels-idx1-ubyte.gz", 8, samples)},
        batch_{batch},
        rank_{rank},
        ranks_{ranks} {}

  /// Images and labels.
  auto next() -> std::pair<torch::Tensor, torch::Tensor> {
    if (position_ + batch_ > order_.numel()) {
      order_ = torch::randperm(samples, generator_).slice(0, rank_, torch::nullopt, ranks_).contiguous();
      position_ = 0;
    }
    auto const rows = order_.narrow(0, position_, batch_);
    position_ += batch_;
    return {images_.index_select(0, rows), labels_.index_select(0, rows)};
  }

 private:
  static constexpr std::int64_t samples = 60'000;

  torch::Tensor images_;
  torch::Tensor labels_;
  std::int64_t batch_;
  int rank_;
  int ranks_;
  torch::Generator generator_ = torch::make_generator<torch::CPUGeneratorImpl>(7);  // the same order on every rank
  torch::Tensor order_ = torch::empty({0}, torch::kLong);
  std::int64_t position_ = 0;
};

}  // namespace job
