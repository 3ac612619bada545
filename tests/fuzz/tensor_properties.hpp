// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all that are read as a file of tensors.
#pragma once

#include <utility>
#include <vector>

#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>

#include "properties.hpp"

namespace raytrain::testing {

/// A file of these tensors, whose bytes count up.
[[nodiscard]] inline auto file_of(std::vector<StoredTensor> tensors, TensorMetadata metadata = {}) -> Bytes {
  auto const index = place_tensors(std::move(tensors), std::move(metadata));
  auto const header = tensor_header(index);
  auto const bytes = bytes_of(header);
  Bytes file{bytes.begin(), bytes.end()};
  while (file.size() < index.file_bytes) file.push_back(static_cast<std::byte>(file.size() - header.size()));
  return file;
}

/// True if the bytes are a file of tensors.
inline auto check_tensors(BytesView file) -> bool {
  auto const index = unless_refused(Errc::corrupt_checkpoint, [&] { return read_tensor_index(file, "reading"); });
  if (!index) return false;
  auto place = index->header_bytes;
  for (auto const& tensor : index->tensors) {
    require(tensor.begin_bytes == place, "tensors lie behind one another");
    place += tensor.size_bytes;
  }
  require(place == file.size(), "tensors fill the file");
  auto const again = place_tensors(index->tensors, index->metadata);
  auto const written = file_of(index->tensors, index->metadata);
  require(written.size() == again.file_bytes, "a file has the size that was told");
  require(read_tensor_index(written, "reading again") == again, "tensors are found where they were placed");
  return true;
}

[[nodiscard]] inline auto tensor_seeds() -> std::vector<Bytes> {
  return {file_of({{"weight", "F32", {2, 3}, 0, 0}, {"steps", "I64", {}, 0, 0}, {"none", "BF16", {0, 4}, 0, 0}},
                  {{"format", "pt"}, {"a\n", "\xC3\xB6"}}),
          file_of({{"\"", "BOOL", {1, 1, 1}, 0, 0}}), file_of({})};
}

}  // namespace raytrain::testing
