// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/npy.hpp>

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "gzip_file.hpp"
#include "hex_digits.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

/// A file as NumPy 2.4 writes it, of the dictionary and the data in hexadecimal digits that this program prints:
///
///   b = io.BytesIO(); np.lib.format.write_array(b, array, version=(major, 0)); d = b.getvalue()
///   print(d[10:].split(b'\n')[0].rstrip(), d[len(d) - array.nbytes:].hex())
auto npy(char major, std::string dictionary, std::string_view data) -> std::string {
  auto const length_bytes = major == 1 ? std::size_t{2} : std::size_t{4};
  auto const before = 8 + length_bytes;
  dictionary.append(63 - (before + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  auto file = std::string{"\x93NUMPY"} + major + '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) file += static_cast<char>(dictionary.size() >> (8 * i));
  return file + dictionary + from_hex(data);
}

auto dictionary_of(std::string_view descr, std::string_view shape, std::string_view fortran_order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, fortran_order, shape);
}

template <class T>
auto values(Dataset const& data) -> std::vector<T> {
  auto const all = data.column("data").as<T>();
  return {all.begin(), all.end()};
}

/// np.array([[1.5, -2], [3, 4], [5, 6]], '<f4')
auto npy_of_three_rows() -> std::string {
  return npy(1, dictionary_of("<f4", "(3, 2)"), "0000c03f000000c000004040000080400000a0400000c040");
}

}  // namespace

TEST_CASE("arrays that NumPy has written have its values, in all versions, orders of bytes and of dimensions") {
  TemporaryFolder const folder;
  auto const read = [&](std::string_view content) { return read_npy(write_text(folder.path() / "x.npy", content)); };
  auto const floats = read(npy_of_three_rows());
  CHECK(floats.rows() == 3);
  CHECK(floats.column("data").row_shape() == RowShape{2});
  CHECK(values<float>(floats) == std::vector<float>{1.5F, -2, 3, 4, 5, 6});
  // np.arange(6, dtype='>i2').reshape(2, 3)
  CHECK(values<std::int16_t>(read(npy(2, dictionary_of(">i2", "(2, 3)"), "000000010002000300040005"))) ==
        std::vector<std::int16_t>{0, 1, 2, 3, 4, 5});
  // np.asfortranarray(np.arange(12, dtype='<i4').reshape(2, 3, 2))
  auto const fortran = read(npy(3, dictionary_of("<i4", "(2, 3, 2)", "True"),
                                "00000000060000000200000008000000040000000a00000001000000070000000300000009000000050000"
                                "000b000000"));
  CHECK(fortran.column("data").row_shape() == RowShape{3, 2});
  CHECK(values<std::int32_t>(fortran) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  // np.array([True, False])
  CHECK(values<std::uint8_t>(read(npy(1, dictionary_of("|b1", "(2,)"), "0100"))) == std::vector<std::uint8_t>{1, 0});
  // np.array([0.5, -1], '<f2')
  auto const halves = read(npy(1, dictionary_of("<f2", "(2,)"), "003800bc"));
  CHECK(static_cast<float>(halves.column("data").as<Float16>()[1]) == -1);
  // np.zeros((0, 3), '<u8')
  auto const none = read(npy(1, dictionary_of("<u8", "(0, 3)"), ""));
  CHECK(none.rows() == 0);
  CHECK(none.column("data").describe() == "data (uint64, 3)");
}

TEST_CASE("a column is written as NumPy does it, byte by byte") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.npy";
  write_npy({"x", std::vector<float>{1.5F, -2, 3, 4, 5, 6}, {2}}, path);
  CHECK(read_text(path) == npy_of_three_rows());
  write_npy({"x", std::vector<std::uint8_t>{1, 0}}, path);
  CHECK(read_text(path) == npy(1, dictionary_of("|u1", "(2,)"), "0100"));
}

