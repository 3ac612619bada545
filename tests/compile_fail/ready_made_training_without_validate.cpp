// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: B has Params and does not meet the concept raytrain::ReadyMadeBackend
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

struct ReadyMade : raytrain::testing::MinimalBackend {
  using MinimalBackend::MinimalBackend;
  struct Params {
    void validate() const {}
  };
  static void train(Context&, Params const&) {}
  static auto trains_in_one_worker(Config const&) -> bool { return false; }
};

void ok() { raytrain::Trainer<ReadyMade> const trainer{ReadyMade::Params{}}; }

#ifdef RAYTRAIN_EXPECT_ERROR
struct NotValidated : ReadyMade {
  using ReadyMade::ReadyMade;
  struct Params {};
  static void train(Context&, Params const&) {}
};
void wrong() { raytrain::Trainer<NotValidated> const trainer{NotValidated::Params{}}; }
#endif
