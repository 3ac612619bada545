// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/mapped_file.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto type_of(std::filesystem::path const& path) -> std::filesystem::file_type {
  std::error_code problem;
  auto const type = std::filesystem::status(path, problem).type();
  if (type == std::filesystem::file_type::none) throw io_error("looking at", path, problem.value());
  return type;
}

RAYTRAIN_INLINE auto link_type_of(std::filesystem::path const& path) -> std::filesystem::file_type {
  std::error_code problem;
  auto const type = std::filesystem::symlink_status(path, problem).type();
  if (type == std::filesystem::file_type::none) throw io_error("looking at", path, problem.value());
  return type;
}

RAYTRAIN_INLINE InputFile::InputFile(std::filesystem::path path)
    : path_{std::move(path)}, file_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
  if (!file_.is_open()) throw io_error("opening", path_, errno);
  // Reading a pipe in its place would wait for a writer for ever.
  if (!S_ISREG(status().st_mode)) {
    throw Error{Errc::io, "opening '" + path_.string() + "'", "it is not a regular file", "move it elsewhere"};
  }
}

RAYTRAIN_INLINE auto InputFile::read(std::span<std::byte> buffer) -> std::size_t {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    auto const count = ::read(file_.get(), buffer.data() + filled, buffer.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error("reading", path_, errno);
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

RAYTRAIN_INLINE auto InputFile::map() const -> std::optional<SharedBytes> {
  return map_file(file_, static_cast<std::size_t>(size_bytes()));
}

RAYTRAIN_INLINE auto InputFile::status() const -> struct ::stat {
  struct ::stat status {};
  if (::fstat(file_.get(), &status) != 0) throw io_error("looking at", path_, errno);
  return status;
}

RAYTRAIN_INLINE auto
read_file(std::filesystem::path const& path, std::uint64_t most_bytes) -> Bytes {
  InputFile file{path};
  auto const size_bytes = file.size_bytes();
  if (size_bytes > most_bytes) {
    throw Error{
        Errc::invalid_data, "reading '" + path.string() + "'",
        "it has " + std::to_string(size_bytes) + " bytes, and at most " + std::to_string(most_bytes) + " can be"};
  }
  Bytes content(size_bytes);
  content.resize(file.read(content));
  return content;
}

RAYTRAIN_INLINE auto xxh3_of_file(std::filesystem::path const& path) -> std::string {
  InputFile file{path};
  Bytes buffer(std::min<std::uint64_t>(file.size_bytes() + 1, 1U << 20U));
  Xxh3 hash;
  for (auto count = file.read(buffer); count > 0; count = file.read(buffer)) {
    hash.update(BytesView{buffer}.first(count));
  }
  return hash.hex();
}

}  // namespace raytrain::detail
