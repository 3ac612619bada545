// SPDX-License-Identifier: Apache-2.0
// expect-error: static assertion failed.*name
#include <cereal/cereal.hpp>

#include <raytrain/message/report_fields.hpp>

struct Named {
  double loss = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(loss));
  }
};
auto ok() { return raytrain::to_metrics(Named{}); }

#ifdef RAYTRAIN_EXPECT_ERROR
struct Nameless {
  double loss = 0;
  template <class A>
  void serialize(A& a) {
    a(loss);
  }
};
auto wrong() { return raytrain::to_metrics(Nameless{}); }
#endif
