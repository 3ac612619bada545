// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace raytrain::detail {

/// Name of the running program, the same for every way of starting it.
[[nodiscard]] inline auto program_name() -> std::string {
  std::error_code ignored;
  auto const path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto name = path.empty() ? std::string{"program"} : path.filename().string();
  // What the system appends once the program was built anew while it runs.
  constexpr std::string_view deleted = " (deleted)";
  if (name.ends_with(deleted)) name.resize(name.size() - deleted.size());
  return name;
}

}  // namespace raytrain::detail
