#include "model.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <raytrain/backend/torch/torch_predictor.hpp>
#ifdef WITH_XGBOOST
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#endif
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

#include "network.hpp"

namespace {

auto by_network(raytrain::Checkpoint const& checkpoint) -> Predict {
  // How wide "features" is, any row tells.
  auto const row = raytrain::parse_json_lines(
      R"({"age": 38, "workclass": "Private", "education": "Bachelors", "hours": 40})", people_options());
  auto const features = features_of(raytrain::load_preprocessor(checkpoint).transform(row));
  raytrain::TorchPredictor const predictor{checkpoint, [&] { return std::make_shared<Net>(features); }};
  return [predictor](raytrain::Dataset const& rows) {
    auto const said = torch::sigmoid(predictor.predict(rows)).contiguous();
    return std::vector<float>(said.data_ptr<float>(), said.data_ptr<float>() + said.numel());
  };
}

auto by_trees([[maybe_unused]] raytrain::Checkpoint const& checkpoint) -> Predict {
#ifdef WITH_XGBOOST
  auto const predictor = std::make_shared<raytrain::XGBoostPredictor const>(checkpoint);
  return [predictor](raytrain::Dataset const& rows) {
    return predictor->predict(rows, {.features = {"features"}}).values;
  };
#else
  throw std::runtime_error{"this program was built without XGBoost; install libxgboost-dev"};
#endif
}

}  // namespace

auto predict_by(raytrain::Checkpoint const& checkpoint) -> Predict {
  return checkpoint.contains("booster.ubj") ? by_trees(checkpoint) : by_network(checkpoint);
}

auto people_options() -> raytrain::JsonLinesOptions {
  using raytrain::CsvType;
  std::vector<std::string> const columns{"age", "workclass", "education", "hours"};
  return {.columns = columns,
          .types = {{"age", CsvType::float32},
                    {"workclass", CsvType::text},
                    {"education", CsvType::text},
                    {"hours", CsvType::float32}}};
}
