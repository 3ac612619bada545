// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that needs no optional dependency; a backend comes by its own header.

#include <raytrain/callback/csv.hpp>
#include <raytrain/callback/json_lines.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/dataset_text.hpp>
#include <raytrain/data/describe.hpp>
#include <raytrain/data/filter.hpp>
#include <raytrain/data/group_by.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/data/sort.hpp>
#include <raytrain/data/train_test_split.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/preprocess.hpp>
#include <raytrain/trainer.hpp>
#include <raytrain/version.hpp>
