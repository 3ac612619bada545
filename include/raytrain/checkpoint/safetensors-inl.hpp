// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain {

namespace detail {

inline constexpr std::size_t safetensors_length_bytes = sizeof(std::uint64_t);
inline constexpr std::string_view safetensors_metadata_name = "__metadata__";

/// None when there are more than can be counted.
RAYTRAIN_INLINE auto bytes_of_shape(std::vector<std::uint64_t> const& shape, std::size_t element)
    -> std::optional<std::size_t> {
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  std::size_t bytes = element;
  for (auto const extent : shape) {
    if (extent > std::numeric_limits<std::size_t>::max() / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

/// The JSON without the spaces at its end.
RAYTRAIN_INLINE auto header_json(TensorIndex const& index) -> std::string {
  auto const first = index.tensors.empty() ? 0 : index.tensors.front().begin_bytes;
  std::string json;
  auto const begin_member = [&](std::string_view name) {
    json += json.empty() ? "{" : ",";
    json += json_string(name) + ":{";
  };
  if (!index.metadata.empty()) {
    begin_member(safetensors_metadata_name);
    for (auto const& [key, text] : index.metadata) {
      if (json.back() != '{') json += ',';
      json += json_string(key) + ':' + json_string(text);
    }
    json += '}';
  }
  for (auto const& tensor : index.tensors) {
    begin_member(tensor.name);
    json += R"("dtype":")" + tensor.type + R"(","shape":[)";
    for (auto const extent : tensor.shape) {
      if (json.back() != '[') json += ',';
      json += std::to_string(extent);
    }
    json += R"(],"data_offsets":[)";
    json += std::to_string(tensor.begin_bytes - first) + ',';
    json += std::to_string(tensor.begin_bytes - first + tensor.size_bytes) + "]}";
  }
  return json.empty() ? "{}" : json + "}";
}

/// Reads the JSON of a header: no number in it is believed before it is compared with what is there.
class TensorIndexReader {
 public:
  TensorIndexReader(BytesView file, std::string_view attempted) : file_{file}, attempted_{attempted} {}

  [[nodiscard]] auto read() -> TensorIndex {
    index_.file_bytes = file_.size();
    auto const document = parse(header());
    auto const* const members = document.get_if<JsonObject>();
    if (members == nullptr) refuse("its header is no JSON object");
    std::set<std::string_view> names;
    for (auto const& member : *members) {
      if (!names.insert(member.name).second) refuse(shown(member) + " comes twice");
      if (member.name == safetensors_metadata_name) {
        read_metadata(member);
      } else {
        index_.tensors.push_back(tensor(member));
      }
    }
    check_places();
    return std::move(index_);
  }

 private:
  [[nodiscard]] auto header() -> std::string_view {
    if (file_.size() < safetensors_length_bytes)
      refuse("it has " + std::to_string(file_.size()) + " bytes, and 8 tell its length");
    std::uint64_t length = 0;
    for (auto i = safetensors_length_bytes; i > 0; --i)
      length = length << 8U | std::to_integer<std::uint64_t>(file_[i - 1]);
    if (length > most_header_bytes) {
      refuse("its header would have " + std::to_string(length) + " bytes, and " + std::to_string(most_header_bytes) +
             " are the most");
    }
    if (length > file_.size() - safetensors_length_bytes) {
      refuse("its header would have " + std::to_string(length) + " bytes, and the file has " +
             std::to_string(file_.size()));
    }
    index_.header_bytes = safetensors_length_bytes + length;
    auto const text = text_of(file_.subspan(safetensors_length_bytes, length));
    if (!text.starts_with('{')) refuse("its header does not begin with {");
    return text;
  }

  [[nodiscard]] auto parse(std::string_view text) const -> JsonValue {
    try {
      return parse_json(text, "its header");
    } catch (Error const& error) {
      refuse("its header " + error.happened());
    }
  }

  [[nodiscard]] static auto shown(JsonMember const& member) -> std::string {
    return "'" + shown_name(member.name) + "'";
  }

  void read_metadata(JsonMember const& member) {
    auto const* const texts = member.value.get_if<JsonObject>();
    if (texts == nullptr) refuse("its metadata are no JSON object");
    for (auto const& text : *texts) {
      auto const* const value = text.value.get_if<std::string>();
      if (value == nullptr) refuse("its metadata " + shown(text) + " are no text");
      if (!index_.metadata.emplace(text.name, *value).second) refuse("its metadata " + shown(text) + " come twice");
    }
  }

  [[nodiscard]] auto tensor(JsonMember const& member) const -> StoredTensor {
    auto const* const fields = member.value.get_if<JsonObject>();
    if (fields == nullptr) refuse(shown(member) + " is no JSON object");
    auto const* const type = field(member, *fields, "dtype").get_if<std::string>();
    if (type == nullptr) refuse("dtype of " + shown(member) + " is no text");
    auto const element = element_bytes(*type);
    if (!element) refuse(shown(member) + " has the type '" + shown_name(*type) + "', which is unknown here");
    StoredTensor tensor{member.name, *type, numbers(member, *fields, "shape"), 0, 0};
    auto const offsets = numbers(member, *fields, "data_offsets");
    if (fields->size() != 3) refuse(shown(member) + " has more than dtype, shape and data_offsets");
    auto const data_bytes = file_.size() - index_.header_bytes;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
      refuse("data_offsets of " + shown(member) + " lie outside of the file, which has " + std::to_string(data_bytes) +
             " bytes of tensors");
    }
    tensor.begin_bytes = index_.header_bytes + offsets[0];
    tensor.size_bytes = offsets[1] - offsets[0];
    auto const needed = bytes_of_shape(tensor.shape, *element);
    if (needed != tensor.size_bytes) {
      refuse(shown(member) + " has " + std::to_string(tensor.size_bytes) + " bytes, and its type and shape need " +
             (needed ? std::to_string(*needed) : "more than can be counted"));
    }
    return tensor;
  }

  [[nodiscard]] auto field(JsonMember const& tensor, JsonObject const& fields, std::string_view name) const
      -> JsonValue const& {
    auto const found = std::ranges::find(fields, name, &JsonMember::name);
    if (found == fields.end()) refuse(shown(tensor) + " has no " + std::string{name});
    return found->value;
  }

  [[nodiscard]] auto numbers(JsonMember const& tensor, JsonObject const& fields, std::string_view name) const
      -> std::vector<std::uint64_t> {
    auto const* const values = field(tensor, fields, name).get_if<JsonArray>();
    if (values == nullptr) refuse(std::string{name} + " of " + shown(tensor) + " is no array");
    std::vector<std::uint64_t> numbers;
    for (auto const& value : *values) {
      auto const* const whole = value.get_if<std::int64_t>();
      auto const* const large = value.get_if<std::uint64_t>();
      if (large == nullptr && (whole == nullptr || *whole < 0)) {
        refuse(std::string{name} + " of " + shown(tensor) + " holds something else than numbers from 0");
      }
      numbers.push_back(large != nullptr ? *large : static_cast<std::uint64_t>(*whole));
    }
    return numbers;
  }

  void check_places() {
    std::ranges::stable_sort(index_.tensors, {}, [](auto const& tensor) {
      return std::pair{tensor.begin_bytes, tensor.size_bytes};
    });
    auto place = index_.header_bytes;
    for (auto const& tensor : index_.tensors) {
      if (tensor.begin_bytes != place) {
        refuse("'" + shown_name(tensor.name) + "' begins at byte " + std::to_string(tensor.begin_bytes) +
               ", and the tensor before it ends at byte " + std::to_string(place));
      }
      place += tensor.size_bytes;
    }
    if (place == file_.size()) return;
    refuse("its tensors end at byte " + std::to_string(place) + " of " + std::to_string(file_.size()));
  }

  [[noreturn]] void refuse(std::string happened) const {
    throw Error{Errc::corrupt_checkpoint, std::string{attempted_}, std::move(happened),
                "write the file again by safetensors, or go on from an older checkpoint"};
  }

  BytesView file_;
  std::string_view attempted_;
  TensorIndex index_;
};

}  // namespace detail

RAYTRAIN_INLINE auto element_bytes(std::string_view type) noexcept -> std::optional<std::size_t> {
  struct Known {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr std::array<Known, 16> known{{{"BOOL", 1},
                                                {"U8", 1},
                                                {"I8", 1},
                                                {"F8_E5M2", 1},
                                                {"F8_E4M3", 1},
                                                {"I16", 2},
                                                {"U16", 2},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"I32", 4},
                                                {"U32", 4},
                                                {"F32", 4},
                                                {"F64", 8},
                                                {"I64", 8},
                                                {"U64", 8},
                                                {"C64", 8}}};
  auto const* const found = std::ranges::find(known, type, &Known::name);
  return found == known.end() ? std::nullopt : std::optional{found->bytes};
}

RAYTRAIN_INLINE auto stored_type(ElementType type) noexcept -> std::string_view {
  switch (type) {
    case ElementType::float32: return "F32";
    case ElementType::float64: return "F64";
    case ElementType::int8: return "I8";
    case ElementType::int16: return "I16";
    case ElementType::int32: return "I32";
    case ElementType::int64: return "I64";
    case ElementType::uint8: return "U8";
    case ElementType::uint16: return "U16";
    case ElementType::uint32: return "U32";
    case ElementType::uint64: return "U64";
    case ElementType::float16: return "F16";
    case ElementType::bfloat16: return "BF16";
  }
  return {};
}

RAYTRAIN_INLINE auto can_name_tensor(std::string_view name) noexcept -> bool {
  return is_utf8(name) && name != detail::safetensors_metadata_name;
}

RAYTRAIN_INLINE auto shown_tensor_name(std::string_view name) -> std::string { return detail::shown_name(name); }

RAYTRAIN_INLINE auto place_tensors(std::vector<StoredTensor> tensors, TensorMetadata metadata) -> TensorIndex {
  auto const refuse = [](std::string const& name, std::string const& happened) {
    throw Error{Errc::invalid_report, "storing the tensor '" + detail::shown_name(name) + "'", happened,
                "name each tensor once, in UTF-8, or store it in another format"};
  };
  std::set<std::string_view> names;
  std::size_t total_bytes = 0;
  for (auto& tensor : tensors) {
    auto const& name = tensor.name;
    if (!is_utf8(name)) refuse(name, "its name is not UTF-8 text");
    if (name == detail::safetensors_metadata_name) refuse(name, "its name is the one of a file's metadata");
    if (!names.insert(name).second) refuse(name, "its name comes twice");
    auto const element = element_bytes(tensor.type);
    if (!element) refuse(name, "its type '" + tensor.type + "' is unknown here");
    auto const bytes = detail::bytes_of_shape(tensor.shape, *element);
    constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;
    if (!bytes || *bytes > most - total_bytes) refuse(name, "it is too large");
    total_bytes += *bytes;
    tensor.size_bytes = *bytes;
  }
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](auto const& tensor) { return element_bytes(tensor.type).value_or(0); });
  std::size_t place = 0;
  for (auto& tensor : tensors) place = (tensor.begin_bytes = place) + tensor.size_bytes;
  TensorIndex index{std::move(tensors), std::move(metadata), 0, 0};
  auto const unpadded = detail::safetensors_length_bytes + detail::header_json(index).size();
  index.header_bytes = (unpadded + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes;
  index.file_bytes = index.header_bytes + total_bytes;
  for (auto& tensor : index.tensors) tensor.begin_bytes += index.header_bytes;
  return index;
}

RAYTRAIN_INLINE auto tensor_header(TensorIndex const& index) -> std::string {
  std::string header;
  for (auto shift = 0U; shift < 8 * detail::safetensors_length_bytes; shift += 8) {
    header += static_cast<char>((index.header_bytes - detail::safetensors_length_bytes) >> shift & 0xFFU);
  }
  header += detail::header_json(index);
  header.resize(index.header_bytes, ' ');
  return header;
}

RAYTRAIN_INLINE auto read_tensor_index(BytesView file, std::string_view attempted) -> TensorIndex {
  return detail::TensorIndexReader{file, attempted}.read();
}

}  // namespace raytrain
