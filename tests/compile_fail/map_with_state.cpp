// SPDX-License-Identifier: Apache-2.0
// A function that counts its calls would give each thread's copy a count of its own.
// expect-error: raytrain: what map\(\) calls is const
#include <cstddef>

#include <raytrain/backend/torch/torch_shard.hpp>

void ok(raytrain::TorchShard& shard) {
  (void)shard.batches({}).map([](raytrain::TorchBatch const& batch) { return batch.size(); });
}

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong(raytrain::TorchShard& shard) {
  (void)shard.batches({}).map([calls = 0](raytrain::TorchBatch const&) mutable { return ++calls; });
}
#endif
