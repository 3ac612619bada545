// SPDX-License-Identifier: Apache-2.0
// Reads FOLDER/rows.csv, and leaves beside it what preprocessors and groups make of its rows:  like_python_program
// FOLDER
//
// like_python.py draws the rows, and compares what it finds with what scikit-learn and pandas make of them.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/group_by.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/data/row.hpp>
#include <raytrain/data/sort.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/preprocess.hpp>

namespace {

/// Fits on the rows; what it makes of each of the columns goes to NAME.COLUMN.npy, and what comes back of that to
/// NAME.COLUMN.back.npy, or to NAME.back.csv where texts come back.
class Applied {
 public:
  Applied(raytrain::Dataset rows, std::filesystem::path folder) : rows_{std::move(rows)}, folder_{std::move(folder)} {}

  template <raytrain::Preprocessor P>
  void operator()(std::string const& name, std::vector<std::string> const& columns, P preprocessor) const {
    preprocessor.fit(rows_);
    auto const made = preprocessor.transform(rows_);
    for (auto const& column : columns) write_npy(made.column(column), folder_ / (name + "." + column + ".npy"));
    if constexpr (raytrain::InvertiblePreprocessor<P>) {
      auto const back = preprocessor.inverse_transform(made);
      for (auto const& column : columns) {
        if (back.column(column).is_text()) continue;
        write_npy(back.column(column), folder_ / (name + "." + column + ".back.npy"));
      }
      if (back.column(columns.front()).is_text()) {
        write_csv(back.select_columns({columns.front()}), folder_ / (name + ".back.csv"));
      }
    }
  }

 private:
  raytrain::Dataset rows_;
  std::filesystem::path folder_;
};

void apply_preprocessors(Applied const& apply, std::filesystem::path const& folder) {
  using namespace raytrain;
  std::vector<std::string> const numbers{"a", "b", "p"};
  apply("standard", numbers, StandardScaler{numbers});
  apply("min_max", numbers, MinMaxScaler{numbers, {-1, 2}});
  apply("max_abs", numbers, MaxAbsScaler{numbers});
  apply("robust", numbers, RobustScaler{numbers, {0.1, 0.8}});
  apply("normalizer_l1", {"n", "p"}, Normalizer{{"n", "p"}, Norm::l1});
  apply("normalizer_l2", {"n", "p"}, Normalizer{{"n", "p"}, Norm::l2});
  apply("normalizer_max", {"n", "p"}, Normalizer{{"n", "p"}, Norm::max});
  apply("yeo_johnson", {"b", "p"}, PowerTransformer{.columns = {"b", "p"}});
  apply("box_cox", {"p"}, PowerTransformer{.columns = {"p"}, .method = PowerMethod::box_cox, .standardize = false});
  auto const powers = read_csv(folder / "powers.csv", {.types = {{"power", CsvType::float64}}});
  for (auto const& row : raytrain::rows(powers)) {
    auto const method = row.text("method") == "box_cox" ? PowerMethod::box_cox : PowerMethod::yeo_johnson;
    std::string const column{row.text("column").value()};
    apply(fmt::format("{}_at_{}", row.text("method").value(), column), {column},
          PowerTransformer{.columns = {column}, .method = method, .power = row.get<double>("power")});
  }
  apply("mean", {"a", "b"}, SimpleImputer{.columns = {"a", "b"}, .strategy = ImputeStrategy::mean});
  apply("median", {"a", "b"}, SimpleImputer{.columns = {"a", "b"}, .strategy = ImputeStrategy::median});
  apply("most_frequent", {"g"}, SimpleImputer{.columns = {"g"}, .strategy = ImputeStrategy::most_frequent});
  apply("uniform_bins", {"n", "p"},
        KBinsDiscretizer{.columns = {"n", "p"}, .n_bins = 4, .strategy = BinStrategy::uniform});
  apply("quantile_bins", {"p"}, KBinsDiscretizer{.columns = {"p"}, .n_bins = 4});
  apply("ordinal", {"kind", "n"}, OrdinalEncoder{.columns = {"kind", "n"}});
  apply("one_hot", {"kind", "n"}, OneHotEncoder{.columns = {"kind", "n"}});
  apply("label", {"kind"}, LabelEncoder{.label_column = "kind"});
  apply("multi_hot", {"tags"}, MultiHotEncoder{.columns = {"tags"}});
  apply("words", {"words"}, CountVectorizer{.columns = {"words"}});
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  using raytrain::Aggregate;
  using raytrain::CsvType;
  if (argc != 2) throw std::invalid_argument{"arguments: FOLDER"};
  std::filesystem::path const folder{argv[1]};
  auto const rows = raytrain::read_csv(folder / "rows.csv", {.types = {{"a", CsvType::float64},
                                                                       {"b", CsvType::float64},
                                                                       {"p", CsvType::float64},
                                                                       {"g", CsvType::float64},
                                                                       {"n", CsvType::int64},
                                                                       {"city", CsvType::text},
                                                                       {"kind", CsvType::text},
                                                                       {"tags", CsvType::text},
                                                                       {"words", CsvType::text}}});
  write_csv(rows, folder / "again.csv");
  write_json_lines(rows, folder / "again.jsonl");
  write_csv(sort(rows, "a"), folder / "sorted.csv");
  write_csv(sort(rows, {"city", "g", "a"}), folder / "sorted by three.csv");
  for (auto const& keys : std::vector<std::vector<std::string>>{{"city"}, {"g"}, {"city", "g"}}) {
    write_csv(group_by(rows, keys)
                  .aggregate({{Aggregate::count},
                              {Aggregate::sum, "n"},
                              {Aggregate::mean, "a"},
                              {Aggregate::min, "b"},
                              {Aggregate::max, "b"},
                              {Aggregate::std, "a"},
                              {Aggregate::quantile, "a", "quantile(a)", 0.3},
                              {Aggregate::unique, "n"},
                              {Aggregate::unique, "city"},
                              {Aggregate::abs_max, "b"},
                              {Aggregate::min, "kind"},
                              {Aggregate::max, "kind"}}),
              folder / fmt::format("groups of {}.csv", fmt::join(keys, " and ")));
  }
  apply_preprocessors({rows, folder}, folder);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "like_python_program: %s\n", error.what());
  return 1;
}
