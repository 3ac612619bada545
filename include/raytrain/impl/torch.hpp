// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/backend/torch-inl.hpp>
#include <raytrain/backend/torch/averaged_model-inl.hpp>
#include <raytrain/backend/torch/cpu_advice-inl.hpp>
#include <raytrain/backend/torch/detail/flat_parameters-inl.hpp>
#include <raytrain/backend/torch/detail/generators-inl.hpp>
#include <raytrain/backend/torch/detail/gradient_arena-inl.hpp>
#include <raytrain/backend/torch/detail/gradient_averager-inl.hpp>
#include <raytrain/backend/torch/detail/memory_overlap-inl.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice-inl.hpp>
#include <raytrain/backend/torch/detail/own_default_generator-inl.hpp>
#include <raytrain/backend/torch/detail/shard_generators-inl.hpp>
#include <raytrain/backend/torch/detail/shard_step-inl.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer-inl.hpp>
#include <raytrain/backend/torch/detail/stored_tensors-inl.hpp>
#include <raytrain/backend/torch/lr_schedule-inl.hpp>
#include <raytrain/backend/torch/reduce_on_plateau-inl.hpp>
#include <raytrain/backend/torch/script_module-inl.hpp>
#include <raytrain/backend/torch/sharded_optimizer-inl.hpp>
#include <raytrain/backend/torch/torch_checkpoint-inl.hpp>
#include <raytrain/backend/torch/torch_context-inl.hpp>
#include <raytrain/backend/torch/torch_predictor-inl.hpp>
#include <raytrain/backend/torch/torch_safetensors-inl.hpp>
#include <raytrain/backend/torch/torch_shard-inl.hpp>
#include <raytrain/backend/torch/training_state-inl.hpp>