TEST_CASE("an array has the name that it is given, and those of several files are one") {
  TemporaryFolder const folder;
  for (auto const* const name : {"a.npy", "b.npy"}) write_text(folder.path() / name, npy_of_three_rows());
  auto const data = read_npy(folder.path() / "*.npy", {.column = "x"});
  CHECK(data.column_names() == std::vector<std::string>{"x"});
  CHECK(data.rows() == 6);
  CHECK(data.column("x").as<float>()[11] == 6);
  auto const other = write_text(folder.path() / "c.npy", npy(1, dictionary_of("<f4", "(1, 3)"), std::string(24, '0')));
  check_contains(thrown_error([&] { return read_npy(folder.path()); }),
                 "file '" + other.string() + "' has other columns than file '" + (folder.path() / "a.npy").string());
}

TEST_CASE("a mapped array has the rows that a read one has, and keeps them when the file is removed") {
  TemporaryFolder const folder;
  auto const path = write_text(folder.path() / "x.npy", npy_of_three_rows());
  auto const mapped = map_npy(path, {.column = "data"});
  CHECK(mapped.digest() == read_npy(path).digest());
  fs::remove(path);
  CHECK(values<float>(mapped) == std::vector<float>{1.5F, -2, 3, 4, 5, 6});
  // np.asfortranarray(np.array([[7], [8]], '<i4')), whose order is both
  auto const fortran = npy(1, dictionary_of("<i4", "(2, 1)", "True"), "0700000008000000");
  CHECK(values<std::int32_t>(map_npy(write_text(path, fortran))) == std::vector<std::int32_t>{7, 8});
  CHECK(map_npy(write_text(path, npy(1, dictionary_of("<u8", "(0, 3)"), ""))).rows() == 0);
}

TEST_CASE("an array that is not in its file as a column has it is read and not mapped, and the message says why") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.npy";
  auto const refused = [&](std::string const& content) {
    write_text(path, content);
    auto const text = thrown_error([&] { return map_npy(path); });
    check_contains(text, "invalid_data: map NumPy file");
    return text;
  };
  check_contains(refused(npy(1, dictionary_of(">i2", "(2,)"), "00000001")), "another byte order");
  check_contains(refused(npy(1, dictionary_of("<i2", "(2, 2)", "True"), "0000000100020003")), "in Fortran's order");
  check_contains(refused(npy_of_three_rows().substr(0, 140)), "it is cut short");
  check_contains(refused(npy_of_three_rows() + "x"), "something follows the data");
  auto const dictionary = dictionary_of("<f4", "(1,)");
  auto const unaligned = npy(1, dictionary, "0000c03f");
  auto shorter = unaligned;
  shorter.erase(shorter.find('\n') - 1, 1);
  shorter[8] = static_cast<char>(shorter[8] - 1);
  check_contains(refused(shorter), "where they are not aligned");
  CHECK(values<float>(read_npy(path)) == std::vector<float>{1.5F});
  write_gzip(path, npy_of_three_rows());
  check_contains(thrown_error([&] { return map_npy(path); }), "it is compressed; read it by read_npy");
  check_contains(thrown_error([&] { return map_npy(folder.path() / "y.npy"); }), "not_found");
}

