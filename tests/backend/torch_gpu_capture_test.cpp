// SPDX-License-Identifier: Apache-2.0
// What is refused while a CUDA graph is captured, by streams that only pretend.
#include <torch/torch.h>

#include <doctest/doctest.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

namespace {

using raytrain::Rank;
using raytrain::detail::Call;
using raytrain::detail::refuse_capture;

struct Capturing {
  bool captures = true;
  [[nodiscard]] auto is_capturing() const -> bool { return captures; }
};
struct Old {};

static_assert(raytrain::detail::TellsCapture<Capturing> && !raytrain::detail::TellsCapture<Old>);

}  // namespace

TEST_CASE("an exchange of arrays on a GPU is refused while a graph is captured, with the call and the rank") {
  Call const call{.operation = raytrain::detail::Operation::all_reduce,
                  .element = raytrain::ElementType::float32,
                  .op = raytrain::ReduceOp::average,
                  .count = 10};
  CHECK(raytrain::testing::refusal([&] { refuse_capture(Capturing{}, call, Rank{2}); }) ==
        "invalid_call: all_reduce(10 x float32, average) on rank 2: a CUDA graph is captured, by whose replays workers "
        "would not agree on what they exchange; capture what exchanges nothing, as the steps of a model of "
        "prepare_local_model, or no graph");
  CHECK(raytrain::testing::refusal([&] { refuse_capture(Capturing{false}, call, Rank{2}); }) == "nothing");
  CHECK(raytrain::testing::refusal([&] { refuse_capture(Old{}, call, Rank{2}); }) == "nothing");
}
