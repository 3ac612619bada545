// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/images.hpp>

#include <stb/stb_image_write.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/materialize.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "hex_digits.hpp"

namespace {

using raytrain::Dataset;
using raytrain::DatasetBlocks;
using raytrain::image_blocks;
using raytrain::ImagesOptions;
using raytrain::read_images;
using raytrain::RowShape;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

using Pixels = std::vector<std::uint8_t>;

struct Picture {
  int height;
  int width;
  int channels;
  Pixels pixels;
};

/// Numbers that look like none in particular, as `make` of the Python program below has them.
auto picture(int height, int width, int channels, std::uint64_t seed = 7) -> Picture {
  Picture made{height, width, channels, {}};
  for (auto i = 0; i < height * width * channels; ++i) {
    seed = (seed * 1'103'515'245 + 12'345) % (std::uint64_t{1} << 31U);
    made.pixels.push_back(static_cast<std::uint8_t>(seed >> 16U));
  }
  return made;
}

/// In the format that its name ends with, in small letters.
void write_picture(fs::path const& path, Picture const& made) {
  fs::create_directories(path.parent_path());
  auto const& [height, width, channels, pixels] = made;
  auto const ending = path.extension().string();
  if (ending == ".png") {
    REQUIRE(::stbi_write_png(path.c_str(), width, height, channels, pixels.data(), width * channels) != 0);
  } else if (ending == ".bmp") {
    REQUIRE(::stbi_write_bmp(path.c_str(), width, height, channels, pixels.data()) != 0);
  } else if (ending == ".jpg") {
    REQUIRE(::stbi_write_jpg(path.c_str(), width, height, channels, pixels.data(), 100) != 0);
  } else {
    REQUIRE((ending == ".ppm" || ending == ".pgm"));
    write_text(path, fmt::format("P{}\n{} {}\n255\n", channels == 1 ? 5 : 6, width, height) +
                         std::string{pixels.begin(), pixels.end()});
  }
}

auto pixels_of(Dataset const& data, std::size_t row) -> Pixels {
  auto const all = data.column("image").slice(row, row + 1).as<std::uint8_t>();
  return {all.begin(), all.end()};
}

auto texts_of(Dataset const& data, std::string_view column) -> std::vector<std::string> {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < data.rows(); ++row) texts.emplace_back(data.column(column).text(row).value());
  return texts;
}

auto categories_of(Dataset const& data, std::string_view column) -> std::vector<std::string> {
  auto const texts = data.column(column).categories();
  return {texts.begin(), texts.end()};
}

/// A folder of one image, of any content.
auto read_content(std::string_view name, std::string_view content, ImagesOptions const& options = {}) -> Dataset {
  TemporaryFolder const folder;
  write_text(folder.path() / name, content);
  return read_images(folder.path(), options);
}

/// Seven pictures of two sizes in three classes.
void write_pets(fs::path const& folder) {
  for (auto i = 0; i < 7; ++i) {
    auto const name = fmt::format("{}/{}.png", i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "cat-like", i);
    write_picture(folder / name, picture(3 + i % 2, 5, 3, static_cast<std::uint64_t>(i)));
  }
}

}  // namespace

TEST_CASE("formats without loss give the pixels that were written, and folders the labels, in the order of paths") {
  TemporaryFolder const folder;
  auto const root = folder.path() / "pets";
  write_picture(root / "dog" / "a.png", picture(3, 5, 3, 1));
  write_picture(root / "cat" / "b10.bmp", picture(3, 5, 3, 2));
  write_picture(root / "cat" / "b2.ppm", picture(3, 5, 3, 3));
  write_picture(root / "ant" / "c.pgm", picture(3, 5, 1, 4));
  auto const data = read_images(root);
  CHECK(data.column_names() == std::vector<std::string>{"image", "label", "path"});
  CHECK(data.column("image").row_shape() == RowShape{3, 5, 3});
  CHECK(texts_of(data, "path") == std::vector<std::string>{"ant/c.pgm", "cat/b10.bmp", "cat/b2.ppm", "dog/a.png"});
  CHECK(texts_of(data, "label") == std::vector<std::string>{"ant", "cat", "cat", "dog"});
  CHECK(categories_of(data, "label") == std::vector<std::string>{"ant", "cat", "dog"});
  Pixels grey;
  for (auto const value : picture(3, 5, 1, 4).pixels) grey.insert(grey.end(), 3, value);
  CHECK(pixels_of(data, 0) == grey);
  CHECK(pixels_of(data, 1) == picture(3, 5, 3, 2).pixels);
  CHECK(pixels_of(data, 2) == picture(3, 5, 3, 3).pixels);
  CHECK(pixels_of(data, 3) == picture(3, 5, 3, 1).pixels);
}