TEST_CASE("random arrays are read as they were written, compressed and in Fortran's order, too") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.npy";
  for (auto round = 0; round < 200; ++round) {
    auto const type = static_cast<ElementType>(random() % 11);
    RowShape shape(random() % 4);
    for (auto& extent : shape) extent = 1 + random() % 5;
    auto const rows = random() % 200;
    Bytes bytes(rows * size_bytes(type));
    for (auto const extent : shape) bytes.resize(bytes.size() * extent);
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
    auto const owner = std::make_shared<Bytes const>(bytes);
    Column const column{ColumnFormat{"data", type, shape}, {owner, owner->data()}, rows};
    write_npy(column, path);
    auto const check_same = [&](fs::path const& file) {
      auto const again = read_npy(file);
      REQUIRE(again.column("data").describe() == column.describe());
      REQUIRE(again.rows() == rows);
      CHECK(std::ranges::equal(again.column("data").bytes(), bytes));
    };
    check_same(path);
    auto content = read_text(path);
    check_same(write_gzip(folder.path() / "x.npy.gz", content));

    // The same array with its dimensions the other way round, of which each value is found by its numbers.
    auto extents = shape;
    extents.insert(extents.begin(), rows);
    auto const value_bytes = size_bytes(type);
    Bytes turned(bytes.size());
    for (std::size_t at = 0; at < bytes.size() / value_bytes; ++at) {
      auto rest = at;
      std::size_t place = 0;
      for (auto i = extents.size(); i-- > 0;) {
        auto stride = std::size_t{1};
        for (std::size_t before = 0; before < i; ++before) stride *= extents[before];
        place += rest % extents[i] * stride;
        rest /= extents[i];
      }
      std::ranges::copy(std::span{bytes}.subspan(at * value_bytes, value_bytes),
                        turned.begin() + static_cast<std::ptrdiff_t>(place * value_bytes));
    }
    content.replace(content.find("False"), 5, "True ");
    content.replace(content.size() - bytes.size(), bytes.size(), text_of(turned));
    check_same(write_text(folder.path() / "fortran.npy", content));
  }
}

TEST_CASE("a file that is cut off at any byte, or longer, is refused with its name, and compressed, too") {
  TemporaryFolder const folder;
  auto const whole = npy_of_three_rows();
  auto const path = folder.path() / "x.npy";
  auto const refused = [&] { return thrown_error([&] { return read_npy(path); }); };
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_text(path, whole.substr(0, length));
    check_contains(refused(), "invalid_data: read NumPy file '" + path.string() + "'");
    write_gzip(path, whole.substr(0, length));
    check_contains(refused(), "invalid_data: read NumPy file '" + path.string() + "'");
  }
  write_text(path, whole.substr(0, 151));
  check_contains(refused(),
                 "its header promises 3 x 2 of float32, 152 bytes in all, and it holds 151; it is cut short");
  write_text(path, whole + "x");
  check_contains(refused(), "152 bytes in all, and it holds 153; something follows the data");
  write_gzip(path, whole + "x");
  check_contains(refused(), "152 bytes in all, and it holds 153 once inflated; something follows the data");
  // A header that promises a terabyte takes no memory for it.
  write_text(path, npy(1, dictionary_of("<f4", "(1000000000000, 2)"), "00"));
  check_contains(refused(), "promises 1000000000000 x 2 of float32, 8000000000128 bytes in all, and it holds 129");
  write_gzip(path, npy(1, dictionary_of("<f4", "(1000000000000, 2)"), "00"));
  check_contains(refused(), "and it holds 129 once inflated; it is cut short");
}

TEST_CASE("what is no array of numbers is refused, and the message says what to do") {
  TemporaryFolder const folder;
  auto const refused = [&](std::string_view content) {
    return thrown_error([&] { return read_npy(write_text(folder.path() / "x.npy", content)); });
  };
  auto const refused_header = [&](std::string const& dictionary) { return refused(npy(1, dictionary, "")); };
  check_contains(refused("PK\x03\x04 an archive"), "it does not begin with \\x93NUMPY; name a file that numpy.save");
  check_contains(refused(npy(4, "{}", "")), "its format is 4.0");
  check_contains(refused(std::string{"\x93NUMPY\x02\0\0\0\xff\xff", 12}), "its header has 4294901760 bytes, more than");
  check_contains(refused_header(dictionary_of("<f8", "()")), "one number without a dimension; save numpy.atleast_1d");
  check_contains(refused_header("{'descr': [('a', '<f4'), ('b', '<i2')], 'fortran_order': False, 'shape': (2,), }"),
                 "it is an array of records; save each field");
  for (auto const* const descr : {"<U2", "|S3", "|O", "<c16", "<M8[ns]", "=f4", "f4", "|f4", "<f16", "", "<"}) {
    check_contains(refused_header(dictionary_of(descr, "(0,)")),
                   fmt::format("its type is '{}', which no column has; save it as numbers", descr));
  }
  check_contains(refused_header(dictionary_of("<f4", "(2, 0)")), "its dimension 1 is 0, so its rows are empty");
  check_contains(refused_header(dictionary_of("<f4", "(4294967296, 4294967296)")), "more than any file holds");
  std::string many = "(1";
  for (auto i = 0; i < 64; ++i) many += ", 1";
  check_contains(refused_header(dictionary_of("<f4", many + ")")), "it has 65 dimensions, more than NumPy's 64");
}

