// What adult_income has trained, as adult_income itself and serve use it to predict.
#pragma once

#include <functional>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/json_lines_options.hpp>

/// Of rows as they were read, the probability of more than 50,000. From any thread; of trees, one predicts at a time.
using Predict = std::function<std::vector<float>(raytrain::Dataset const& rows)>;

/// By the network or the trees of the checkpoint. Errors: for trees in a program without XGBoost.
auto predict_by(raytrain::Checkpoint const& checkpoint) -> Predict;

/// The columns of a row and their types.
auto people_options() -> raytrain::JsonLinesOptions;
