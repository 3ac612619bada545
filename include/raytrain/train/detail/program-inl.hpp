// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/inline.hpp>
#include <raytrain/train/detail/program.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto program_name() -> std::string {
  std::error_code ignored;
  auto const path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto name = path.empty() ? std::string{"program"} : path.filename().string();
  // What the system appends once the program was built anew while it runs.
  constexpr std::string_view deleted = " (deleted)";
  if (name.ends_with(deleted)) name.resize(name.size() - deleted.size());
  return name;
}

}  // namespace raytrain::detail
