// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// `library`: whose models the file may hold.
///
/// Errors: `not_found` when there is no such file, `io` when it cannot be read.
[[nodiscard]] inline auto read_model_file(std::filesystem::path const& path, std::string_view library) -> Bytes {
  auto const attempted = "reading the model '" + path.string() + "'";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw Error{Errc::not_found, attempted, "there is no such file",
                "name a model that " + std::string{library} + " has stored"};
  }
  std::ifstream file{path, std::ios::binary};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  if (!file.good()) throw Error{Errc::io, attempted, std::strerror(errno), "check its permissions"};
  auto const view = bytes_of(std::string_view{text});
  return {view.begin(), view.end()};
}

}  // namespace raytrain::detail
