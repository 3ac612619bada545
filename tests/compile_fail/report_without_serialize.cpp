// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: report\(\) takes a struct with `template <class A> void serialize
#include <cereal/cereal.hpp>

#include <raytrain/trainer.hpp>

struct Named {
  double loss = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(loss));
  }
};
void ok(raytrain::TrainContext& ctx) { ctx.report(Named{}); }

#ifdef RAYTRAIN_EXPECT_ERROR
struct Silent {
  double loss = 0;
};
void wrong(raytrain::TrainContext& ctx) { ctx.report(Silent{}); }
#endif
