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
#include <span>

#include <raytrain/checkpoint/detail/file_descriptor.hpp>
#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/checkpoint/detail/xxh3.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// A file opened for reading.
///
/// Errors: every function throws `io`.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path)
      : path_{std::move(path)}, file_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)} {
    if (!file_.is_open()) throw io_error("opening", path_, errno);
  }

  [[nodiscard]] auto size_bytes() const -> std::uint64_t {
    struct ::stat status {};
    if (::fstat(file_.get(), &status) != 0) throw io_error("reading the size of", path_, errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

  /// Fills `buffer` from where the last call ended; returns fewer bytes only at the file's end.
  [[nodiscard]] auto read(std::span<std::byte> buffer) -> std::size_t {
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

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

[[nodiscard]] inline auto read_file(std::filesystem::path const& path) -> Bytes {
  InputFile file{path};
  Bytes content(file.size_bytes());
  content.resize(file.read(content));
  return content;
}

/// XXH3-128 of a file's content, which is never in memory as a whole.
[[nodiscard]] inline auto xxh3_of_file(std::filesystem::path const& path) -> std::string {
  InputFile file{path};
  Bytes buffer(std::min<std::uint64_t>(file.size_bytes() + 1, 1U << 20U));
  Xxh3 hash;
  for (auto count = file.read(buffer); count > 0; count = file.read(buffer)) {
    hash.update(BytesView{buffer}.first(count));
  }
  return hash.hex();
}

}  // namespace raytrain::detail
