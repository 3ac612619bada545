// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

/// Images {n, 28, 28} of bytes as the networks take them, {n, 1, 28, 28}.
inline auto standardized(torch::Tensor const& pixels) -> torch::Tensor {
  return pixels.unsqueeze(1).to(torch::kFloat).sub_(72.94).div_(90.02);  // mean and deviation of the pixels
}

/// A network that turns images {n, 1, 28, 28} into the logarithms of ten probabilities {n, 10}.
struct Network : torch::nn::Module {
  virtual auto forward(torch::Tensor images) -> torch::Tensor = 0;
};

/// 784-256-128-10 with ReLU: 235,146 parameters.
struct Mlp final : Network {
  auto forward(torch::Tensor images) -> torch::Tensor override {
    auto x = torch::relu(hidden1(images.flatten(1)));
    x = torch::relu(hidden2(x));
    return torch::log_softmax(output(x), 1);
  }

  torch::nn::Linear hidden1 = register_module("hidden1", torch::nn::Linear{784, 256});
  torch::nn::Linear hidden2 = register_module("hidden2", torch::nn::Linear{256, 128});
  torch::nn::Linear output = register_module("output", torch::nn::Linear{128, 10});
};

/// Two convolutions and two dense layers, as in PyTorch's C++ MNIST tutorial: 21,840 parameters.
struct ConvNet final : Network {
  auto forward(torch::Tensor images) -> torch::Tensor override {
    auto x = torch::relu(torch::max_pool2d(conv1(images), 2));
    x = torch::relu(torch::max_pool2d(dropout2d(conv2(x)), 2));
    x = torch::relu(dense1(x.flatten(1)));
    x = torch::dropout(x, 0.5, is_training());
    return torch::log_softmax(dense2(x), 1);
  }

  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d{torch::nn::Conv2dOptions{1, 10, 5}});
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d{torch::nn::Conv2dOptions{10, 20, 5}});
  torch::nn::Dropout2d dropout2d = register_module("dropout2d", torch::nn::Dropout2d{});
  torch::nn::Linear dense1 = register_module("dense1", torch::nn::Linear{320, 50});
  torch::nn::Linear dense2 = register_module("dense2", torch::nn::Linear{50, 10});
};

/// Two 3 x 3 convolutions beside a shortcut (He et al., "Deep Residual Learning for Image Recognition", 2015).
struct ResidualBlock final : torch::nn::Module {
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1{register_module("conv1", convolution(in, out, 3, stride))},
        norm1{register_module("norm1", torch::nn::BatchNorm2d{out})},
        conv2{register_module("conv2", convolution(out, out, 3, 1))},
        norm2{register_module("norm2", torch::nn::BatchNorm2d{out})} {
    if (stride != 1 || in != out) {
      shortcut->push_back(convolution(in, out, 1, stride));
      shortcut->push_back(torch::nn::BatchNorm2d{out});
    }
    register_module("shortcut", shortcut);
  }

  auto forward(torch::Tensor x) -> torch::Tensor {
    auto const direct = shortcut->is_empty() ? x : shortcut->forward(x);
    x = torch::relu(norm1(conv1(x)));
    return torch::relu(norm2(conv2(x)) + direct);
  }

  static auto convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride)
      -> torch::nn::Conv2d {
    return torch::nn::Conv2d{torch::nn::Conv2dOptions{in, out, size}.stride(stride).padding(size / 2).bias(false)};
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Sequential shortcut;
};

/// ResNet-18 for small images: a 3 x 3 stem without pooling, as its authors used for CIFAR. 11.2 million parameters.
/// `channels`: of an image.
struct ResNet18 final : Network {
  explicit ResNet18(std::int64_t channels = 1)
      : stem{register_module("stem", ResidualBlock::convolution(channels, 64, 3, 1))} {
    register_module("blocks", blocks);
    std::int64_t in = 64;
    for (auto const out : {64, 128, 256, 512}) {
      blocks->push_back(ResidualBlock{in, out, out == 64 ? 1 : 2});
      blocks->push_back(ResidualBlock{out, out, 1});
      in = out;
    }
  }

  auto forward(torch::Tensor images) -> torch::Tensor override {
    auto const x = blocks->forward(torch::relu(norm(stem(images))));
    return torch::log_softmax(output(x.mean({2, 3})), 1);
  }

  torch::nn::Conv2d stem;
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d{64});
  torch::nn::Sequential blocks;
  torch::nn::Linear output = register_module("output", torch::nn::Linear{512, 10});
};

/// `name`: mlp, conv or resnet18.
inline auto make_network(std::string const& name) -> std::shared_ptr<Network> {
  if (name == "mlp") return std::make_shared<Mlp>();
  if (name == "conv") return std::make_shared<ConvNet>();
  if (name == "resnet18") return std::make_shared<ResNet18>();
  throw std::invalid_argument{"there is no model '" + name + "'"};
}
