// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto CheckpointFiles::directory() const noexcept -> std::filesystem::path const& {
  static std::filesystem::path const none;
  return none;
}

RAYTRAIN_INLINE auto CheckpointFiles::view(std::string const& name) const -> SharedBytes {
  return SharedBytes{read(name)};
}

RAYTRAIN_INLINE auto CheckpointFiles::xxh3_of(std::string const& name) const -> std::string {
  return detail::xxh3_of(read(name));
}

RAYTRAIN_INLINE void CheckpointFiles::refuse(std::string const& name, std::string const& happened) const {
  check_there();
  throw Error{Errc::corrupt_checkpoint, attempted(), "file '" + name + "' " + happened,
              "go on from an older checkpoint, or copy this one again from where it came"};
}

}  // namespace raytrain
