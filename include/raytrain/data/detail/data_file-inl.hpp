// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

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
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/data_file.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto compression_of(std::string_view content) noexcept -> std::string_view {
  if (content.starts_with("\x1F\x8B")) return "gzip";
  auto const is_skippable = content.size() >= 4 && content[0] >= '\x50' && content[0] <= '\x5F';  // as pzstd begins
  if (content.starts_with("\x28\xB5\x2F\xFD") || (is_skippable && content.substr(1, 3) == "\x2A\x4D\x18"))
    return "zstd";
  if (content.starts_with("\xFD\x37zXZ")) return "xz";
  return {};
}

RAYTRAIN_INLINE auto byte_order_mark_of(std::string_view content) noexcept -> std::string_view {
  using namespace std::string_view_literals;
  for (auto const mark : {"\xEF\xBB\xBF"sv, "\xFF\xFE"sv, "\xFE\xFF"sv, "\0\0\xFE\xFF"sv}) {
    if (content.starts_with(mark)) return content.substr(0, mark.size());
  }
  return {};
}

RAYTRAIN_INLINE auto without_byte_order_mark(std::string_view content, std::string const& attempted)
    -> std::string_view {
  auto const mark = byte_order_mark_of(content);
  if (mark.empty() || mark == "\xEF\xBB\xBF") return content.substr(mark.size());
  throw Error{Errc::invalid_data, attempted, "its first bytes say that it is UTF-16 or UTF-32, and UTF-8 is read",
              "convert it, as by iconv -f UTF-16 -t UTF-8, or -f UTF-32"};
}

