// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "../fuzz/tensor_properties.hpp"
#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

auto tensor(std::string name, std::string type, std::vector<std::uint64_t> shape) -> StoredTensor {
  return {std::move(name), std::move(type), std::move(shape), 0, 0};
}

/// The header, its length before it, and so many bytes of tensors.
auto file_with(std::string_view json, std::size_t data_bytes = 0) -> std::string {
  std::string file;
  for (auto shift = 0U; shift < 64; shift += 8) file += static_cast<char>(json.size() >> shift & 0xFFU);
  return file + std::string{json} + std::string(data_bytes, 'x');
}

auto refusal(std::string_view file) -> std::string {
  return thrown_error([&] { return read_tensor_index(bytes_of(file), "loading m.safetensors"); });
}

}  // namespace

TEST_CASE("a header is the bytes that the format's description asks for") {
  auto const index = place_tensors({tensor("b", "U8", {3}), tensor("w", "F32", {1, 2})}, {{"format", "pt"}});
  auto const header = tensor_header(index);
  CHECK(header.substr(8) == R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                            R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})" +
                                std::string(44, ' '));
  CHECK(header.substr(0, 8) == std::string{"\xB8\0\0\0\0\0\0\0", 8});
  CHECK(index.file_bytes == header.size() + 11);
}

TEST_CASE(
    "tensors begin at a multiple of 64 bytes and each where its elements may lie, whatever the order and the names") {
  for (std::size_t length = 1; length < 130; ++length) {
    auto const index = place_tensors(
        {tensor(std::string(length, 'n'), "BOOL", {3}), tensor("h", "F16", {5}), tensor("d", "F64", {})}, {});
    CHECK(index.header_bytes % 64 == 0);
    CHECK(tensor_header(index).size() == index.header_bytes);
    for (auto const& each : index.tensors) CHECK(each.begin_bytes % *element_bytes(each.type) == 0);
  }
}

TEST_CASE("what is written is read back: scalars, empty tensors, every type, and names that JSON must escape") {
  std::vector<StoredTensor> tensors;
  for (auto const* type : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16", "I32", "U32", "F32",
                           "F64", "I64", "U64", "C64"}) {
    tensors.push_back(tensor(std::string{type} + "\"\\\n", type, {2, 3}));
    tensors.push_back(tensor(std::string{type} + " scalar", type, {}));
    tensors.push_back(tensor(std::string{type} + " empty", type, {7, 0}));
  }
  TensorMetadata const metadata{{"", "\x01"}, {"\"", "\xF0\x9F\x98\x80"}};
  auto const placed = place_tensors(tensors, metadata);
  CHECK(read_tensor_index(testing::file_of(tensors, metadata), "reading") == placed);
  CHECK(placed.tensors.size() == tensors.size());
}

TEST_CASE("tensors in another order than their bytes, and a header that is not padded, are read") {
  auto const file = file_with(
      R"({"b":{"shape":[2],"data_offsets":[4,6],"dtype":"U8"},"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
      6);
  auto const index = read_tensor_index(bytes_of(file), "reading");
  REQUIRE(index.tensors.size() == 2);
  CHECK(index.tensors[0].name == "a");
  CHECK(index.tensors[1].begin_bytes == file.size() - 2);
  CHECK(index.metadata.empty());
}

