// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>

/// Tensors in one file, as Python's safetensors reads and writes it: eight bytes, little-endian, with the length of a
/// JSON object that says of each tensor its type, shape and place; that object; then the tensors' bytes, in the order
/// of rows and without holes.
///
/// Source: the format's description in the README of huggingface/safetensors 0.4.
namespace raytrain {

struct StoredTensor {
  std::string name;
  std::string type;                  ///< As the format calls it: "F32".
  std::vector<std::uint64_t> shape;  ///< Empty for a single number.
  std::size_t begin_bytes{};         ///< Where its bytes begin in the file.
  std::size_t size_bytes{};
  friend auto operator==(StoredTensor const&, StoredTensor const&) -> bool = default;
};

using TensorMetadata = std::map<std::string, std::string>;

/// Which tensors a file holds, in the order of their bytes, and texts that belong to all of them.
struct TensorIndex {
  std::vector<StoredTensor> tensors;
  TensorMetadata metadata;
  std::size_t header_bytes{};  ///< Of the length and the JSON: where the first tensor begins.
  std::size_t file_bytes{};
  friend auto operator==(TensorIndex const&, TensorIndex const&) -> bool = default;
};

/// Where tensors begin that this writes, so that every one lies as its elements must: a cache line.
inline constexpr std::size_t tensor_alignment_bytes = 64;

/// The most that a length and its JSON may have, as in Python.
inline constexpr std::size_t most_header_bytes = 100'000'000;

/// Bytes of one element; none for a type that the format does not have.
[[nodiscard]] auto element_bytes(std::string_view type) noexcept -> std::optional<std::size_t>;

/// As the format calls it: "F32".
[[nodiscard]] auto stored_type(ElementType type) noexcept -> std::string_view;

/// Whether a file can have a tensor of that name: one in UTF-8, and not "__metadata__".
[[nodiscard]] auto can_name_tensor(std::string_view name) noexcept -> bool;

/// The name as a message can hold it, whatever a file says.
[[nodiscard]] auto shown_tensor_name(std::string_view name) -> std::string;

/// Gives tensors of a name, a type and a shape their places: those of large elements first, else in their order.
///
/// Errors: `invalid_report` for a name that comes twice, is "__metadata__" or not UTF-8, for an unknown type and for
///         more bytes than 64 bits can count.
[[nodiscard]] auto place_tensors(std::vector<StoredTensor> tensors, TensorMetadata metadata) -> TensorIndex;

/// What stands before the tensors, `header_bytes` long; of what `place_tensors` gave.
[[nodiscard]] auto tensor_header(TensorIndex const& index) -> std::string;

/// What a whole file holds, every place in it checked. `attempted` begins the message of an error.
///
/// Errors: `corrupt_checkpoint` for anything else than a whole file of the format, with types that `element_bytes`
/// knows.
[[nodiscard]] auto read_tensor_index(BytesView file, std::string_view attempted) -> TensorIndex;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/safetensors-inl.hpp>
#endif
