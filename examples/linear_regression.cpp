// Fits y = a x + b on two workers that average their gradients; every epoch is reported and checkpointed.
// Run ./examples/run linear_regression and expect "y = 2.00 x + 1.00"; run it again, and it finds nothing left to do.
#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

struct Epoch {  // a report: any struct that names its fields
  int epoch = 0;
  double loss = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss)); }
};

void train(raytrain::TorchContext& ctx) {  // runs on every worker
  auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
  torch::optim::SGD optimizer{model->parameters(), 0.3};
  auto shard = ctx.dataset_shard("train");
  for (int epoch = ctx.restore(model, optimizer); epoch < 20; ++epoch) {
    Epoch report{.epoch = epoch};
    for (auto batch : shard.batches({.batch_size = 32, .epoch = epoch})) {
      optimizer.zero_grad();
      auto loss = torch::mse_loss(model(batch["x"]), batch["y"]);
      loss.backward();  // averages the gradients of all workers
      optimizer.step();
      report.loss = loss.item<double>();
    }
    ctx.report(report, raytrain::save(model, optimizer));
  }
}

int main() {
  std::vector<float> x(1024), y(1024);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * (x[i] = static_cast<float>(i) / 1024) + 1;
  raytrain::TrainerConfig<raytrain::TorchBackend> config;
  config.datasets["train"] = raytrain::Dataset::from_columns({{"x", x, {1}}, {"y", y, {1}}});
  if (!raytrain::job_environment()) config.scaling.num_workers = 2;  // threads; a job has its ranks
  auto const result = raytrain::Trainer<raytrain::TorchBackend>{train, config}.fit();
  if (result.state == raytrain::RunState::aborted) return 75;  // stopped: run again, it goes on
  auto const line = raytrain::load_model<torch::nn::Linear>(result.checkpoint().value(), 1, 1);
  auto const a = line->weight.item<double>(), b = line->bias.item<double>();
  if (raytrain::is_first_of_job()) fmt::print("y = {:.2f} x + {:.2f}, kept in {}\n", a, b, result.path.string());
  return std::abs(a - 2) < 0.01 && std::abs(b - 1) < 0.01 ? 0 : 1;
}
