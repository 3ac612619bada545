// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto to_string(RunIdentity const& identity) -> std::string {
  std::string fields;
  for (auto const& field : identity.report_fields) fields += (fields.empty() ? " " : ", ") + field;
  return "program '" + identity.program + "', backend '" + identity.backend + "', report fields" +
         (fields.empty() ? " not known yet" : fields);
}

RAYTRAIN_INLINE auto read_run_record(std::filesystem::path const& run_path) -> RunRecord {
  auto const path = run_path / run_record_name;
  if (detail::type_of(path) == std::filesystem::file_type::not_found) {
    throw Error{Errc::not_found, "reading the run in '" + run_path.string() + "'", "there is no run.json in it",
                "name the folder of a run, <storage_path>/<name>"};
  }
  try {
    return detail::read_sealed_file<RunRecord>(path);
  } catch (Error const& error) {
    if (error.code() == Errc::io) throw;
    throw Error{
        Errc::foreign_run, "reading '" + path.string() + "'", error.happened(),
        error.code() == Errc::foreign_run
            ? error.remedy() + ", or choose another RunConfig::name"
            : "choose another RunConfig::name; or remove that file to go on from the checkpoints beside it, if they "
              "are this program's; or start anew by RunConfig::resume = Resume::fresh"};
  }
}

RAYTRAIN_INLINE auto damaged_checkpoints_in(RunRecord const& record) -> std::set<CheckpointNumber> {
  std::set<CheckpointNumber> damaged;
  for (auto const number : record.damaged.value_or(std::vector<std::uint64_t>{})) damaged.insert({number});
  return damaged;
}

RAYTRAIN_INLINE void for_each_progress_line(std::filesystem::path const& progress_file,
                                            std::function<void(std::string_view)> const& on_line) {
  if (detail::type_of(progress_file) == std::filesystem::file_type::not_found) return;
  detail::InputFile file{progress_file};
  Bytes block(std::size_t{1} << 16U);
  std::string begun;  // a line of which the end is in the next block
  for (auto count = file.read(block); count > 0; count = file.read(block)) {
    auto rest = text_of(BytesView{block}.first(count));
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      begun += rest.substr(0, end);
      on_line(begun);
      begun.clear();
      rest.remove_prefix(end + 1);
    }
    begun += rest;
  }
  if (!begun.empty()) on_line(begun);
}

RAYTRAIN_INLINE void check_known_fields(ReportFields const& fields, std::filesystem::path const& run_path) {
  auto const& [known, reported] = fields;
  auto const has_all = [](std::vector<std::string> const& names, std::vector<std::string> const& of) {
    return std::ranges::all_of(of,
                               [&](std::string const& name) { return std::ranges::find(names, name) != names.end(); });
  };
  if (known.empty() || has_all(known, reported) || has_all(reported, known)) return;
  auto const joined = [](std::vector<std::string> const& names) {
    std::string text;
    for (auto const& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? std::string{"none"} : text;
  };
  throw Error{Errc::foreign_run, "reporting to the run in '" + run_path.string() + "'",
              "it has the report fields " + joined(known) + ", and this report has " + joined(reported),
              "choose another RunConfig::name, or start anew by RunConfig::resume = Resume::fresh"};
}

}  // namespace raytrain
