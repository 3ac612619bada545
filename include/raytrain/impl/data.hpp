// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/data/batch-inl.hpp>
#include <raytrain/data/batch_range-inl.hpp>
#include <raytrain/data/column-inl.hpp>
#include <raytrain/data/csv-inl.hpp>
#include <raytrain/data/dataset-inl.hpp>
#include <raytrain/data/dataset_shard-inl.hpp>
#include <raytrain/data/dataset_text-inl.hpp>
#include <raytrain/data/datasets-inl.hpp>
#include <raytrain/data/describe-inl.hpp>
#include <raytrain/data/detail/content_digest-inl.hpp>
#include <raytrain/data/detail/data_file-inl.hpp>
#include <raytrain/data/detail/gather_rows-inl.hpp>
#include <raytrain/data/detail/idx_header-inl.hpp>
#include <raytrain/data/detail/join_rows-inl.hpp>
#include <raytrain/data/detail/new_file-inl.hpp>
#include <raytrain/data/detail/order_keys-inl.hpp>
#include <raytrain/data/detail/permutation-inl.hpp>
#include <raytrain/data/detail/text_table-inl.hpp>
#include <raytrain/data/group_by-inl.hpp>
#include <raytrain/data/idx-inl.hpp>
#include <raytrain/data/map_batches-inl.hpp>
#include <raytrain/data/prefetch_options-inl.hpp>
#include <raytrain/data/sort-inl.hpp>
#include <raytrain/data/train_test_split-inl.hpp>
#include <raytrain/data/write_csv-inl.hpp>