TEST_CASE("a file that is not as the format says is refused, with the value and where it stands") {
  auto const of = [](std::string const& fields) { return R"({"a":{)" + fields + "}}"; };
  struct {
    std::string file;
    char const* why;
  } const cases[] = {
      {"", "it has 0 bytes, and 8 tell its length"},
      {"1234567", "it has 7 bytes"},
      {std::string(8, '\xFF'), "its header would have 18446744073709551615 bytes, and 100000000 are the most"},
      {std::string{"\0\0\0\5\0\0\0\0", 8}, "its header would have 83886080 bytes, and the file has 8"},
      {file_with("{}").substr(0, 9), "its header would have 2 bytes, and the file has 9"},
      {file_with(""), "its header does not begin with {"},
      {file_with(" {}"), "its header does not begin with {"},
      {file_with("{"), "its header is not JSON"},
      {file_with("{\"\xFF\":1}"), "its header is not JSON: a byte is not UTF-8"},
      {file_with(R"({"a":1})"), "'a' is no JSON object"},
      {file_with(R"({"__metadata__":[]})"), "its metadata are no JSON object"},
      {file_with(R"({"__metadata__":{"k":1}})"), "its metadata 'k' are no text"},
      {file_with(R"({"__metadata__":{"k":"","k":""}})"), "its metadata 'k' come twice"},
      {file_with(of(R"("shape":[],"data_offsets":[0,4])"), 4), "'a' has no dtype"},
      {file_with(of(R"("dtype":"F32","data_offsets":[0,4])"), 4), "'a' has no shape"},
      {file_with(of(R"("dtype":"F32","shape":[])"), 4), "'a' has no data_offsets"},
      {file_with(of(R"("dtype":"F32","shape":[],"data_offsets":[0,4],"x":0)"), 4), "'a' has more than dtype, shape"},
      {file_with(of(R"("dtype":7,"shape":[],"data_offsets":[0,4])"), 4), "dtype of 'a' is no text"},
      {file_with(of(R"("dtype":"F33","shape":[],"data_offsets":[0,4])"), 4),
       "'a' has the type 'F33', which is unknown"},
      {file_with(of(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), 4), "shape of 'a' is no array"},
      {file_with(of(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4), "shape of 'a' holds something else"},
      {file_with(of(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4), "shape of 'a' holds something else"},
      {file_with(of(R"("dtype":"F32","shape":[],"data_offsets":[0,4,4])"), 4), "data_offsets of 'a' lie outside"},
      {file_with(of(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"), 4), "which has 4 bytes of tensors"},
      {file_with(of(R"("dtype":"F32","shape":[],"data_offsets":[4,0])"), 4), "data_offsets of 'a' lie outside"},
      {file_with(of(R"("dtype":"F32","shape":[],"data_offsets":[0,18446744073709551615])"), 4), "lie outside"},
      {file_with(of(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
       "'a' has 4 bytes, and its type and shape need 8"},
      {file_with(of(R"("dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,0])")),
       "'a' has 0 bytes, and its type and shape need more than can be counted"},
      {file_with(of(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])"), 4),
       "more than can be counted"},
      {file_with(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       "'a' comes twice"},
      {file_with(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       "'b' begins at byte 114, and the tensor before it ends at byte 115"},
      {file_with(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           3),
       "'b' begins at byte 115, and the tensor before it ends at byte 114"},
      {file_with(of(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 2), "its tensors end at byte 62 of 63"},
      {file_with("{}", 1), "its tensors end at byte 10 of 11"},
  };
  for (auto const& [file, why] : cases) {
    auto const text = refusal(file);
    check_contains(text, "corrupt_checkpoint: loading m.safetensors: ");
    check_contains(text, why);
    check_contains(text, "; write the file again by safetensors, or go on from an older checkpoint");
  }
}

TEST_CASE("every prefix of a file is refused") {
  for (auto const& file : testing::tensor_seeds()) {
    CHECK(testing::check_tensors(file));
    for (std::size_t length = 0; length < file.size(); ++length)
      CHECK_FALSE(testing::check_tensors(BytesView{file}.first(length)));
  }
}

TEST_CASE("tensors that no file can hold are refused, with the name") {
  auto const refused = [](std::vector<StoredTensor> tensors) {
    return thrown_error([&] { return place_tensors(std::move(tensors), {}); });
  };
  check_contains(refused({tensor("a", "F32", {}), tensor("a", "U8", {})}),
                 "invalid_report: storing the tensor 'a': its name comes twice; name each tensor once");
  check_contains(refused({tensor("__metadata__", "F32", {})}), "its name is the one of a file's metadata");
  check_contains(refused({tensor("\xFF", "F32", {})}), "its name is not UTF-8 text");
  check_contains(refused({tensor("a", "C128", {})}), "its type 'C128' is unknown here");
  check_contains(refused({tensor("a", "F32", {1ULL << 62U})}), "it is too large");
  check_contains(refused({tensor("a", "U8", {1ULL << 62U}), tensor("b", "U8", {1ULL << 62U})}), "'b': it is too large");
}
