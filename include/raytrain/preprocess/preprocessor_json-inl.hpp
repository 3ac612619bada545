// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>
#include <raytrain/preprocess/concatenator.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/feature_hasher.hpp>
#include <raytrain/preprocess/function_transformer.hpp>
#include <raytrain/preprocess/hashing_vectorizer.hpp>
#include <raytrain/preprocess/k_bins_discretizer.hpp>
#include <raytrain/preprocess/label_encoder.hpp>
#include <raytrain/preprocess/max_abs_scaler.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/multi_hot_encoder.hpp>
#include <raytrain/preprocess/normalizer.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/power_transformer.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/simple_imputer.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>
#include <raytrain/preprocess/tokenizer.hpp>

namespace raytrain {

namespace detail {

template <class... P>
void register_types() {
  (register_preprocessor<P>(), ...);
}

/// Those that raytrain has.
inline void register_preprocessors() {
  register_types<Chain, Concatenator, CountVectorizer, FeatureHasher, FunctionTransformer, HashingVectorizer,
                 KBinsDiscretizer, LabelEncoder, MaxAbsScaler, MinMaxScaler, MultiHotEncoder, Normalizer, OneHotEncoder,
                 OrdinalEncoder, PowerTransformer, RobustScaler, SimpleImputer, StandardScaler, Tokenizer>();
}

}  // namespace detail

RAYTRAIN_INLINE auto to_json(AnyPreprocessor const& preprocessor) -> std::string { return write_json(preprocessor); }

RAYTRAIN_INLINE auto preprocessor_from_json(std::string_view text, std::string_view what) -> AnyPreprocessor {
  detail::register_preprocessors();
  return read_json<AnyPreprocessor>(text, what);
}

RAYTRAIN_INLINE void save_preprocessor(AnyPreprocessor const& preprocessor, std::filesystem::path const& path) {
  replace_whole_file(path, bytes_of(to_json(preprocessor)));
}

RAYTRAIN_INLINE auto load_preprocessor(std::filesystem::path const& path) -> AnyPreprocessor {
  auto const content = view_whole_file(path);
  return preprocessor_from_json(text_of(content.view()), path.string());
}

RAYTRAIN_INLINE auto load_preprocessor(Checkpoint const& checkpoint) -> AnyPreprocessor {
  detail::register_preprocessors();
  return detail::PreprocessorDocument{checkpoint}.read().fitted;
}

RAYTRAIN_INLINE auto find_preprocessor(Checkpoint const& checkpoint) -> AnyPreprocessor {
  auto const is_there = checkpoint.contains(detail::CheckpointedPreprocessor::file_name);
  return is_there ? load_preprocessor(checkpoint) : AnyPreprocessor{};
}

}  // namespace raytrain
