// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/idx.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

using raytrain::ElementType;
using raytrain::read_idx;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

namespace {

auto big_endian_32(std::uint32_t value) -> std::string {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}

auto idx(char type, std::vector<std::uint32_t> const& extents, std::string const& data) -> std::string {
  std::string content{'\0', '\0', type, static_cast<char>(extents.size())};
  for (auto const extent : extents) content += big_endian_32(extent);
  return content + data;
}

auto gzip(std::string content) -> std::string {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

auto zstd(std::string const& content) -> std::string {
  std::string out(::ZSTD_compressBound(content.size()), '\0');
  auto* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(::ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size()));
  ::ZSTD_freeCCtx(context);
  return out;
}

auto bytes(std::size_t count) -> std::string {
  std::string data(count, '\0');
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<char>(i * 7 + i / 256);
  return data;
}

}  // namespace

TEST_CASE("plain, gzip and zstd files of the same content give the same column") {
  TemporaryFolder const folder;
  auto const content = idx(0x08, {100, 28, 28}, bytes(78400));
  for (auto const& stored : {content, gzip(content), gzip(content.substr(0, 5000)) + gzip(content.substr(5000)),
                             zstd(content), zstd(content.substr(0, 5000)) + zstd(content.substr(5000))}) {
    auto const column = read_idx(write_text(folder.path() / "images", stored));
    CHECK(column.name() == "data");
    CHECK(column.rows() == 100);
    CHECK(column.row_shape() == raytrain::RowShape{28, 28});
    CHECK(column.type() == ElementType::uint8);
    CHECK(raytrain::text_of(column.bytes()) == bytes(78400));
  }
}

TEST_CASE("every element type is turned from big-endian into this machine's order") {
  TemporaryFolder const folder;
  auto const read = [&](char type, std::string const& data, std::uint32_t count) {
    return read_idx(write_text(folder.path() / "x", idx(type, {count}, data)));
  };
  CHECK(read(0x08, "\xff\x01", 2).as<std::uint8_t>()[0] == 255);
  CHECK(read(0x09, "\xff\x01", 2).as<std::int8_t>()[0] == -1);
  CHECK(read(0x0b, "\x01\x02\xff\xfe", 2).as<std::int16_t>()[0] == 0x0102);
  CHECK(read(0x0b, "\x01\x02\xff\xfe", 2).as<std::int16_t>()[1] == -2);
  CHECK(read(0x0c, "\x01\x02\x03\x04", 1).as<std::int32_t>()[0] == 0x01020304);
  CHECK(read(0x0d, std::string{"\x3f\xc0\x00\x00", 4}, 1).as<float>()[0] == 1.5F);
  CHECK(read(0x0e, std::string{"\xc0\x04\x00\x00\x00\x00\x00\x00", 8}, 1).as<double>()[0] == -2.5);
}

TEST_CASE("a file of no rows is a column of no rows") {
  TemporaryFolder const folder;
  CHECK(read_idx(write_text(folder.path() / "x", idx(0x08, {0, 28, 28}, ""))).rows() == 0);
  CHECK(read_idx(write_text(folder.path() / "x", gzip(idx(0x08, {0}, "")))).rows() == 0);
}

TEST_CASE("images and labels become one dataset") {
  TemporaryFolder const folder;
  auto const images = write_text(folder.path() / "images", gzip(idx(0x08, {3, 2, 2}, "aaaabbbbcccc")));
  auto const labels = write_text(folder.path() / "labels", idx(0x08, {3}, "\1\2\3"));
  auto const dataset = read_idx(images, labels);
  CHECK(dataset.rows() == 3);
  CHECK(dataset.column("image").row_shape() == raytrain::RowShape{2, 2});
  CHECK(dataset.column("image").as<std::uint8_t>()[4] == 'b');
  CHECK(dataset.column("label").as<std::uint8_t>()[2] == 3);

  auto const two = write_text(folder.path() / "two", idx(0x08, {2}, "\1\2"));
  auto const differ = thrown_error([&] { return read_idx(images, two); });
  check_contains(differ, "there are 3 images and 2 labels");
  check_contains(differ, images.string());
  check_contains(differ, two.string());
  check_contains(thrown_error([&] { return read_idx(labels, images); }),
                 "an image is one value and a label is label (uint8, 2 x 2); name the file of images first");
}

