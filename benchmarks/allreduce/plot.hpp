// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "measurement.hpp"
#include "options.hpp"
#include "report.hpp"

/// Bus bandwidth over size as an SVG picture, both axes logarithmic.
class Plot {
 public:
  explicit Plot(std::vector<Row> rows) : rows_{std::move(rows)} {
    std::erase_if(rows_, [](Row const& row) { return row.bytes == 0; });  // which no logarithmic axis has
    if (rows_.empty()) throw std::invalid_argument{"--plot: every array has 0 bytes; name larger --sizes"};
    auto const by_size = [](Row const& a, Row const& b) { return a.bytes < b.bytes; };
    auto const by_speed = [](Row const& a, Row const& b) { return a.bus_bandwidth < b.bus_bandwidth; };
    auto const [least, most] = std::minmax_element(rows_.begin(), rows_.end(), by_size);
    auto const [slowest, fastest] = std::minmax_element(rows_.begin(), rows_.end(), by_speed);
    x_low_ = std::log2(static_cast<double>(least->bytes));
    x_high_ = std::max(x_low_ + 1, std::log2(static_cast<double>(most->bytes)));
    y_low_ = std::floor(std::log10(std::max(slowest->bus_bandwidth, 1e-4)));
    y_high_ = std::max(y_low_ + 1, std::ceil(std::log10(std::max(fastest->bus_bandwidth, 1e-4))));
  }

  [[nodiscard]] auto svg(Setting const& setting, Options const& options) const -> std::string {
    auto text = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0f} {:.0f}" font-family="sans-serif" font-size="13">)"
        "\n"
        R"(<rect width="100%" height="100%" fill="white"/>)"
        "\n"
        R"(<text x="{:.0f}" y="28" font-size="16">{} of {}, {}, {} {}</text>)"
        "\n",
        width, height, left, options.collective, options.type, options.op, setting.ranks, setting.where);
    text += axes();
    std::string line;
    std::string points;
    for (auto const& row : rows_) {
      auto const at_x = x(std::log2(static_cast<double>(row.bytes)));
      auto const at_y = y(std::log10(std::max(row.bus_bandwidth, 1e-4)));
      line += fmt::format("{:.1f},{:.1f} ", at_x, at_y);
      points += fmt::format(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="#1f5fa8"><title>{} B: {:.3f} GB/s, {:.2f} us</title></circle>)"
          "\n",
          at_x, at_y, row.bytes, row.bus_bandwidth, row.p50_us);
    }
    text += fmt::format(R"(<polyline points="{}" fill="none" stroke="#1f5fa8" stroke-width="2"/>)", line) + "\n";
    return text + points + "</svg>\n";
  }

 private:
  static constexpr double width = 760;
  static constexpr double height = 440;
  static constexpr double left = 80;
  static constexpr double right = 24;
  static constexpr double top = 44;
  static constexpr double bottom = 60;

  [[nodiscard]] auto x(double log2_bytes) const -> double {
    return left + (log2_bytes - x_low_) / (x_high_ - x_low_) * (width - left - right);
  }
  [[nodiscard]] auto y(double log10_speed) const -> double {
    return height - bottom - (log10_speed - y_low_) / (y_high_ - y_low_) * (height - top - bottom);
  }

  [[nodiscard]] static auto size_name(double log2_bytes) -> std::string {
    auto const bytes = std::exp2(log2_bytes);
    if (bytes >= std::exp2(20)) return fmt::format("{:.0f} MiB", bytes / std::exp2(20));
    if (bytes >= std::exp2(10)) return fmt::format("{:.0f} KiB", bytes / std::exp2(10));
    return fmt::format("{:.0f} B", bytes);
  }

  [[nodiscard]] auto axes() const -> std::string {
    std::string text;
    // At most some ten names on the axis of sizes.
    auto const step = std::max(1.0, std::ceil((x_high_ - x_low_) / 9));
    for (auto size = std::ceil(x_low_); size <= x_high_; size += step) {
      text += fmt::format(R"(<path d="M{0:.1f} {1:.1f}V{2:.1f}" stroke="#ddd"/>)", x(size), top, height - bottom);
      text += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", x(size),
                          height - bottom + 20, size_name(size));
      text += "\n";
    }
    for (auto decade = y_low_; decade <= y_high_; ++decade) {
      text += fmt::format(R"(<path d="M{0:.1f} {1:.1f}H{2:.1f}" stroke="#ddd"/>)", left, y(decade), width - right);
      text += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{:g}</text>)", left - 8, y(decade) + 4,
                          std::pow(10, decade));
      text += "\n";
    }
    text += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">size of the array</text>)",
                        (left + width - right) / 2, height - 14);
    text += fmt::format(
        R"svg(<text transform="translate(20 {:.1f}) rotate(-90)" text-anchor="middle">bus bandwidth, GB/s</text>)svg",
        (top + height - bottom) / 2);
    return text + "\n";
  }

  std::vector<Row> rows_;
  double x_low_ = 0;
  double x_high_ = 0;
  double y_low_ = 0;
  double y_high_ = 0;
};
