// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/data/idx.hpp>

/// Where Debian's package dataset-fashion-mnist puts the four files.
inline std::filesystem::path const fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// Columns "image" and "label" of a part: "train", 60,000 images, or "t10k", 10,000 for tests.
inline auto read_fashion_mnist(std::filesystem::path const& folder, std::string const& part) -> raytrain::Dataset {
  try {
    return raytrain::read_idx(folder / (part + "-images-idx3-ubyte.gz"), folder / (part + "-labels-idx1-ubyte.gz"));
  } catch (raytrain::Error const& error) {
    throw std::runtime_error{
        std::string{error.what()} +
        "\nThe files come with Debian's package dataset-fashion-mnist; --data names another folder."};
  }
}
