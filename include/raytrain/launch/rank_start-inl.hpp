// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/rank_start.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void write_privately(std::filesystem::path const& path, std::string const& text) {
  FileDescriptor const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  auto const count = file.is_open() ? ::write(file.get(), text.data(), text.size()) : -1;
  if (count == static_cast<::ssize_t>(text.size())) return;
  throw Error{
      Errc::io, "writing '" + path.string() + "', which the ranks of a job read",
      count < 0 ? std::error_code{errno, std::generic_category()}.message() : "the file system took a part of it"};
}

RAYTRAIN_INLINE void RankStart::write(std::filesystem::path const& path) const {
  std::ostringstream out;
  out << fit << '\n' << token << '\n' << results << '\n';
  for (auto const& address : addresses) out << address << '\n';
  write_privately(path, std::move(out).str());
}

RAYTRAIN_INLINE auto RankStart::read(std::filesystem::path const& path) -> RankStart {
  RankStart start;
  std::ifstream in{path};
  in >> start.fit >> start.token;
  in.ignore();  // the end of the line
  std::getline(in, start.results);
  for (std::string address; std::getline(in, address);) start.addresses.push_back(address);
  if (!start.addresses.empty()) return start;
  throw Error{Errc::io, "joining the job of a supervisor",
              "host " + host_name() + " does not read '" + path.string() + "', which the supervisor has written",
              "let RunConfig::storage_path name a folder that all hosts share, on NFS or the like; a process that was "
              "started after its supervisor's end has nothing to join"};
}

RAYTRAIN_INLINE auto take_rank_start_file() -> std::optional<std::string> {
  auto const* const text = std::getenv(RankStart::variable);
  if (text == nullptr) return std::nullopt;
  std::string file{text};
  ::unsetenv(RankStart::variable);
  return file;
}

RAYTRAIN_INLINE auto rank_start_file() -> std::optional<std::string> const& {
  static auto const file = take_rank_start_file();
  return file;
}

// Before main, which may start programs and threads.
[[maybe_unused]] inline bool const rank_start_is_taken = rank_start_file().has_value();

}  // namespace raytrain::detail
