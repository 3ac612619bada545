// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every preprocessor, and what stores them.

#include <raytrain/preprocess/chain.hpp>
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
