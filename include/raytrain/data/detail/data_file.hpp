// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// The content of a file, front to back; a gzip file, known by its first bytes, is inflated on the way.
///
/// Errors: every function throws `io` when the operating system cannot read, and `invalid_data` when compressed data
/// is damaged or ends early.
class DataFile {
 public:
  /// Errors: `not_found` when there is no such file, listing its neighbours.
  explicit DataFile(std::filesystem::path path) : path_{std::move(path)} {
    std::error_code ignored;
    auto const status = std::filesystem::status(path_, ignored);
    if (!std::filesystem::exists(status)) {
      throw Error{Errc::not_found, attempt(), "there is no such file; " + neighbours(), "check the path"};
    }
    if (!std::filesystem::is_regular_file(status)) {
      throw Error{Errc::io, attempt(),
                  std::filesystem::is_directory(status) ? "it is a folder" : "it is not a regular file", "name a file"};
    }
    errno = 0;
    file_.open(path_, std::ios::binary);
    if (!file_) throw Error{Errc::io, attempt(), std::strerror(errno), "check its permissions"};
    disk_bytes_ = std::filesystem::file_size(path_);
    refill();
    gzip_ = available() >= 2 && input_[0] == gzip_magic[0] && input_[1] == gzip_magic[1];
    if (gzip_ && ::inflateInit2(&stream_, gzip_window_bits) != Z_OK) throw std::bad_alloc{};
  }

  DataFile(DataFile const&) = delete;
  auto operator=(DataFile const&) -> DataFile& = delete;
  ~DataFile() {
    if (gzip_) ::inflateEnd(&stream_);
  }

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }
  [[nodiscard]] auto is_gzip() const noexcept -> bool { return gzip_; }
  [[nodiscard]] auto disk_bytes() const noexcept -> std::uint64_t { return disk_bytes_; }

  /// Fills `out`, or as much of it as there is content left; returns how much.
  ///
  /// Cost: what is asked for in large pieces goes into `out` without a copy.
  [[nodiscard]] auto read(std::span<std::byte> out) -> std::size_t { return gzip_ ? inflate(out) : copy(out); }

  /// Reads what is left, keeps none of it, and returns how much it was.
  [[nodiscard]] auto skip_rest() -> std::uint64_t {
    std::vector<std::byte> piece(input_bytes);
    std::uint64_t total = 0;
    while (auto const got = read(piece)) total += got;
    return total;
  }

  /// Whether the content can be `bytes` long, told from the file's size and a gzip file's last four bytes alone.
  ///
  /// A false answer is not final for a gzip file of several members.
  /// Source: RFC 1952, section 2.3.1 (ISIZE); zlib's technical details (deflate shrinks to 1/1032 at most).
  [[nodiscard]] auto may_hold(std::uint64_t bytes) -> bool {
    if (!gzip_) return bytes == disk_bytes_;
    if (bytes / 1032 > disk_bytes_) return false;
    std::array<unsigned char, 4> tail{};
    std::ifstream file{path_, std::ios::binary};
    file.seekg(-4, std::ios::end);
    file.read(reinterpret_cast<char*>(tail.data()), tail.size());
    auto const size = tail[0] | (tail[1] << 8U) | (tail[2] << 16U) | (std::uint32_t{tail[3]} << 24U);
    return file && size == static_cast<std::uint32_t>(bytes);
  }

 private:
  static constexpr std::size_t input_bytes = std::size_t{256} << 10U;
  static constexpr std::array<unsigned char, 2> gzip_magic{0x1f, 0x8b};
  static constexpr int gzip_window_bits = 15 + 16;  // the largest window; 16 asks for gzip's header and checksum

  [[nodiscard]] auto attempt() const -> std::string { return fmt::format("read '{}'", path_.string()); }

  [[nodiscard]] auto neighbours() const -> std::string {
    auto const folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path{"."};
    std::vector<std::string> names;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator{folder, error}) {
      names.push_back(entry.path().filename().string());
    }
    if (error) return "nor is there a folder '" + folder.string() + "'";
    std::ranges::sort(names);
    constexpr std::size_t shown = 10;
    auto const more = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
    names.resize(std::min(names.size(), shown));
    return names.empty() ? "its folder is empty" : fmt::format("its folder has {}{}", fmt::join(names, ", "), more);
  }

  [[nodiscard]] auto available() const noexcept -> std::size_t { return stream_.avail_in; }

  /// Reads the next piece of the file once the one before is used up; leaves nothing available at the end.
  void refill() {
    read_bytes_ += stream_.avail_in = static_cast<uInt>(from_disk(std::as_writable_bytes(std::span{input_})));
    stream_.next_in = input_.data();
  }

  auto from_disk(std::span<std::byte> out) -> std::size_t {
    errno = 0;
    file_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    if (file_.bad()) throw Error{Errc::io, attempt(), std::strerror(errno)};
    return static_cast<std::size_t>(file_.gcount());
  }

  auto copy(std::span<std::byte> out) -> std::size_t {
    auto const buffered = std::min(available(), out.size());
    std::memcpy(out.data(), stream_.next_in, buffered);
    stream_.next_in += buffered;
    stream_.avail_in -= static_cast<uInt>(buffered);
    return buffered + (buffered < out.size() ? from_disk(out.subspan(buffered)) : 0);
  }

  auto inflate(std::span<std::byte> out) -> std::size_t {
    std::size_t got = 0;
    while (got < out.size() && !ended_) {
      if (available() == 0) refill();
      auto const wanted = static_cast<uInt>(std::min<std::size_t>(out.size() - got, std::numeric_limits<uInt>::max()));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + got);
      stream_.avail_out = wanted;
      auto const used_up = available() == 0;
      auto const code = ::inflate(&stream_, Z_NO_FLUSH);
      got += wanted - stream_.avail_out;
      if (code == Z_STREAM_END) {
        begin_next_member();
      } else if (code == Z_MEM_ERROR) {
        throw std::bad_alloc{};
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        throw Error{Errc::invalid_data, attempt(),
                    fmt::format("its compressed data is damaged at byte {} of {}: {}", used_bytes(), disk_bytes_,
                                stream_.msg != nullptr ? stream_.msg : "unknown error"),
                    "fetch the file again"};
      } else if (used_up && stream_.avail_out == wanted) {
        throw Error{Errc::invalid_data, attempt(),
                    fmt::format("its compressed data ends early, after {} bytes", disk_bytes_), "fetch the file again"};
      }
    }
    return got;
  }

  /// A gzip file may be several, one behind the other.
  void begin_next_member() {
    if (available() == 0) refill();
    ended_ = available() == 0;
    if (ended_) return;
    if (*stream_.next_in != gzip_magic[0]) {
      throw Error{Errc::invalid_data, attempt(),
                  fmt::format("{} bytes follow its compressed data", disk_bytes_ - used_bytes()),
                  "fetch the file again"};
    }
    ::inflateReset(&stream_);
  }

  [[nodiscard]] auto used_bytes() const noexcept -> std::uint64_t { return read_bytes_ - stream_.avail_in; }

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Bytef> input_ = std::vector<Bytef>(input_bytes);
  z_stream stream_{};
  std::uint64_t disk_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
  bool gzip_ = false;
  bool ended_ = false;
};

}  // namespace raytrain::detail