TEST_CASE(
    "the rows of several files, of a pattern and of a folder follow one another, and those of others are refused") {
  TemporaryFolder const folder;
  fs::create_directory(folder.path() / "images");
  auto const first = write_text(folder.path() / "images" / "part-1", gzip(idx(0x08, {2, 2}, "aabb")));
  auto const second = write_text(folder.path() / "images" / "part-2", idx(0x08, {1, 2}, "cc"));
  auto const labels = write_text(folder.path() / "labels-1", idx(0x08, {2}, "\1\2"));
  write_text(folder.path() / "labels-2", idx(0x08, {1}, "\3"));
  auto const text_of = [](raytrain::Column const& column) { return std::string{raytrain::text_of(column.bytes())}; };
  CHECK(text_of(read_idx(folder.path() / "images")) == "aabbcc");
  CHECK(text_of(read_idx({second, first})) == "ccaabb");
  auto const dataset = read_idx(folder.path() / "images" / "part-*", folder.path() / "labels-?");
  CHECK(dataset.rows() == 3);
  CHECK(text_of(dataset.column("label")) == "\1\2\3");
  CHECK(dataset.column("image").row_shape() == raytrain::RowShape{2});
  check_contains(thrown_error([&] { return read_idx(folder.path() / "images", labels); }),
                 "read IDX files '" + first.string() + "' and 1 others and '" + labels.string() +
                     "': there are 3 images and 2 labels");
  check_contains(thrown_error([&] {
                   return read_idx({first, labels});
                 }),
                 "file '" + labels.string() + "' has other columns than file '" + first.string() + "'");
  check_contains(thrown_error([&] { return read_idx(folder.path() / "none-*"); }), "no file matches this pattern");
}

TEST_CASE("a path without a file is refused with the files that are there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "train-images";
  check_contains(thrown_error([&] { return read_idx(path); }),
                 "not_found: read '" + path.string() + "': there is no such file; its folder is empty");
  write_text(folder.path() / "train-images.gz", "x");
  write_text(folder.path() / "a", "x");
  check_contains(thrown_error([&] { return read_idx(path); }), "its folder has a, train-images.gz; check the path");
  for (char name = 'b'; name < 'n'; ++name) write_text(folder.path() / std::string(1, name), "x");
  check_contains(thrown_error([&] { return read_idx(path); }), "has a, b, c, d, e, f, g, h, i, j and 4 more");
  check_contains(thrown_error([&] { return read_idx(folder.path() / "none" / "x"); }),
                 "nor is there a folder '" + (folder.path() / "none").string() + "'");
}

TEST_CASE("a header that is none of IDX is refused with what it holds") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x";
  auto const error = [&](std::string const& content) {
    auto const plain = thrown_error([&] { return read_idx(write_text(path, content)); });
    if (!content.empty()) CHECK(thrown_error([&] { return read_idx(write_text(path, gzip(content))); }) == plain);
    check_contains(plain, "invalid_data: read IDX file '" + path.string() + "'");
    return plain;
  };
  check_contains(error(""), "it holds only 0 bytes");
  check_contains(error(std::string{"\0\0\x08", 3}), "it holds only 3 bytes");
  check_contains(error("PNG, perhaps"), "it begins with 0x504e472c; an IDX file begins with two zero bytes");
  check_contains(error(idx(0x0a, {1}, "a")), "it begins with 0x00000a01");
  check_contains(error(idx(0x08, {}, "a")), "it begins with 0x00000800");
  check_contains(error(std::string{"\1\0\x08\1\0\0\0\0", 8}), "it begins with 0x01000801");
  check_contains(error(idx(0x08, {60000, 28, 28}, "").substr(0, 14)), "it ends within its 3 dimensions");
  check_contains(error(idx(0x08, {5, 0, 28}, "")), "its dimension 1 is 0, so its rows are empty");
}

TEST_CASE("content shorter or longer than the header promises is refused with both sizes") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x";
  auto const error = [&](std::string const& content) {
    return thrown_error([&] { return read_idx(write_text(path, content)); });
  };
  auto const content = idx(0x08, {10, 2, 3}, bytes(60));
  check_contains(error(content.substr(0, 75)),
                 "read IDX file '" + path.string() +
                     "': its header promises 10 x 2 x 3 of uint8, 76 bytes in all, and it holds 75; it is cut short");
  check_contains(error(content + "ab"), "76 bytes in all, and it holds 78; something follows the data");
  check_contains(error(gzip(content.substr(0, 75))), "76 bytes in all, and it holds 75 once inflated; it is cut short");
  check_contains(error(gzip(content + "ab")), "76 bytes in all, and it holds 78 once inflated; something follows");
  check_contains(error(zstd(content.substr(0, 75))), "76 bytes in all, and it holds 75 once inflated; it is cut short");
  check_contains(error(zstd(content + "ab")), "76 bytes in all, and it holds 78 once inflated; something follows");
}

