// SPDX-License-Identifier: Apache-2.0
// The cases of torch_ranks_program: one program, since LibTorch's headers take longer to compile than all of them.
// Each is a `main` without the name of the case.
#pragma once

namespace local_training {
auto run(int argc, char** argv) -> int;
}
namespace overlap {
auto run(int argc, char** argv) -> int;
}
namespace sharded_optimizer {
auto run(int argc, char** argv) -> int;
}
namespace sync_batch_norm {
auto run(int argc, char** argv) -> int;
}
namespace uneven_batches {
auto run(int argc, char** argv) -> int;
}