TEST_CASE("a JPEG has about the colours that were written") {
  TemporaryFolder const folder;
  Picture red{16, 24, 3, {}};
  for (auto i = 0; i < 16 * 24; ++i) red.pixels.insert(red.pixels.end(), {200, 40, 90});
  write_picture(folder.path() / "red.jpg", red);
  auto const data = read_images(folder.path());
  CHECK(data.column("image").row_shape() == RowShape{16, 24, 3});
  auto const pixels = pixels_of(data, 0);
  for (std::size_t i = 0; i < pixels.size(); ++i) CHECK(std::abs(int{pixels[i]} - int{red.pixels[i]}) <= 3);
}

TEST_CASE("other programs' images: the first picture of a GIF, the upper 8 bits of 16, and no transparency") {
  // As Pillow 13 writes them.
  auto const gif = from_hex(
      "47494638376102000100820000ff000000ff000000ff0000000000000000000000000000002c00000000020001000008050001040808002c"
      "000000000200010082ff000000ff000000ff00000000000000000000000000000008050005080808003b");
  CHECK(pixels_of(read_content("a.gif", gif), 0) == Pixels{255, 0, 0, 0, 255, 0});
  check_contains(thrown_error([&] { return read_content("a.gif", gif.substr(0, 54)); }), "it is cut short");
  auto const sixteen = from_hex(  // 0x1234 and 0xabff
      "89504e470d0a1a0a0000000d494844520000000200000001100000000081d9fc150000000d49444154789c63103259fd1f00033e01f1772b"
      "200e0000000049454e44ae426082");
  CHECK(pixels_of(read_content("a.png", sixteen, {.channels = 1}), 0) == Pixels{0x12, 0xab});
  auto const transparent = from_hex(
      "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63e0129163000000a5003d6998"
      "88bc0000000049454e44ae426082");
  CHECK(pixels_of(read_content("a.png", transparent), 0) == Pixels{10, 20, 30});
}

TEST_CASE("with one channel colours become grey, and grey images stay as they are") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "a.png", {1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 90, 90, 90}});
  write_picture(folder.path() / "b.pgm", picture(1, 4, 1));
  auto const data = read_images(folder.path(), {.channels = 1});
  CHECK(data.column("image").row_shape() == RowShape{1, 4, 1});
  CHECK(pixels_of(data, 0) == Pixels{76, 149, 28, 90});  // 77, 150 and 29 of 256
  CHECK(pixels_of(data, 1) == picture(1, 4, 1).pixels);
}

TEST_CASE("resized images have, to the bit, the values of Pillow 10's bilinear filter") {
  // for h, w, c, H, W in ...: print(make(h, w, c).resize((W, H), Image.BILINEAR).tobytes().hex()), with Pillow 10 and
  // def make(h, w, c):
  //   v, s = [], 7
  //   for _ in range(h * w * c): s = (s * 1103515245 + 12345) % 2**31; v.append(s >> 16 & 255)
  //   return Image.frombytes('RGB' if c == 3 else 'L', (w, h), bytes(v))
  struct Case {
    Picture from;
    std::size_t height;
    std::size_t width;
    std::string_view wanted;
  };
  for (auto const& [from, height, width, wanted] :
       std::vector<Case>{{picture(4, 6, 3), 2, 3, "75528870606180756c6969716f6c88816670"},
                         {picture(3, 2, 1), 5, 4, "6c65564e6f6e6b69747c8b923a404b5113182125"},
                         {picture(7, 5, 3), 7, 3,
                          "7c3552574b28b262907e4ba66187d3744a44909a70587c1e7d5a955f74755762505278607b7e8aa44890b43eb06b"
                          "b3f165476b792fea5c"
                          "8d3d8093806e9f08"},
                         {picture(5, 4, 1), 2, 4, "3e4d6c497b4ed32d"},
                         {picture(9, 7, 3), 4, 6,
                          "5079ab73385865723a907c754f7351ad51875273919249a28068717b769e6b9e8e7e615291af7693ad6d7fb17a97"
                          "72b6aa8c7dafc490865c"
                          "8c7069648b6f8b89817d7d67746bc0cf"}}) {
    CAPTURE(wanted);
    TemporaryFolder const folder;
    write_picture(folder.path() / "x.png", from);
    auto const data = read_images(folder.path(), {.height = height, .width = width, .channels = from.channels});
    CHECK(data.column("image").row_shape() == RowShape{height, width, static_cast<std::size_t>(from.channels)});
    auto const bytes = from_hex(wanted);
    CHECK(pixels_of(data, 0) == Pixels{bytes.begin(), bytes.end()});
  }
}

