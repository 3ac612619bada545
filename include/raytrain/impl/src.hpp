// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All definitions but those that need LibTorch, which impl/torch.hpp lists: for one file of a program whose other
/// files define RAYTRAIN_COMPILED, too, and so read declarations alone.
#include <raytrain/impl/callback.hpp>
#include <raytrain/impl/checkpoint.hpp>
#include <raytrain/impl/collective.hpp>
#include <raytrain/impl/config.hpp>
#include <raytrain/impl/core.hpp>
#include <raytrain/impl/data.hpp>
#include <raytrain/impl/exec.hpp>
#include <raytrain/impl/launch.hpp>
#include <raytrain/impl/message.hpp>
#include <raytrain/impl/preprocess.hpp>
#include <raytrain/impl/train.hpp>