RAYTRAIN_INLINE auto neighbours(std::filesystem::path const& path) -> std::string {
  auto const folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path{"."};
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

RAYTRAIN_INLINE DataFile::DataFile(std::filesystem::path path) : path_{std::move(path)} {
  std::error_code ignored;
  auto const status = std::filesystem::status(path_, ignored);
  if (!std::filesystem::exists(status)) {
    throw Error{Errc::not_found, attempted(), "there is no such file; " + neighbours(path_), "check the path"};
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error{Errc::io, attempted(),
                std::filesystem::is_directory(status) ? "it is a folder" : "it is not a regular file", "name a file"};
  }
  errno = 0;
  file_.open(path_, std::ios::binary);
  if (!file_) throw Error{Errc::io, attempted(), std::strerror(errno), "check its permissions"};
  std::error_code problem;
  disk_bytes_ = std::filesystem::file_size(path_, problem);
  if (problem) throw Error{Errc::io, attempted(), problem.message()};
  refill();
  auto const compression = compression_of({reinterpret_cast<char const*>(input_.data()), available()});
  if (compression == "gzip") {
    if (::inflateInit2(&stream_, gzip_window_bits) != Z_OK) throw std::bad_alloc{};
    compression_ = Compression::gzip;
  } else if (compression == "zstd") {
    zstd_.reset(::ZSTD_createDStream());
    if (zstd_ == nullptr) throw std::bad_alloc{};
    // Of any window, as of "zstd --long=31".
    (void)::ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax,
                                   ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
    compression_ = Compression::zstd;
  } else if (!compression.empty()) {
    throw Error{Errc::invalid_data, attempted(),
                fmt::format("it is compressed by {}, and gzip and zstd are read", compression),
                fmt::format("unpack it, as by {} -d", compression)};
  }
}

RAYTRAIN_INLINE DataFile::~DataFile() {
  if (compression_ == Compression::gzip) ::inflateEnd(&stream_);
}

RAYTRAIN_INLINE auto DataFile::read(std::span<std::byte> out) -> std::size_t {
  switch (compression_) {
    case Compression::gzip: return inflate(out);
    case Compression::zstd: return decompress_zstd(out);
    case Compression::none: break;
  }
  return copy(out);
}

RAYTRAIN_INLINE auto DataFile::skip_rest() -> std::uint64_t {
  std::vector<std::byte> piece(input_bytes);
  std::uint64_t total = 0;
  while (auto const got = read(piece)) total += got;
  return total;
}

RAYTRAIN_INLINE auto DataFile::may_hold(std::uint64_t bytes) -> bool {
  if (!is_compressed()) return bytes == disk_bytes_;
  std::ifstream file{path_, std::ios::binary};
  if (compression_ == Compression::zstd) {
    constexpr std::uint64_t most_of_a_byte = 32'768;
    std::array<char, 18> head{};  // the longest that a header is
    file.read(head.data(), head.size());
    auto const size = ::ZSTD_getFrameContentSize(head.data(), static_cast<std::size_t>(file.gcount()));
    return (size == bytes || size == ZSTD_CONTENTSIZE_UNKNOWN) && bytes / most_of_a_byte <= disk_bytes_;
  }
  if (bytes / 1032 > disk_bytes_) return false;
  std::array<unsigned char, 4> tail{};
  file.seekg(-4, std::ios::end);
  file.read(reinterpret_cast<char*>(tail.data()), tail.size());
  auto const size = tail[0] | (tail[1] << 8U) | (tail[2] << 16U) | (std::uint32_t{tail[3]} << 24U);
  return file && size == static_cast<std::uint32_t>(bytes);
}

RAYTRAIN_INLINE void DataFile::refill() {
  read_bytes_ += stream_.avail_in = static_cast<uInt>(from_disk(std::as_writable_bytes(std::span{input_})));
  stream_.next_in = input_.data();
}

RAYTRAIN_INLINE auto DataFile::from_disk(std::span<std::byte> out) -> std::size_t {
  errno = 0;
  file_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  if (file_.bad()) throw Error{Errc::io, attempted(), std::strerror(errno)};
  return static_cast<std::size_t>(file_.gcount());
}

RAYTRAIN_INLINE auto DataFile::copy(std::span<std::byte> out) -> std::size_t {
  auto const buffered = std::min(available(), out.size());
  std::memcpy(out.data(), stream_.next_in, buffered);
  stream_.next_in += buffered;
  stream_.avail_in -= static_cast<uInt>(buffered);
  return buffered + (buffered < out.size() ? from_disk(out.subspan(buffered)) : 0);
}

RAYTRAIN_INLINE auto DataFile::inflate(std::span<std::byte> out) -> std::size_t {
  std::size_t got = 0;
  while (got < out.size() && !ended_) {
    if (available() == 0) refill();
    auto const wanted = static_cast<uInt>(std::min<std::size_t>(out.size() - got, std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + got);
    stream_.avail_out = wanted;
    auto const used_up = available() == 0;
    auto const code = ::inflate(&stream_, Z_NO_FLUSH);
    got += wanted - stream_.avail_out;
    count_unpacked(wanted - stream_.avail_out);
    if (code == Z_STREAM_END) {
      begin_next_member();
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc{};
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      refuse_damage(stream_.msg != nullptr ? stream_.msg : "unknown error");
    } else if (used_up && stream_.avail_out == wanted) {
      refuse_early_end();
    }
  }
  return got;
}

RAYTRAIN_INLINE auto DataFile::decompress_zstd(std::span<std::byte> out) -> std::size_t {
  std::size_t got = 0;
  while (got < out.size() && !ended_) {
    if (available() == 0) refill();
    ZSTD_inBuffer in{stream_.next_in, available(), 0};
    ZSTD_outBuffer to{out.data() + got, out.size() - got, 0};
    auto const left = ::ZSTD_decompressStream(zstd_.get(), &to, &in);
    if (::ZSTD_isError(left) != 0) refuse_zstd(left);
    stream_.next_in += in.pos;
    stream_.avail_in -= static_cast<uInt>(in.pos);
    got += to.pos;
    count_unpacked(to.pos);
    if (left == 0) {
      begin_next_member();
    } else if (in.size == 0 && to.pos == 0) {
      refuse_early_end();
    }
  }
  return got;
}

RAYTRAIN_INLINE void DataFile::count_unpacked(std::size_t bytes) {
  constexpr std::uint64_t always = std::uint64_t{64} << 20U;
  unpacked_bytes_ += bytes;
  if (unpacked_bytes_ <= always || unpacked_bytes_ / std::max<std::uint64_t>(disk_bytes_, 1) <= most_unpack_ratio_)
    return;
  throw Error{Errc::invalid_data, attempted(),
              fmt::format("its {} bytes unpack to more than 64 MiB and {} times as much, as those of a file do that is "
                          "made to fill the memory",
                          disk_bytes_, most_unpack_ratio_),
              fmt::format("if you trust it, {}unpack it",
                          unpack_option_.empty() ? "" : fmt::format("raise {}, or ", unpack_option_))};
}

RAYTRAIN_INLINE void DataFile::begin_next_member() {
  if (available() == 0) refill();
  ended_ = available() == 0;
  if (ended_ || compression_ == Compression::zstd) return;  // zstd tells what it knows
  constexpr Bytef first_of_gzip = 0x1F;
  if (*stream_.next_in != first_of_gzip) {
    throw Error{Errc::invalid_data, attempted(),
                fmt::format("{} bytes follow its compressed data", disk_bytes_ - used_bytes()), "fetch the file again"};
  }
  ::inflateReset(&stream_);
}

RAYTRAIN_INLINE void DataFile::refuse_zstd(std::size_t code) const {
  switch (::ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation: throw std::bad_alloc{};
    case ZSTD_error_dictionary_wrong:
      throw Error{Errc::invalid_data, attempted(), "it is compressed by a dictionary of zstd's, which is not in it",
                  "unpack it by zstd -d -D DICTIONARY"};
    default: refuse_damage(::ZSTD_getErrorName(code));
  }
}

RAYTRAIN_INLINE void DataFile::refuse_damage(char const* problem) const {
  throw Error{Errc::invalid_data, attempted(),
              fmt::format("its compressed data is damaged at byte {} of {}: {}", used_bytes(), disk_bytes_, problem),
              "fetch the file again"};
}

RAYTRAIN_INLINE void DataFile::refuse_early_end() const {
  throw Error{Errc::invalid_data, attempted(),
              fmt::format("its compressed data ends early, after {} bytes", disk_bytes_), "fetch the file again"};
}

}  // namespace raytrain::detail
