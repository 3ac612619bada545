// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

namespace raytrain {

namespace detail {

template <class... P>
void register_preprocessors() {
  (register_preprocessor<P>(), ...);
}

}  // namespace detail

RAYTRAIN_INLINE auto to_json(AnyPreprocessor const& preprocessor) -> std::string { return write_json(preprocessor); }

RAYTRAIN_INLINE auto preprocessor_from_json(std::string_view text, std::string_view what) -> AnyPreprocessor {
  detail::register_preprocessors<Chain, StandardScaler>();
  return read_json<AnyPreprocessor>(text, what);
}

RAYTRAIN_INLINE void save_preprocessor(AnyPreprocessor const& preprocessor, std::filesystem::path const& path) {
  replace_whole_file(path, bytes_of(to_json(preprocessor)));
}

RAYTRAIN_INLINE auto load_preprocessor(std::filesystem::path const& path) -> AnyPreprocessor {
  auto const content = view_whole_file(path);
  return preprocessor_from_json(text_of(content.view()), path.string());
}

}  // namespace raytrain
