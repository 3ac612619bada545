// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/lightgbm/detail/block_dataset.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain {

/// What the columns of a dataset are to LightGBM, and how it reads them.
struct LightGBMDatasetOptions {
  std::string label{};                     ///< Column of what is to be predicted; empty: none, for prediction.
  std::string weight{};                    ///< Column of the rows' weights; empty: all 1.
  std::string group{};                     ///< Column of query ids for ranking: rows of one lie together; empty: none.
  std::vector<std::string> features{};     ///< Empty: all other columns.
  std::vector<std::string> categorical{};  ///< Features whose values are categories, from 0 on.
  /// Parameters of LightGBM: those that decide how features are put into bins (`max_bin`), and all others as well.
  std::map<std::string, std::string> params{};
};

namespace detail {

/// Errors: `invalid_data` for more than LightGBM can count.
inline void check_lightgbm_rows(std::size_t rows) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  if (rows <= most) return;
  throw Error{Errc::invalid_data, "LightGBMDataset",
              fmt::format("{} rows are more than LightGBM can count, {}", rows, most), "use more workers"};
}

/// As a model has names: with '_' for a space.
[[nodiscard]] inline auto lightgbm_names(std::vector<std::string> names) -> std::vector<std::string> {
  for (auto& name : names) std::ranges::replace(name, ' ', '_');
  return names;
}

