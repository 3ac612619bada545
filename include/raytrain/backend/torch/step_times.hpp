// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/message/report_fields.hpp>

namespace raytrain {

/// Where a worker's time went since its last report began, in seconds that add up to all of it. A field of a report:
/// its metrics are then "times.data_s" and so on.
///
/// Batches are those of a `TorchShard`, backwards those of models of `prepare_model`. The time of a batch that no
/// backward follows, in an evaluation, is that of a forward; what lies between two backwards of one batch is rest, and
/// so are data and forward of a program that reads its own data. So is the step of an optimizer that the program makes
/// by itself, as of `torch::optim::Adam` or `LAMB`: LibTorch calls nobody when one begins or ends.
struct StepTimes {
  double samples_per_s = 0;  ///< Of this worker, over all of that time: samples of batches that a backward followed.
  double data_s = 0;         ///< From asking for a batch until its first column is a tensor; making others tensors.
  double forward_s = 0;      ///< From there to the first gradient of a parameter.
  double backward_s = 0;     ///< From there until all gradients are there.
  double exchange_s = 0;     ///< Averaging gradients, and whatever else goes through the worker's collective, with the
                             ///< wait for other workers.
  double optimizer_s = 0;    ///< Steps of `TorchContext::prepare_optimizer`'s optimizers, without their exchange.
  double rest_s = 0;  ///< Until the next batch is asked for: other optimizers, the report before, the program's own.
  void serialize(auto& a) {
    a(CEREAL_NVP(samples_per_s), CEREAL_NVP(data_s), CEREAL_NVP(forward_s), CEREAL_NVP(backward_s),
      CEREAL_NVP(exchange_s), CEREAL_NVP(optimizer_s), CEREAL_NVP(rest_s));
  }
};

static_assert(Reportable<StepTimes>);

}  // namespace raytrain
