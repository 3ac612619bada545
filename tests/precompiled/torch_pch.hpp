// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>
