// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>

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
auto LGBM_GetSampleCount(std::int32_t rows, char const* parameters, int* count) -> int;
auto LGBM_SampleIndices(std::int32_t rows, char const* parameters, void* sampled, std::int32_t* count) -> int;
auto LGBM_DatasetCreateFromSampledColumn(double** values, int** sampled, std::int32_t columns, int const* counts,
                                         std::int32_t sampled_rows, std::int32_t rows, std::int64_t rows_for_filter,
                                         char const* parameters, void** made) -> int;
auto LGBM_DatasetCreateByReference(void* reference, std::int64_t rows, void** made) -> int;
auto LGBM_DatasetInitStreaming(void* dataset, std::int32_t has_weights, std::int32_t has_initial_scores,
                               std::int32_t has_queries, std::int32_t classes, std::int32_t callers,
                               std::int32_t threads_of_caller) -> int;
auto LGBM_DatasetPushRows(void* dataset, void const* data, int type, std::int32_t rows, std::int32_t columns,
                          std::int32_t first_row) -> int;
auto LGBM_DatasetMarkFinished(void* dataset) -> int;
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

namespace raytrain::detail {

/// What LightGBM has to say, in one line: without the place in its sources, "at FILE, line 12 .".
[[nodiscard]] inline auto readable_lightgbm_text(std::string_view text) -> std::string {
  std::string readable{text};
  std::ranges::replace(readable, '\n', ' ');
  auto const line = readable.rfind(", line ");
  auto const end = line == std::string::npos ? line : readable.rfind(" at ", line);
  if (end != std::string::npos && readable.find_first_not_of("0123456789 .", line + 7) == std::string::npos) {
    readable.resize(end);
  }
  readable.resize(readable.find_last_not_of(' ') + 1);
  return readable.empty() ? "failed without a message" : readable;
}

/// The exception that left one of raytrain's functions which LightGBM has called. `lightgbm_call` throws it again when
/// LightGBM returns.
[[nodiscard]] inline auto lightgbm_thrown() noexcept -> std::exception_ptr& {
  thread_local std::exception_ptr thrown;
  return thrown;
}

/// Throws when a function of LightGBM's C API has failed; every call of one goes through here. LightGBM also prints its
/// own errors to standard error, and cannot be kept from it.
///
/// Threads: the one that called the function, since its message is that thread's.
/// Errors:  what a collective has thrown in it; else `backend` with what LightGBM says of it.
inline void lightgbm_call(int status, std::string_view function, std::string remedy = {}) {
  if (status == 0) return;
  if (auto const thrown = std::exchange(lightgbm_thrown(), nullptr)) std::rethrow_exception(thrown);
  throw Error{Errc::backend, std::string{function}, readable_lightgbm_text(lightgbm::LGBM_GetLastError()),
              std::move(remedy)};
}

/// Collects LightGBM's warnings instead of printing them, each text once per thread.
class LightGBMLog {
 public:
  /// Keeps the warnings of this thread from here on.
  static void keep() {
    lightgbm_call(lightgbm::LGBM_RegisterLogCallback(&LightGBMLog::add), "LGBM_RegisterLogCallback");
  }

  /// The warnings since the last call.
  [[nodiscard]] static auto take() -> std::vector<std::string> { return std::exchange(log().fresh, {}); }

 private:
  struct Log {
    std::string line;
    std::set<std::string> known;
    std::vector<std::string> fresh;
  };
  static auto log() -> Log& {
    thread_local Log kept;
    return kept;
  }

  /// LightGBM gives a line in pieces: "[LightGBM] [Warning] ", its text, and a line feed.
  static void add(char const* piece) {
    constexpr std::string_view warning = "[LightGBM] [Warning] ";
    auto& [line, known, fresh] = log();
    line += piece;
    if (!line.ends_with('\n')) return;
    auto const complete = std::exchange(line, {});
    if (!complete.starts_with(warning)) return;
    auto text = readable_lightgbm_text(std::string_view{complete}.substr(warning.size()));
    if (text.starts_with("No further splits with positive gain"))
      return;  // of every tree with fewer leaves than allowed
    if (known.insert(text).second) fresh.push_back(std::move(text));
  }
};

/// Whether a warning says that LightGBM ignores a parameter: an unknown one, or a second name of one that is given.
[[nodiscard]] inline auto is_unused_parameter(std::string_view warning) -> bool {
  return warning.starts_with("Unknown parameter") || warning.find(" will be ignored.") != std::string_view::npos;
}

}  // namespace raytrain::detail
