// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

namespace raytrain::detail {

/// "its folder has a.csv, b.csv": what there is beside a path that there is not.
[[nodiscard]] auto neighbours(std::filesystem::path const& path) -> std::string;

/// gzip, zstd or xz for what begins as a file compressed by it, and nothing for others.
///
/// Source: RFC 1952, section 2.3.1 (gzip); RFC 8878, section 3.1.1 (zstd); The .xz File Format 1.1, section 2.1.1.1.
[[nodiscard]] auto compression_of(std::string_view content) noexcept -> std::string_view;

/// The mark of UTF-8, UTF-16 or UTF-32 that `content` begins with; empty without one.
[[nodiscard]] auto byte_order_mark_of(std::string_view content) noexcept -> std::string_view;

/// `content`, which begins a file of texts, without the mark that it is UTF-8.
///
/// Errors: `invalid_data` where a mark says that it is UTF-16 or UTF-32; `attempted` begins the message.
[[nodiscard]] auto without_byte_order_mark(std::string_view content, std::string const& attempted) -> std::string_view;

/// The content of a file, front to back; that of a gzip or zstd file, known by its first bytes, is unpacked on the way.
///
/// Errors: every function throws `io` when the operating system cannot read, and `invalid_data` when compressed data
/// is damaged or ends early.
class DataFile {
 public:
  /// Errors: `not_found` when there is no such file, listing its neighbours; `invalid_data` for one that is compressed
  ///         by xz.
  explicit DataFile(std::filesystem::path path);

  DataFile(DataFile const&) = delete;
  auto operator=(DataFile const&) -> DataFile& = delete;
  ~DataFile();

  /// From now on `read` throws `invalid_data` where compressed data unpacks to more than 64 MiB and `ratio` times the
  /// file's size; `option` is what raises it: "CsvOptions::max_unpack_ratio"; empty where nothing does.
  void limit_unpacking(std::uint64_t ratio, std::string option) {
    most_unpack_ratio_ = ratio;
    unpack_option_ = std::move(option);
  }

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }
  [[nodiscard]] auto is_compressed() const noexcept -> bool { return compression_ != Compression::none; }
  [[nodiscard]] auto disk_bytes() const noexcept -> std::uint64_t { return disk_bytes_; }

  /// Fills `out`, or as much of it as there is content left; returns how much.
  ///
  /// Cost: what is asked for in large pieces goes into `out` without a copy.
  [[nodiscard]] auto read(std::span<std::byte> out) -> std::size_t;

  /// Reads what is left, keeps none of it, and returns how much it was.
  [[nodiscard]] auto skip_rest() -> std::uint64_t;

  /// Whether the content can be `bytes` long, told from the file's size, a gzip file's last four bytes and a zstd
  /// file's header alone.
  ///
  /// A false answer is not final for a compressed file of several members.
  /// Source: RFC 1952, section 2.3.1 (ISIZE); zlib's technical details (deflate shrinks to 1/1032 at most); RFC 8878,
  ///         section 3.1.1 (Frame_Content_Size; a block of 4 bytes becomes 128 KiB at most).
  [[nodiscard]] auto may_hold(std::uint64_t bytes) -> bool;

 private:
  enum class Compression : std::uint8_t { none, gzip, zstd };

  static constexpr std::size_t input_bytes = std::size_t{256} << 10U;
  static constexpr int gzip_window_bits = 15 + 16;  // the largest window; 16 asks for gzip's header and checksum

  [[nodiscard]] auto attempted() const -> std::string { return fmt::format("read '{}'", path_.string()); }

  [[nodiscard]] auto available() const noexcept -> std::size_t { return stream_.avail_in; }

  /// Reads the next piece of the file once the one before is used up; leaves nothing available at the end.
  void refill();

  auto from_disk(std::span<std::byte> out) -> std::size_t;

  auto copy(std::span<std::byte> out) -> std::size_t;

  auto inflate(std::span<std::byte> out) -> std::size_t;

  auto decompress_zstd(std::span<std::byte> out) -> std::size_t;

  /// A compressed file may be several, one behind the other.
  void begin_next_member();

  void count_unpacked(std::size_t bytes);

  [[noreturn]] void refuse_zstd(std::size_t code) const;
  [[noreturn]] void refuse_damage(char const* problem) const;
  [[noreturn]] void refuse_early_end() const;

  [[nodiscard]] auto used_bytes() const noexcept -> std::uint64_t { return read_bytes_ - stream_.avail_in; }

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Bytef> input_ = std::vector<Bytef>(input_bytes);
  z_stream stream_{};  ///< With what was read and is not used yet, whatever the compression.
  std::unique_ptr<ZSTD_DStream, decltype(&::ZSTD_freeDStream)> zstd_{nullptr, &::ZSTD_freeDStream};
  std::uint64_t disk_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t unpacked_bytes_ = 0;
  std::uint64_t most_unpack_ratio_ = std::numeric_limits<std::uint64_t>::max();
  std::string unpack_option_;
  Compression compression_ = Compression::none;
  bool ended_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/data_file-inl.hpp>
#endif