TEST_CASE("a header is a dictionary of three names, and nothing else that Python can read") {
  TemporaryFolder const folder;
  auto const wrong = [&](std::string const& dictionary, char const* problem) {
    auto const path = write_text(folder.path() / "x.npy", npy(1, dictionary, ""));
    check_contains(thrown_error([&] { return read_npy(path); }), std::string{"its header is wrong: "} + problem);
  };
  wrong("", "a { is missing");
  wrong("{}", "one of 'descr', 'fortran_order' and 'shape' is missing");
  wrong("{'descr': '<f4', 'shape': (0,)}", "one of 'descr', 'fortran_order' and 'shape' is missing");
  wrong(dictionary_of("<f4", "(0,)") + "x", "something follows its dictionary");
  wrong("{'descr': '<f4', 'descr': '<f4'}", "the name 'descr' is unknown, or comes twice");
  wrong(std::string{"{'de\0cr': 1}", 11}, "the name 'de?cr' is unknown, or comes twice");
  wrong("{'descr' '<f4'}", "a name in quotes or a colon is missing");
  wrong("{'descr': 1}", "'descr' is no text");
  wrong("{'descr': '<f4}", "'descr' is no text");
  wrong("{'descr': [('a', '<f4')", "'descr' is no text");
  wrong("{'descr': '<f4' 'shape': (0,)}", "a comma or } is missing");
  for (auto const* const order : {"true", "1", "'True'", "Falsch"}) {
    wrong(dictionary_of("<f4", "(0,)", order), "'fortran_order' is no bool");
  }
  for (auto const* const shape : {"(3)", "(-1,)", "(3,,)", "(3, 4", "[3]", "3", "(3L,)", "(0x3,)", "(,)", "(1.0,)",
                                  "(99999999999999999999,)", "(3 4)"}) {
    wrong(dictionary_of("<f4", shape), "'shape' is no tuple of whole numbers");
  }
  // What Python's repr could write as well.
  auto const path =
      write_text(folder.path() / "x.npy", npy(1, "{ \"shape\" : ( 0 , ),'fortran_order':False, 'descr':'|i1'}", ""));
  CHECK(read_npy(path).column("data").type() == ElementType::int8);
}

TEST_CASE("what NumPy has no array for is not written, and nothing is left behind") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.npy";
  auto const refused = [&](Column const& column, fs::path const& where) {
    return thrown_error([&] {
      write_npy(column, where);
      return 0;
    });
  };
  check_contains(refused(Column::of_texts("x", {"a"}), path), "column 'x' holds text and no numbers");
  check_contains(refused({"x", std::vector<BFloat16>(1)}, path),
                 "column 'x' holds bfloat16, which NumPy has not; make");
  check_contains(refused({"x", std::vector<float>(1), RowShape(64, 1)}, path), "has rows of 64 dimensions");
  check_contains(refused({"x", std::vector<float>(1)}, folder.path() / "missing" / "x.npy"),
                 "io: write NumPy file '" + (folder.path() / "missing" / "x.npy").string() + "': No such file");
  CHECK(fs::is_empty(folder.path()));
}
