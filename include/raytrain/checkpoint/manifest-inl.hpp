// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto read_manifest(CheckpointFiles const& files) -> Manifest {
  std::string const file{manifest_name};
  auto const refuse = [&](std::string const& happened, Errc code = Errc::corrupt_checkpoint,
                          std::string const& remedy = {}) {
    throw Error{code, files.attempted(), file + ": " + happened, remedy};
  };
  if (auto const size = files.size_of(file).value_or(0); size > most_sealed_bytes) {
    refuse(fmt::format("it has {} bytes, and at most {} can be", size, most_sealed_bytes));
  }
  Manifest manifest;
  try {
    manifest = read_sealed<Manifest>(text_of(files.read(file)), file);
  } catch (Error const& error) {
    if (error.code() == Errc::io) throw;
    // One by a newer raytrain is whole: going on without it would lose what it holds.
    auto const is_newer = error.code() == Errc::foreign_run;
    refuse(error.happened(), is_newer ? Errc::foreign_run : Errc::corrupt_checkpoint, error.remedy());
  }
  if (manifest.number == 0) refuse("its number is 0");
  for (auto const& [name, stored] : manifest.files) {
    if (auto const problem = file_name_problem(name)) {
      throw Error{Errc::corrupt_checkpoint, files.attempted(),
                  "it lists a file '" + shown_name(name) + "', which " + *problem};
    }
  }
  return manifest;
}

}  // namespace raytrain::detail