TEST_CASE("without a size all images have the first one's, and the error names the file and both") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "cat" / "a.png", picture(3, 5, 3));
  write_picture(folder.path() / "dog" / "b.png", picture(4, 5, 3));
  auto const said = thrown_error([&] { return read_images(folder.path()); });
  check_contains(said, "invalid_data: read image '");
  check_contains(said, "dog/b.png': it is 4 high and 5 wide, and the first one, 'cat/a.png', is 3 high and 5 wide");
  check_contains(said, "set ImagesOptions::height and width");
  CHECK(read_images(folder.path(), {.height = 4, .width = 5}).rows() == 2);
}

TEST_CASE("what is damaged, cut short or no image is refused with its name, whatever the format") {
  TemporaryFolder const folder;
  for (auto const* const ending : {"png", "bmp", "jpg", "ppm", "pgm"}) {
    CAPTURE(ending);
    auto const path = folder.path() / "whole" / fmt::format("x.{}", ending);
    write_picture(path, picture(20, 13, std::string_view{ending} == "pgm" ? 1 : 3));
    auto const whole = read_text(path);
    CHECK(read_content(path.filename().string(), whole).rows() == 1);
    for (auto const kept : {std::size_t{1}, std::size_t{2}, std::size_t{11}, whole.size() / 2, whole.size() - 1}) {
      // The last byte of a line of a BMP is one of padding.
      if (std::string_view{ending} == "bmp" && kept == whole.size() - 1) continue;
      CAPTURE(kept);
      auto const said = thrown_error([&] { return read_content("cut.png", whole.substr(0, kept)); });
      check_contains(said, "invalid_data: read image '");
      check_contains(said, "cut.png': it cannot be decoded: ");
    }
  }
  check_contains(thrown_error([] { return read_content("a.jpg", ""); }), "a.jpg': it cannot be decoded: it is empty");
  check_contains(thrown_error([] { return read_content("a.jpg", "<html>404</html>"); }), "its first bytes are none of");
  auto damaged = read_text(folder.path() / "whole" / "x.png");
  damaged[12] = 'x';  // of the chunk IHDR
  check_contains(thrown_error([&] { return read_content("a.png", damaged); }),
                 "it cannot be decoded: its header is damaged");
  damaged[12] = 'I';
  damaged[37] = '\0';  // of the chunk IDAT
  check_contains(thrown_error([&] { return read_content("a.png", damaged); }), "it cannot be decoded: it is damaged");
  check_contains(thrown_error([] { return read_content("a.pgm", "P5 1 1 65535\n\x12\x34"); }), "it has 16 bits");
  check_contains(thrown_error([] { return read_content("a.pgm", "P5 # by hand\n1\t1 15\n\x0F"); }),
                 "its white is 15, and only 255 is read");
  check_contains(thrown_error([] { return read_content("a.pgm", "P5 #\r1 1 15\n1 1 255\n\x0F"); }), "its white is 15");
  CHECK(read_content("a.pgm", "P5 #c\r1 1 255\n\x0F").rows() == 1);
}

TEST_CASE("a BMP may have its lines from above") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "x.bmp", picture(2, 4, 3));
  auto content = read_text(folder.path() / "x.bmp");
  REQUIRE(content.substr(22, 4) == std::string("\2\0\0\0", 4));
  content.replace(22, 4, "\xFE\xFF\xFF\xFF");
  auto wanted = picture(2, 4, 3).pixels;
  std::rotate(wanted.begin(), wanted.begin() + 12, wanted.end());
  CHECK(pixels_of(read_content("x.bmp", content), 0) == wanted);
}

