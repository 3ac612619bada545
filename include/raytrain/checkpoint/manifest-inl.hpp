// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto read_manifest(std::filesystem::path const& directory) -> Manifest {
  auto const attempted = "reading checkpoint '" + directory.string() + "'";
  auto const manifest = [&] {
    try {
      return read_sealed_file<Manifest>(directory / manifest_name);
    } catch (Error const& error) {
      if (error.code() == Errc::io) throw;
      throw Error{Errc::corrupt_checkpoint, attempted, std::string{manifest_name} + ": " + error.happened(),
                  error.remedy()};
    }
  }();
  if (manifest.number == 0) {
    throw Error{Errc::corrupt_checkpoint, attempted, std::string{manifest_name} + ": its number is 0"};
  }
  for (auto const& [name, file] : manifest.files) {
    if (auto const problem = file_name_problem(name)) {
      throw Error{Errc::corrupt_checkpoint, attempted, "it lists a file '" + shown_name(name) + "', which " + *problem};
    }
  }
  return manifest;
}

}  // namespace raytrain::detail
