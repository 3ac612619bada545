// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/data_loaders.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void DataLoaders::add(Collective& collective, std::string_view name,
                                            std::optional<std::size_t> examples,
                                            std::vector<std::string> const& datasets) {
  auto const text = fmt::format("'{}' of {} examples", name, examples ? std::to_string(*examples) : "unknown");
  auto const attempted = fmt::format("making data loader {}", ++count_);
  TaggedCollective making{collective, {.of = CallOf::loader, .number = count_}};
  auto const texts = all_gather_objects(making, text);
  auto const other = std::ranges::find_if(texts, [&](std::string const& each) { return each != texts.front(); });
  if (other != texts.end()) {
    throw Error{Errc::rank_mismatch, attempted,
                fmt::format("rank 0 makes {}, but rank {} makes {}", texts.front(), other - texts.begin(), *other),
                "make the same data loaders in the same order on every rank"};
  }
  auto const refuse = [&](Errc code, std::string happened, char const* remedy) {
    throw Error{code, attempted + ": " + text, std::move(happened), remedy};
  };
  if (name.empty()) refuse(Errc::invalid_call, "its name is empty", "name it, as \"train\"");
  if (!is_utf8(name) || name.find('\n') != std::string_view::npos) {
    refuse(Errc::invalid_call, "its name is not UTF-8, or has several lines", "name it, as \"train\"");
  }
  if (std::ranges::count(datasets, name) > 0) {
    refuse(Errc::invalid_call, "a dataset of the run has that name", "give the loader a name of its own");
  }
  if (!examples) refuse(Errc::invalid_data, "its dataset does not tell its size", "let size() return one");
  if (*examples == 0) refuse(Errc::invalid_data, "its dataset is empty", "give one with examples");
  auto const [same, is_new] = examples_.emplace(name, *examples);
  if (!is_new && same->second != *examples) {
    refuse(Errc::invalid_call, fmt::format("the loader before it of that name has {} examples", same->second),
           "give each loader a name of its own");
  }
}

}  // namespace raytrain::detail
