// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/wire_archive.hpp>
#include <raytrain/message/detail/wire_messages.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE void save(detail::WireOutput& archive, ErrorInfo const& error) {
  archive(static_cast<std::uint16_t>(error.code), error.attempted, error.happened, error.remedy, error.rank,
          error.host);
}

RAYTRAIN_INLINE void load(detail::WireInput& archive, ErrorInfo& error) {
  std::uint16_t code = 0;
  archive(code, error.attempted, error.happened, error.remedy, error.rank, error.host);
  error.code = static_cast<Errc>(code);
}

RAYTRAIN_INLINE void save(detail::WireOutput& archive, Metrics const& metrics) {
  if (metrics.size() > max_metrics) {
    throw Error{Errc::invalid_report, "sending a report",
                "it has " + std::to_string(metrics.size()) + " metrics, more than " + std::to_string(max_metrics),
                "report fewer, or write them to a file of your own"};
  }
  archive(cereal::make_size_tag(static_cast<cereal::size_type>(metrics.size())));
  for (auto const& [name, value] : metrics) archive(name, value);
}

RAYTRAIN_INLINE void load(detail::WireInput& archive, Metrics& metrics) {
  auto const count = archive.count();
  if (count > max_metrics) detail::refuse_message("it has " + std::to_string(count) + " metrics");
  metrics = {};
  for (std::size_t i = 0; i < count; ++i) {
    std::string name;
    MetricValue value;
    archive(name, value);
    if (metrics.contains(name)) detail::refuse_message("metric '" + name + "' is there twice");
    metrics.set(name, std::move(value));
  }
}

}  // namespace raytrain
