// What adult_income trains, as adult_income itself and serve use it to predict.
#pragma once

#include <functional>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/json_lines_options.hpp>

/// Of rows as they were read, the probability of more than 50,000.
using Predict = std::function<std::vector<float>(raytrain::Dataset const& rows)>;

/// The columns of a row, which need be told where a request may leave gaps.
auto people_options() -> raytrain::JsonLinesOptions;

/// From any thread, at the same time.
auto predict_by_network(raytrain::Checkpoint const& checkpoint) -> Predict;

/// From any thread; one at a time predicts. Errors: in a program without XGBoost.
auto predict_by_trees(raytrain::Checkpoint const& checkpoint) -> Predict;