TEST_CASE("sizes that no such file can hold are refused before memory is taken for them") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x";
  auto const error = [&](std::string const& content) {
    return thrown_error([&] { return read_idx(write_text(path, content)); });
  };
  auto const huge = idx(0x0e, {4000000000, 4000000000}, bytes(100));
  check_contains(error(huge), "it promises 4000000000 x 4000000000 of float64 ..., more than any file holds");
  check_contains(error(gzip(huge)), "more than any file holds");
  auto const large = idx(0x08, {4000000000, 1000}, bytes(100));
  check_contains(error(large), "4000000000 x 1000 of uint8, 4000000000012 bytes in all, and it holds 112;");
  check_contains(error(gzip(large)), "4000000000012 bytes in all, and it holds 112 once inflated");
  check_contains(error(zstd(large)), "4000000000012 bytes in all, and it holds 112 once inflated");
  // The promise equals the true size modulo 2^32, which is all that a gzip file says of itself.
  auto const wrapped = idx(0x08, {1U << 16U, 1U << 16U, 1U << 16U, 1U << 12U}, "");
  check_contains(error(gzip(wrapped)), "1152921504606846996 bytes in all, and it holds 20 once inflated");
  check_contains(error(idx(0x08, std::vector<std::uint32_t>(255, 0xffffffff), "")), "more than any file holds");
}

TEST_CASE("a compressed file that is cut short or damaged anywhere is refused") {
  auto const content = idx(0x08, {40, 5, 5}, bytes(1000));
  struct Format {
    std::string compressed;
    std::size_t magic_bytes;  ///< Fewer of them are no compressed file.
    std::size_t free_begin;   ///< Bytes that are no part of the content: time, flags of the compressor, unused bits.
    std::size_t free_end;
    std::size_t checksum;  ///< A byte of it, from the end.
    std::string said_of_checksum;
    std::string said_of_tail;
  };
  for (auto const& format :
       {Format{gzip(content), 2, 4, 10, 6, "incorrect data check", "4 bytes follow its compressed data"},
        Format{zstd(content), 4, 4, 5, 1, "checksum", "its compressed data is damaged at byte"}}) {
    TemporaryFolder const folder;
    auto const path = folder.path() / "x";
    auto const& compressed = format.compressed;
    auto const error = [&](std::string const& stored) {
      return thrown_error([&] { return read_idx(write_text(path, stored)); });
    };
    for (auto kept = format.magic_bytes; kept < compressed.size(); ++kept) {
      CAPTURE(kept);
      check_contains(error(compressed.substr(0, kept)), "read '" + path.string() +
                                                            "': its compressed data ends early, after " +
                                                            std::to_string(kept) + " bytes; fetch the file again");
    }
    for (std::size_t at = 0; at < compressed.size(); ++at) {
      if (at >= format.free_begin && at < format.free_end) continue;
      CAPTURE(at);
      auto damaged = compressed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      CHECK(error(damaged).starts_with("invalid_data: "));
    }
    auto other_checksum = compressed;
    auto& of_checksum = other_checksum[compressed.size() - format.checksum];
    of_checksum = static_cast<char>(~of_checksum);
    check_contains(error(other_checksum), "its compressed data is damaged at byte");
    check_contains(error(other_checksum), format.said_of_checksum);
    check_contains(error(compressed + "tail"), format.said_of_tail);
  }
}

TEST_CASE("the files of Fashion-MNIST are read as they are") {
  fs::path const folder{"/usr/share/datasets/fashion-mnist"};
  if (!fs::exists(folder / "t10k-labels-idx1-ubyte.gz")) {
    MESSAGE("skipped: there is no ", folder.string(), " (Debian's package dataset-fashion-mnist)");
    return;
  }
  auto const test = read_idx(folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte.gz");
  CHECK(test.rows() == 10000);
  CHECK(test.column("image").row_shape() == raytrain::RowShape{28, 28});
  auto const labels = test.column("label").as<std::uint8_t>();
  for (std::uint8_t label = 0; label < 10; ++label) CHECK(std::ranges::count(labels, label) == 1000);
  auto const train = read_idx(folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz");
  CHECK(train.rows() == 60000);
  CHECK(train.column("label").as<std::uint8_t>().front() == 9);
}
