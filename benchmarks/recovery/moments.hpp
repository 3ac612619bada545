// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

/// Moments of a training, of all its processes, in a file that outlives them.
class Moments {
 public:
  explicit Moments(std::filesystem::path path) : path_{std::move(path)} {}

  void note(std::string const& what) const {
    auto const now = std::chrono::steady_clock::now().time_since_epoch();
    auto const line = what + ' ' + std::to_string(std::chrono::nanoseconds{now}.count()) + '\n';
    auto const file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    auto const written = ::write(file, line.data(), line.size());
    ::close(file);
    if (written != static_cast<::ssize_t>(line.size())) throw std::runtime_error{"cannot write " + path_.string()};
  }

  /// Milliseconds from the first moment of the one name to the first of the other.
  [[nodiscard]] auto ms_between(std::string const& begin, std::string const& end) const -> double {
    std::map<std::string, double> first;
    std::ifstream file{path_};
    std::string what;
    for (double ns = 0; file >> what >> ns;) first.emplace(what, ns);
    return (first.at(end) - first.at(begin)) / 1e6;
  }

 private:
  std::filesystem::path path_;
};

constexpr int epochs = 40;
constexpr int last_epoch_before = 20;  ///< In it a worker fails.
