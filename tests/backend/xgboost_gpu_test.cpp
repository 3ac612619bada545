// SPDX-License-Identifier: Apache-2.0
// With a pretended driver, and an XGBoost without CUDA.
#include <raytrain/backend/xgboost.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "../support/pretended_driver.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_gpu.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;
using raytrain::detail::XGBoostBuild;

/// `XGBoostBackend`, which takes its XGBoost for one with CUDA.
class XGBoostWithCuda {
 public:
  using Config = XGBoostBackend::Config;
  using Context = XGBoostContext;
  using Params = XGBoostParams;

  static constexpr std::string_view name = "xgboost_with_cuda";
  static constexpr Launch default_launch = Launch::threads;

  explicit XGBoostWithCuda(Config const&) {}

  void on_start(ScalingConfig const& scaling) {
    scaling_ = scaling;
    auto build = XGBoostBuild::here();
    build.has_cuda = true;
    if (scaling.use_gpu) build.check_gpus(scaling);
  }
  auto make_context(WorkerSetup setup) -> Context {
    auto const gpu = raytrain::detail::own_booster_gpu(scaling_, setup);
    return Context{std::move(setup), gpu, shared_};
  }
  void on_shutdown() noexcept {}
  static void train(XGBoostContext& ctx, XGBoostParams const& params) { xgboost_train(ctx, params); }
  static auto trains_in_one_worker(Config const& config) -> bool {
    return XGBoostBackend::trains_in_one_worker(config);
  }

 private:
  ScalingConfig scaling_;
  std::shared_ptr<raytrain::detail::XGBoostShared> shared_ = std::make_shared<raytrain::detail::XGBoostShared>();
};

TEST_CASE_TEMPLATE_INVOKE(boosting_gpu, XGBoostWithCuda);

TEST_CASE("an XGBoost without CUDA is refused before a worker starts, whether or not there is a GPU") {
  if (XGBoostBuild::here().has_cuda) return;
  int gpus = 0;
  SUBCASE("with a GPU") { gpus = 1; }
  SUBCASE("without one") {}
  PretendedDriver const driver{gpus};
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.scaling.use_gpu = true;
  bool started = false;
  auto const text = thrown_error([&] { XGBoostTrainer{[&](XGBoostContext&) { started = true; }, with}.fit(); });
  CHECK_FALSE(started);
  check_contains(text, "invalid_config: ScalingConfig::use_gpu: is set, and XGBoost ");
  check_contains(text,
                 " is built without CUDA; link one that is built with -DUSE_CUDA=ON, as that of Python's package");
}

TEST_CASE("a worker with a GPU trains on it, and never on the CPU instead") {
  PretendedDriver const driver{1};
  TemporaryFolder const folder;
  auto const trained = [&](XGBoostParams const& params) {
    auto with = boosting_config<XGBoostWithCuda>(folder, 1);
    with.scaling.use_gpu = true;
    return thrown_error([&] { Trainer<XGBoostWithCuda>{params, with}.fit(); });
  };
  auto params = parameters();
  // XGBoost 1.7 says so itself. Later ones warn, and train on the CPU.
  check_contains(trained(params), XGBoostBuild::here().major < 2 ? "not compiled with GPU support"
                                                                 : " would train by device = cpu; see its warnings");
  params.params = {{"gpu_id", "0"}};
  check_contains(trained(params), "'gpu_id' is '0', and ScalingConfig::use_gpu is set");
}

TEST_CASE("each XGBoost is told the GPU by its own names") {
  using Texts = std::map<std::string, std::string>;
  XGBoostParams const params{};
  CHECK(XGBoostBuild{1, 7}.gpu_parameters(params, 3) == Texts{{"tree_method", "gpu_hist"}, {"gpu_id", "3"}});
  CHECK(XGBoostBuild{2, 0}.gpu_parameters(params, 3) == Texts{{"device", "cuda:3"}});
  CHECK(XGBoostBuild{3, 2}.gpu_parameters({.params = {{"device", "cuda"}}}, 0) == Texts{{"device", "cuda:0"}});
  CHECK(XGBoostBuild{3, 2}.gpu_parameters({.tree_method = "approx"}, 1) == Texts{{"device", "cuda:1"}});
}

TEST_CASE("parameters by which XGBoost would train elsewhere are refused where a GPU is asked for") {
  auto const refused = [](int major, XGBoostParams const& params) {
    return thrown_error([&] { (void)XGBoostBuild{major, 0}.gpu_parameters(params, 0); });
  };
  for (std::string const device : {"cpu", "cuda:1"}) {
    check_contains(refused(2, {.params = {{"device", device}}}),
                   "invalid_config: XGBoostParams::params: 'device' is '" + device +
                       "', and ScalingConfig::use_gpu is set; leave it out: each worker trains on its own GPU");
  }
  check_contains(refused(1, {.params = {{"gpu_id", "1"}}}), "'gpu_id' is '1', and ScalingConfig::use_gpu is set");
  check_contains(refused(2, {.params = {{"booster", "gblinear"}}}), "'booster' is 'gblinear'");
  check_contains(refused(2, {.tree_method = "exact"}), "XGBoostParams::tree_method: 'tree_method' is 'exact'");
  check_contains(refused(2, {.tree_method = "exact"}), "; write hist or approx");
  check_contains(refused(1, {.tree_method = "approx"}), "; write hist, which XGBoost 1.0 has on GPUs");
}

TEST_CASE("what XGBoost is built with is read from its text") {
  auto const without = XGBoostBuild::of(1, 7, R"({"DEBUG":true,"GCC_VERSION":[12,2,0],"USE_CUDA":false})");
  CHECK_FALSE(without.has_cuda);
  auto const with =
      XGBoostBuild::of(3, 2, R"({"BUILTIN_PREFETCH_PRESENT": true, "CUDA_VERSION": [12, 8], "USE_CUDA": true})");
  CHECK(with.has_cuda);
  CHECK(with.cuda == 12080);
  CHECK(with.name() == "XGBoost 3.2");
  CHECK(XGBoostBuild::of(2, 0, R"({"USE_CUDA":true})").cuda == 0);
}

TEST_CASE("a booster that XGBoost has put elsewhere is an error, with the place") {
  DMatrix const rows{sample(10, 1), {.label = "target"}};
  Booster const booster{{&rows}};
  auto const build = XGBoostBuild::here();
  check_contains(thrown_error([&] { build.check_trains_on(0, booster.configuration()); }),
                 build.major < 2 ? "backend: training on GPU 0: XGBoost 1.7 would train by gpu_id = -1"
                                 : " would train by device = cpu");
  constexpr auto placed = R"({"learner":{"generic_param":{"device":"cuda:1","fail_on_invalid_gpu_id":"0"}}})";
  CHECK_NOTHROW(XGBoostBuild{3, 0}.check_trains_on(1, placed));
  check_contains(thrown_error([&] { XGBoostBuild{3, 0}.check_trains_on(3, placed); }), "by device = cuda:1");
}

}  // namespace
