// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Major, minor, patch.
using ModelVersion = std::array<int, 3>;

/// The version of XGBoost that has stored a model as JSON or UBJSON; nothing where the model does not say.
///
/// Source: XGBoost's documentation of its models, "version" beside "learner"; UBJSON, draft 12.
[[nodiscard]] inline auto model_version(BytesView model) -> std::optional<ModelVersion> {
  using namespace std::string_view_literals;
  auto const text = text_of(model);
  ModelVersion version{};
  // A counted array of three integers of one byte each.
  constexpr auto ubjson = "version[#L\0\0\0\0\0\0\0\3"sv;
  if (auto const at = text.rfind(ubjson); at != std::string_view::npos) {
    auto const numbers = text.substr(at + ubjson.size(), 2 * version.size());
    for (std::size_t i = 0; i < version.size(); ++i) {
      if (2 * i + 1 >= numbers.size() || numbers[2 * i] != 'i') return std::nullopt;
      version[i] = numbers[2 * i + 1];
    }
    return version;
  }
  constexpr auto json = "\"version\""sv;
  auto const at = text.rfind(json);
  if (at == std::string_view::npos) return std::nullopt;
  auto rest = text.substr(at + json.size());
  for (auto& number : version) {
    // Before each there is punctuation of its own.
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n\r\t:[,"), rest.size()));
    auto const [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (failed != std::errc{}) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  return version;
}

/// XGBoost takes a newer model without a word, and may predict something else from it: 1.7 reads no base score
/// of 3.2's.
///
/// Errors: `invalid_data` for a model of a newer XGBoost than this one, by more than a patch.
inline void check_model_version(BytesView model) {
  auto const theirs = model_version(model);
  ModelVersion ours{};
  ::XGBoostVersion(ours.data(), ours.data() + 1, ours.data() + 2);
  if (!theirs || std::pair{(*theirs)[0], (*theirs)[1]} <= std::pair{ours[0], ours[1]}) return;
  throw Error{Errc::invalid_data, "reading a model of XGBoost",
              fmt::format("XGBoost {} has stored it, and this program has XGBoost {}", fmt::join(*theirs, "."),
                          fmt::join(ours, ".")),
              "build with the newer XGBoost, or train the model with the older one"};
}

}  // namespace raytrain::detail
