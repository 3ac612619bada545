// SPDX-License-Identifier: Apache-2.0
// Compiled once for all test files of a program: LibTorch's headers take 10 s to parse.
#include <torch/torch.h>
