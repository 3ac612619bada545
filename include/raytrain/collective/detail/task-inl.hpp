// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto to_string(CallTag const& tag) -> std::string {
  if (tag == CallTag{}) return {};
  if (is_of_loader(tag)) return " to make data loader " + std::to_string(tag.number);
  if (is_of_join(tag)) return " for join() " + std::to_string(tag.samples);
  auto const model = " model " + std::to_string(tag.model);
  auto const what = tag.optimizer == 0 ? model : " optimizer " + std::to_string(tag.optimizer) + " of" + model;
  if (tag.number == 0) return " to prepare" + what;
  if (tag.optimizer > 0) return " for step " + std::to_string(tag.number) + " of" + what;
  auto const pass =
      tag.layer == 0 ? " for backward " + std::to_string(tag.number)
                     : " for forward " + std::to_string(tag.number) + " of SyncBatchNorm " + std::to_string(tag.layer);
  return pass + " of" + model + " (after " + std::to_string(tag.samples) + " samples of epoch " +
         std::to_string(tag.epoch) + ")";
}

RAYTRAIN_INLINE auto operation_text(Call const& call) -> std::string {
  auto const array = std::to_string(call.count) + " x " + std::string{to_string(call.element)};
  auto const op = std::string{to_string(call.op)};
  auto const root = "root " + std::to_string(call.root.value);
  switch (call.operation) {
    case Operation::barrier: return "barrier()";
    case Operation::all_reduce: return "all_reduce(" + array + ", " + op + ")";
    case Operation::broadcast: return "broadcast(" + array + ", " + root + ")";
    case Operation::all_gather: return "all_gather(" + array + ")";
    case Operation::reduce_scatter: return "reduce_scatter(" + array + ", " + op + ")";
    case Operation::reduce: return "reduce(" + array + ", " + op + ", " + root + ")";
    case Operation::gather: return "gather(" + array + ", " + root + ")";
    case Operation::scatter: return "scatter(" + array + ", " + root + ")";
    case Operation::all_gatherv: return "all_gatherv(" + array + ")";
    case Operation::duplicate: return "duplicate()";
  }
  return "unknown";
}

RAYTRAIN_INLINE auto to_string(Call const& call) -> std::string { return operation_text(call) + to_string(call.tag); }

}  // namespace raytrain::detail