TEST_CASE("of several images that cannot be decoded the first one is named, whichever thread is the first") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "a.png", picture(40, 40, 3));
  for (auto i = 0; i < 20; ++i) write_text(folder.path() / fmt::format("b{:02}.png", i), "none");
  for (auto i = 0; i < 20; ++i) {
    check_contains(thrown_error([&] { return read_images(folder.path(), {.threads = 4}); }), "/b00.png'");
  }
}

TEST_CASE("an image is refused by its header alone where it promises too many pixels") {
  auto bomb = from_hex("89504e470d0a1a0a0000000d494844520000426800004e2008020000000000000000000000");
  check_contains(thrown_error([&] { return read_content("a.png", bomb); }),
                 "promises 20000 x 17000 pixels, and ImagesOptions::max_pixels is 100000000");
  TemporaryFolder const folder;
  write_picture(folder.path() / "a.png", picture(3, 5, 3));
  check_contains(thrown_error([&] { return read_images(folder.path(), {.max_pixels = 14}); }), "promises 3 x 5 pixels");
  check_contains(thrown_error([&] { return read_images(folder.path(), {.height = 1, .width = 1, .max_pixels = 14}); }),
                 "invalid_data: ");
  CHECK(read_images(folder.path(), {.max_pixels = 15}).rows() == 1);
  fs::resize_file(folder.path() / "a.png", std::uintmax_t{1} << 32U);  // which takes no room
  check_contains(thrown_error([&] { return read_images(folder.path()); }),
                 "it has 4294967296 bytes, and 2147483647 are the most");
}

