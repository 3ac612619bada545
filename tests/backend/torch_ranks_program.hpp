// SPDX-License-Identifier: Apache-2.0
// The cases of torch_ranks_program. They are one program, since LibTorch's headers take longer to compile than all the
// cases. Each `run` takes what a `main` takes, with the case's name in argv[0].
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
