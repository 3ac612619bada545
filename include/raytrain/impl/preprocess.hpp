// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/preprocess/any_preprocessor-inl.hpp>
#include <raytrain/preprocess/chain-inl.hpp>
#include <raytrain/preprocess/column_statistics-inl.hpp>
#include <raytrain/preprocess/concatenator-inl.hpp>
#include <raytrain/preprocess/detail/added_counts-inl.hpp>
#include <raytrain/preprocess/detail/categories-inl.hpp>
#include <raytrain/preprocess/detail/fitted_columns-inl.hpp>
#include <raytrain/preprocess/detail/float_columns-inl.hpp>
#include <raytrain/preprocess/detail/linear_scale-inl.hpp>
#include <raytrain/preprocess/detail/made_column-inl.hpp>
#include <raytrain/preprocess/detail/piece_counts-inl.hpp>
#include <raytrain/preprocess/detail/zeroed_rows-inl.hpp>
#include <raytrain/preprocess/fit_rows-inl.hpp>
#include <raytrain/preprocess/function_transformer-inl.hpp>
#include <raytrain/preprocess/k_bins_discretizer-inl.hpp>
#include <raytrain/preprocess/label_encoder-inl.hpp>
#include <raytrain/preprocess/max_abs_scaler-inl.hpp>
#include <raytrain/preprocess/min_max_scaler-inl.hpp>
#include <raytrain/preprocess/multi_hot_encoder-inl.hpp>
#include <raytrain/preprocess/one_hot_encoder-inl.hpp>
#include <raytrain/preprocess/ordinal_encoder-inl.hpp>
#include <raytrain/preprocess/preprocessor_json-inl.hpp>
#include <raytrain/preprocess/robust_scaler-inl.hpp>
#include <raytrain/preprocess/simple_imputer-inl.hpp>
#include <raytrain/preprocess/standard_scaler-inl.hpp>