TEST_CASE("an image that is resized is refused where it takes too many pixels on its way") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "a.png", picture(20, 1, 1));
  CHECK(read_images(folder.path(), {.height = 2, .width = 50, .max_pixels = 1'000}).rows() == 1);
  check_contains(
      thrown_error([&] { return read_images(folder.path(), {.height = 2, .width = 51, .max_pixels = 1'000}); }),
      "it has 20 x 1 pixels, and 20 x 51 on its way to 2 x 51, where ImagesOptions::max_pixels is 1000");
}

TEST_CASE("rows do not depend on how the program has told stb_image to turn images") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "a.png", picture(4, 3, 3));
  auto const upright = read_images(folder.path()).digest();
  ::stbi_set_flip_vertically_on_load(1);
  CHECK(read_images(folder.path()).digest() == upright);
  ::stbi_set_flip_vertically_on_load(0);
}

TEST_CASE("what is no image by its name is passed over, capitals and odd letters are not, and bytes tell the format") {
  TemporaryFolder const folder;
  auto const png = [&](std::string_view name) { write_picture(folder.path() / name, picture(2, 2, 3)); };
  png("cat/a.png");
  fs::rename(folder.path() / "cat" / "a.png", folder.path() / "cat" / "A.JPEG");
  png("k\xC3\xA4tzchen \xE2\x98\xBA/x y'\".png");
  png("with\nline/b.png");
  png("raw\xFF/c.png");
  png(".hidden/d.png");
  png("cat/.e.png");
  write_text(folder.path() / "cat" / "notes.txt", "none");
  write_text(folder.path() / "cat" / "png", "none");
  write_text(folder.path() / "README", "none");
  fs::create_directory(folder.path() / "empty");
  auto const data = read_images(folder.path());
  CHECK(texts_of(data, "path") == std::vector<std::string>{"cat/A.JPEG", "k\xC3\xA4tzchen \xE2\x98\xBA/x y'\".png",
                                                           "raw\xFF/c.png", "with\nline/b.png"});
  CHECK(categories_of(data, "label") ==
        std::vector<std::string>{"cat", "k\xC3\xA4tzchen \xE2\x98\xBA", "raw\xFF", "with\nline"});
}

TEST_CASE("a folder of images alone gives no label, and a mix with folders of them is refused") {
  TemporaryFolder const folder;
  write_picture(folder.path() / "b.png", picture(2, 2, 3, 1));
  write_picture(folder.path() / "a.png", picture(2, 2, 3, 2));
  write_text(folder.path() / "boxes" / "deep" / "a.xml", "<box/>");
  auto const data = read_images(folder.path());
  CHECK(data.column_names() == std::vector<std::string>{"image", "path"});
  CHECK(texts_of(data, "path") == std::vector<std::string>{"a.png", "b.png"});
  CHECK(pixels_of(data, 0) == picture(2, 2, 3, 2).pixels);
  write_picture(folder.path() / "cat" / "c.png", picture(2, 2, 3));
  check_contains(thrown_error([&] { return read_images(folder.path()); }),
                 "it has images itself, as 'a.png', and in its folder 'cat', as 'c.png'");
}

TEST_CASE("a folder without images, of folders of classes, or that is none is refused, and what was found is named") {
  TemporaryFolder const folder;
  auto const refused = [](fs::path const& path) { return thrown_error([&] { return read_images(path); }); };
  check_contains(refused(folder.path()), "not_found: read the images of folder '");
  check_contains(refused(folder.path()), "there is no image in it or in its folders; it is empty");
  write_text(folder.path() / "notes.txt", "");
  fs::create_directory(folder.path() / "cat");
  check_contains(refused(folder.path()), "it has notes.txt, cat");
  check_contains(refused(folder.path() / "dog"), "not_found: ");
  check_contains(refused(folder.path() / "dog"), "there is no such folder; its folder has cat, notes.txt");
  check_contains(refused(folder.path() / "notes.txt"), "io: ");
  check_contains(refused(folder.path() / "notes.txt"), "it is no folder");
  write_picture(folder.path() / "train" / "cat" / "a.png", picture(2, 2, 3));
  check_contains(refused(folder.path()), "its folder 'train', which would be a class, has a folder 'cat'");
  fs::create_symlink("nowhere.png", folder.path() / "train" / "cat" / "link.png");
  check_contains(refused(folder.path() / "train"), "not_found: read '");
  REQUIRE(::mkfifo((folder.path() / "train" / "cat" / "pipe.png").c_str(), 0600) == 0);
  check_contains(refused(folder.path() / "train"), "train/cat/pipe.png' is not a regular file");
}

TEST_CASE("options out of range are refused before anything is read") {
  auto const refused = [](ImagesOptions const& options) {
    return thrown_error([&] { return read_images("/there/is/none", options); });
  };
  check_contains(refused({.height = 4}),
                 "invalid_config: ImagesOptions::height and width: must be 1 to 65535, or both 0");
  check_contains(refused({.width = 4}), "(got 0 and 4)");
  check_contains(refused({.height = 1, .width = 65'536}), "(got 1 and 65536)");
  check_contains(refused({.channels = 2}), "invalid_config: ImagesOptions::channels: must be 1 or 3 (got 2)");
  check_contains(refused({.max_pixels = 0}), "invalid_config: ImagesOptions::max_pixels: ");
  check_contains(refused({.threads = -1}), "invalid_config: ImagesOptions::threads: must not be negative (got -1)");
  check_contains(thrown_error([] { return image_blocks("/there/is/none", {.channels = 4}); }), "invalid_config: ");
  check_contains(thrown_error([] { return image_blocks("/there/is/none", {}, 0); }), "invalid_call: ");
}

TEST_CASE("blocks have, in whatever sizes and threads, the rows that read_images has, and all classes") {
  TemporaryFolder const folder;
  write_pets(folder.path() / "pets");
  ImagesOptions options{.height = 6, .width = 4};
  auto const whole = read_images(folder.path() / "pets", options);
  REQUIRE(whole.rows() == 7);
  for (auto const rows : {1, 2, 3, 7, 100}) {
    for (options.threads = 0; options.threads < 4; ++options.threads) {
      CAPTURE(rows);
      CAPTURE(options.threads);
      Dataset all;
      for (auto const& block : image_blocks(folder.path() / "pets", options, static_cast<std::size_t>(rows))) {
        CHECK(block.rows() <= static_cast<std::size_t>(rows));
        CHECK(categories_of(block, "label") == std::vector<std::string>{"cat", "cat-like", "dog"});
        all = all.union_with(block);
      }
      CHECK(all.rows() == 7);
      CHECK(pixels_of(all, 6) == pixels_of(whole, 6));
      CHECK(texts_of(all, "path") == texts_of(whole, "path"));
      CHECK(texts_of(all, "label") == texts_of(whole, "label"));
      CHECK(all.digest() == whole.digest());
    }
  }
}

TEST_CASE("images of blocks that are skipped are not decoded, and the others come as they do without") {
  TemporaryFolder const folder;
  for (auto const* const name : {"a.png", "c.png", "d.png"}) write_picture(folder.path() / name, picture(2, 2, 3));
  write_text(folder.path() / "b.png", "no image");
  auto const paths_of = [&](DatasetBlocks blocks) {
    std::vector<std::string> paths;
    for (auto const& block : blocks) {
      for (std::size_t row = 0; row < block.rows(); ++row) paths.emplace_back(block.column("path").text(row).value());
    }
    return paths;
  };
  auto const shard = [&](std::uint32_t rank) {
    return image_blocks(folder.path(), {}, 1).shard(raytrain::Rank{rank}, raytrain::WorldSize{2});
  };
  CHECK(paths_of(shard(0)) == std::vector<std::string>{"a.png", "c.png"});
  check_contains(thrown_error([&] { return paths_of(shard(1)); }), "b.png");
}

TEST_CASE("a folder of images is written once, and is what it was when it is opened again") {
  TemporaryFolder const folder;
  write_pets(folder.path() / "pets");
  ImagesOptions const options{.height = 6, .width = 4};
  auto const whole = read_images(folder.path() / "pets", options);
  auto const rows = [&] {
    return raytrain::materialize(folder.path() / "rows", image_blocks(folder.path() / "pets", options, 3));
  };
  CHECK(rows().digest() == whole.digest());
  CHECK(raytrain::open_dataset(folder.path() / "rows").digest() == whole.digest());
  CHECK(rows().digest() == whole.digest());
  fs::copy_file(folder.path() / "pets" / "dog" / "1.png", folder.path() / "pets" / "dog" / "1 again.png");
  check_contains(thrown_error(rows), "invalid_data: ");
}

TEST_CASE(
    "the source of blocks follows from paths, contents' sizes and times, size, channels and rows, and from no more") {
  TemporaryFolder const folder;
  auto const root = folder.path() / "pets";
  write_pets(root);
  auto const source = [](fs::path const& path, ImagesOptions const& options = {.height = 6, .width = 4}) {
    return image_blocks(path, options).source();
  };
  auto const first = source(root);
  CHECK(source(root, {.height = 6, .width = 4, .max_pixels = 15, .threads = 2}) == first);
  CHECK(source(root, {.height = 4, .width = 6}) != first);
  CHECK(source(root, {.height = 6, .width = 4, .channels = 1}) != first);
  CHECK(source(root, {}) != first);
  auto const larger = image_blocks(root, {.height = 6, .width = 4}, 257);
  CHECK(larger.source() != first);
  auto blocks = larger;
  check_contains(thrown_error([&] { blocks.begin_at({0, 1, first}); }), "of another source: images of 6 x 4");
  fs::rename(root, folder.path() / "moved");
  CHECK(source(folder.path() / "moved") == first);
  auto const file = folder.path() / "moved" / "dog" / "1.png";
  auto const time = fs::last_write_time(file);
  fs::last_write_time(file, time + std::chrono::nanoseconds{1});
  CHECK(source(folder.path() / "moved") != first);
  fs::last_write_time(file, time);
  CHECK(source(folder.path() / "moved") == first);
  fs::rename(file, folder.path() / "moved" / "dog" / "2.png");
  CHECK(source(folder.path() / "moved") != first);
}

TEST_CASE("a file that is changed or removed while blocks are read is not taken for the one that was there") {
  TemporaryFolder const folder;
  for (auto const* const name : {"a.png", "b.png", "c.png"}) write_picture(folder.path() / name, picture(2, 2, 3));
  auto const changed = [&](std::function<void()> const& change) {
    auto blocks = image_blocks(folder.path(), {}, 2);
    auto skipped = image_blocks(folder.path(), {}, 2);
    CHECK(blocks.next()->rows() == 2);
    CHECK(skipped.skip());
    change();
    auto error = thrown_error([&] { return blocks.next(); });
    CHECK(thrown_error([&] { return skipped.skip(); }) == error);
    CHECK(thrown_error([&] { skipped.check_is_unchanged(); }) == error);
    return error;
  };
  auto const file = folder.path() / "c.png";
  auto const other = [&] {
    write_picture(file, picture(2, 2, 3, 8));
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours{1});
  };
  check_contains(changed(other), "c.png': it was changed meanwhile");
  check_contains(changed([&] { write_picture(file, picture(3, 3, 3)); }), "c.png': it was changed meanwhile");
  check_contains(changed([&] { write_text(file, "no image"); }), "io: read '");
  check_contains(changed([&] { fs::remove(file); }), "not_found: read '");
}