/// Parameters as LightGBM reads them.
///
/// Errors: `invalid_config` for a space in one of them, at which LightGBM would end it.
[[nodiscard]] inline auto lightgbm_parameters(std::map<std::string, std::string> const& params) -> std::string {
  std::string text;
  for (auto const& [name, value] : params) {
    auto const one = name + '=' + value;
    if (name.empty() || one.find_first_of(" \t\r\n") != std::string::npos) {
      throw Error{Errc::invalid_config, "LightGBM's parameter '" + one + "'", "has a space or no name",
                  "LightGBM takes names and values without spaces"};
    }
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

[[nodiscard]] inline auto roles_of(LightGBMDatasetOptions const& options) -> FeatureTable::Roles {
  return {options.label, options.weight, options.group, options.features, options.categorical};
}

[[nodiscard]] inline auto feature_table(Dataset const& data, LightGBMDatasetOptions const& options) -> FeatureTable {
  return {data, roles_of(options), "LightGBMDataset"};
}

/// The features of a dataset's rows in memory, as LightGBM reads them: as they are where they lie side by side, else
/// copied, to doubles where floats are not exact.
class LightGBMMatrix {
 public:
  LightGBMMatrix(Dataset const& data, LightGBMDatasetOptions const& options) : table_{feature_table(data, options)} {
    check_lightgbm_rows(table_.rows());
    auto const columns = table_.columns();
    auto const type = columns.front().type();
    if (columns.size() == 1 && (type == ElementType::float32 || type == ElementType::float64)) {
      data_ = columns.front().bytes().data();
      type_ = type == ElementType::float32 ? lightgbm::float32 : lightgbm::float64;
    } else if (std::ranges::all_of(columns, [](auto const& column) { return fits_float(column.type()); })) {
      data_ = copied_.emplace<1>(table_.row_major<float>()).data();
      type_ = lightgbm::float32;
    } else {
      data_ = copied_.emplace<2>(table_.row_major<double>()).data();
      type_ = lightgbm::float64;
    }
  }
  LightGBMMatrix(LightGBMMatrix const&) = delete;
  auto operator=(LightGBMMatrix const&) -> LightGBMMatrix& = delete;

  [[nodiscard]] auto table() const noexcept -> FeatureTable const& { return table_; }
  /// As a model has them.
  [[nodiscard]] auto names() const -> std::vector<std::string> { return lightgbm_names(table_.names()); }
  [[nodiscard]] auto data() const noexcept -> void const* { return data_; }
  [[nodiscard]] auto type() const noexcept -> int { return type_; }
  [[nodiscard]] auto rows() const noexcept -> std::int32_t { return static_cast<std::int32_t>(table_.rows()); }
  [[nodiscard]] auto features() const noexcept -> std::int32_t {
    return static_cast<std::int32_t>(table_.names().size());
  }

 private:
  static constexpr auto fits_float(ElementType type) noexcept -> bool {
    return type == ElementType::float32 || size_bytes(type) < sizeof(float);
  }

  FeatureTable table_;
  std::variant<std::monostate, std::vector<float>, std::vector<double>> copied_;
  void const* data_ = nullptr;
  int type_ = lightgbm::float32;
};

}  // namespace detail

/// LightGBM's own form of a dataset: features in bins. The dataset is copied into it, and not needed afterwards.
///
/// Threads: one at a time; where workers train together it is made, used and freed on the worker's own.
class LightGBMDataset {
 public:
  /// `reference`: the dataset that a model trains on, whose bins this one gets, to be evaluated with it.
  ///
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, a group that is NaN, rows of a group that do not lie together, and for other features
  ///         than those of the reference, in their order; `backend` with LightGBM's text.
  explicit LightGBMDataset(Dataset const& data, LightGBMDatasetOptions const& options = {},
                           LightGBMDataset const* reference = nullptr)
      : LightGBMDataset{detail::LightGBMMatrix{data, options}, options, reference} {}

  /// Rows that come block by block, of which one is in memory at a time. The dataset keeps the bins of all of them, one
  /// byte for each value, two with a `max_bin` above 255; and the labels and weights. `make_blocks` is called three
  /// times: to count the rows, for those in which LightGBM looks for bins, and for all values; twice with a reference.
  /// `reference`: as above.
  ///
  /// Errors: as the other one for each block, with its rows; `invalid_data` for blocks whose features differ, and for
  ///         other rows than at first; `invalid_config` for groups and for `linear_tree`; what the blocks' reader
  ///         throws.
  explicit LightGBMDataset(MakeBlocks make_blocks, LightGBMDatasetOptions const& options = {},
                           LightGBMDataset const* reference = nullptr)
      : LightGBMDataset{
            *std::make_unique<detail::LightGBMBlocks>(std::move(make_blocks), roles_of_blocks(options), owner), options,
            reference} {}

  /// Of blocks that nothing was taken of. See `BlockRows`, which looks at the first one before.
  LightGBMDataset(detail::LightGBMBlocks& blocks, LightGBMDatasetOptions const& options,
                  LightGBMDataset const* reference)
      : names_{detail::lightgbm_names(blocks.names())}, has_linear_trees_{has_linear_trees(options, reference)} {
    if (has_linear_trees_) refuse_linear_trees();
    check_reference(reference);
    detail::LightGBMLog::keep();
    std::vector<float> weights;
    while (blocks.next()) {
      rows_ += blocks.rows();
      labels_.insert(labels_.end(), blocks.labels().begin(), blocks.labels().end());
      weights.insert(weights.end(), blocks.weights().begin(), blocks.weights().end());
    }
    detail::check_lightgbm_rows(rows_);
    auto const rows = static_cast<std::int32_t>(rows_);
    handle_ = reference != nullptr
                  ? detail::new_dataset_with_bins_of(reference->handle(), rows)
                  : detail::new_dataset_with_bins(blocks, rows, parameters(options, blocks.is_categorical()));
    detail::push_blocks(blocks, handle(), options.params);
    describe(weights, {});
  }

  /// How blocks are looked at.
  ///
  /// Errors: `invalid_config` for groups.
  [[nodiscard]] static auto roles_of_blocks(LightGBMDatasetOptions const& options) -> detail::FeatureTable::Roles {
    if (!options.group.empty()) {
      throw Error{Errc::invalid_config, "LightGBMDatasetOptions::group",
                  fmt::format("is '{}', and rows that come in blocks have no groups", options.group),
                  "give a dataset, as `materialize` makes it of blocks"};
    }
    return detail::roles_of(options);
  }

  /// What errors name.
  static constexpr auto owner = "LightGBMDataset";

  [[nodiscard]] auto handle() const noexcept -> void* { return handle_.get(); }
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }

  /// In the order of the features; with '_' for a space, which LightGBM has none of.
  [[nodiscard]] auto feature_names() const noexcept -> std::vector<std::string> const& { return names_; }

  /// One for each row; empty without a label.
  [[nodiscard]] auto labels() const noexcept -> std::span<float const> { return labels_; }

  /// Sum of the rows' weights; their number without a weight.
  [[nodiscard]] auto total_weight() const noexcept -> double { return total_weight_; }

  /// The margins from which boosting goes on: those of all rows for the first class, then for the next one.
  void set_initial_scores(std::span<double const> scores) { set_field<double>("init_score", scores); }

 private:
  LightGBMDataset(detail::LightGBMMatrix const& matrix, LightGBMDatasetOptions const& options,
                  LightGBMDataset const* reference)
      : rows_{matrix.table().rows()},
        names_{matrix.names()},
        labels_{matrix.table().labels()},
        has_linear_trees_{has_linear_trees(options, reference)} {
    check_reference(reference);
    detail::LightGBMLog::keep();
    void* made = nullptr;
    detail::lightgbm_call(
        detail::lightgbm::LGBM_DatasetCreateFromMat(matrix.data(), matrix.type(), matrix.rows(), matrix.features(), 1,
                                                    parameters(options, matrix.table().is_categorical()).c_str(),
                                                    reference != nullptr ? reference->handle() : nullptr, &made),
        "LGBM_DatasetCreateFromMat");
    handle_.reset(made);
    describe(matrix.table().weights(), matrix.table().group_sizes());
  }

  static auto parameters(LightGBMDatasetOptions const& options, std::vector<bool> const& is_categorical)
      -> std::string {
    auto parameters = options.params;
    std::string categorical;
    for (std::size_t i = 0; i < is_categorical.size(); ++i) {
      if (is_categorical[i]) categorical += (categorical.empty() ? "" : ",") + std::to_string(i);
    }
    if (!categorical.empty()) parameters["categorical_feature"] = categorical;
    return detail::lightgbm_parameters(parameters);
  }

  /// LightGBM keeps the values of a dataset for them, and of those with its bins.
  static auto has_linear_trees(LightGBMDatasetOptions const& options, LightGBMDataset const* reference) -> bool {
    if (reference != nullptr && reference->has_linear_trees_) return true;
    return std::ranges::any_of(std::array{"linear_tree", "linear_trees"}, [&](auto const* name) {
      auto const found = options.params.find(name);
      return found != options.params.end() && found->second != "false" && found->second != "-";
    });
  }

  /// LightGBM takes features by their places, whatever their names.
  void check_reference(LightGBMDataset const* reference) const {
    if (reference == nullptr || reference->names_ == names_) return;
    auto const& wanted = reference->names_;
    auto const place = std::ranges::mismatch(names_, wanted).in1 - names_.begin();
    auto const at = static_cast<std::size_t>(place);
    throw Error{Errc::invalid_data, "LightGBMDataset with the bins of a reference",
                names_.size() != wanted.size()
                    ? fmt::format("it has {} features, and the reference {}", names_.size(), wanted.size())
                    : fmt::format("its feature {} is '{}', and that of the reference '{}'", at, names_[at], wanted[at]),
                "give the columns of the rows to train on, in their order"};
  }

  /// LightGBM 4.7 loses values where it gets the rows in batches of several sizes.
  [[noreturn]] static void refuse_linear_trees() {
    throw Error{Errc::invalid_config, "LightGBMDatasetOptions::params",
                "holds 'linear_tree', for which LightGBM needs all values, and of blocks it keeps the bins",
                "leave it out, or give a dataset, as `materialize` makes it of blocks"};
  }

  /// What LightGBM is told beside the features' values. A dataset with the bins of another one may have weights and
  /// groups of zeros, where that one has some.
  void describe(std::vector<float> const& weights, std::vector<std::uint32_t> const& groups) {
    name_features();
    total_weight_ = weights.empty() ? static_cast<double>(rows_) : std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!labels_.empty()) set_field<float>("label", labels_);
    set_field<float>("weight", weights);
    set_field<std::uint32_t>("group", groups);
    set_field<double>("init_score", {});
  }

  void name_features() {
    std::vector<char const*> pointers;
    for (auto const& name : names_) pointers.push_back(name.c_str());
    detail::lightgbm_call(
        detail::lightgbm::LGBM_DatasetSetFeatureNames(handle(), pointers.data(), static_cast<int>(pointers.size())),
        "LGBM_DatasetSetFeatureNames", "rename the dataset's columns");
  }

  template <class T>
  static constexpr int field_type = std::is_same_v<T, float>    ? detail::lightgbm::float32
                                    : std::is_same_v<T, double> ? detail::lightgbm::float64
                                                                : detail::lightgbm::int32;

  template <class T>
  void set_field(char const* field, std::span<T const> values) {
    if (values.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw Error{Errc::invalid_data, fmt::format("setting LightGBM's field {}", field),
                  fmt::format("{} values are more than LightGBM can count", values.size()), "use more workers"};
    }
    detail::lightgbm_call(detail::lightgbm::LGBM_DatasetSetField(handle(), field, values.data(),
                                                                 static_cast<int>(values.size()), field_type<T>),
                          fmt::format("setting LightGBM's field {}", field));
  }

  std::size_t rows_ = 0;
  std::vector<std::string> names_;
  std::vector<float> labels_;
  bool has_linear_trees_;
  double total_weight_ = 0;
  detail::OwnedLightGBMDataset handle_;
};

}  // namespace raytrain
