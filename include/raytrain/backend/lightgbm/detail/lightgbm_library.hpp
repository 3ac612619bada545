// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// What raytrain uses of LightGBM's C API. The library's packages come without a header, so it is declared here;
/// handles are pointers to void, and every function but the first two returns 0, or -1 and has a text for
/// `LGBM_GetLastError`.
///
/// Source: the documentation of LightGBM's C API.
namespace raytrain::detail::lightgbm {

inline constexpr int float32 = 0;
inline constexpr int float64 = 1;
inline constexpr int int32 = 2;

inline constexpr int predict_value = 0;
inline constexpr int predict_margin = 1;
inline constexpr int predict_leaf = 2;
inline constexpr int predict_contributions = 3;

/// Adds up `size` bytes of `from` to `to`, or does what else it stands for.
using Reducer = void (*)(char const* from, char* to, int type_bytes, std::int32_t size);
using ReduceScatter = void (*)(char* input, std::int32_t input_bytes, int type_bytes, std::int32_t const* starts,
                               std::int32_t const* lengths, int blocks, char* output, std::int32_t output_bytes,
                               Reducer const& reducer);
using AllGather = void (*)(char* input, std::int32_t input_bytes, std::int32_t const* starts,
                           std::int32_t const* lengths, int blocks, char* output, std::int32_t output_bytes);

// NOLINTBEGIN(readability-identifier-naming): they are LightGBM's
extern "C" {
auto LGBM_GetLastError() -> char const*;
auto LGBM_RegisterLogCallback(void (*callback)(char const*)) -> int;

auto LGBM_NetworkInitWithFunctions(int machines, int rank, void* reduce_scatter, void* all_gather) -> int;
auto LGBM_NetworkFree() -> int;

auto LGBM_DatasetCreateFromMat(void const* data, int type, std::int32_t rows, std::int32_t columns, int is_row_major,
                               char const* parameters, void* reference, void** made) -> int;
auto LGBM_DatasetSetFeatureNames(void* dataset, char const** names, int count) -> int;
auto LGBM_DatasetSetField(void* dataset, char const* field, void const* data, int count, int type) -> int;
auto LGBM_DatasetFree(void* dataset) -> int;

auto LGBM_BoosterCreate(void* train, char const* parameters, void** made) -> int;
auto LGBM_BoosterLoadModelFromString(char const* text, int* iterations, void** made) -> int;
auto LGBM_BoosterMerge(void* booster, void* other) -> int;
auto LGBM_BoosterAddValidData(void* booster, void* dataset) -> int;
auto LGBM_BoosterUpdateOneIter(void* booster, int* is_finished) -> int;
auto LGBM_BoosterGetCurrentIteration(void* booster, int* iteration) -> int;
auto LGBM_BoosterGetNumClasses(void* booster, int* classes) -> int;
auto LGBM_BoosterGetNumFeature(void* booster, int* count) -> int;
auto LGBM_BoosterGetFeatureNames(void* booster, int length, int* count, std::size_t buffer_bytes,
                                 std::size_t* needed_bytes, char** names) -> int;
auto LGBM_BoosterGetEvalCounts(void* booster, int* count) -> int;
auto LGBM_BoosterGetEvalNames(void* booster, int length, int* count, std::size_t buffer_bytes,
                              std::size_t* needed_bytes, char** names) -> int;
auto LGBM_BoosterGetEval(void* booster, int dataset, int* count, double* values) -> int;
auto LGBM_BoosterCalcNumPredict(void* booster, int rows, int type, int first, int iterations, std::int64_t* count)
    -> int;
auto LGBM_BoosterPredictForMat(void* booster, void const* data, int data_type, std::int32_t rows, std::int32_t columns,
                               int is_row_major, int type, int first, int iterations, char const* parameters,
                               std::int64_t* count, double* values) -> int;
auto LGBM_BoosterSaveModelToString(void* booster, int first, int iterations, int importance, std::int64_t buffer_bytes,
                                   std::int64_t* needed_bytes, char* text) -> int;
auto LGBM_BoosterFeatureImportance(void* booster, int iterations, int importance, double* values) -> int;
auto LGBM_BoosterFree(void* booster) -> int;
}
// NOLINTEND(readability-identifier-naming)

}  // namespace raytrain::detail::lightgbm
