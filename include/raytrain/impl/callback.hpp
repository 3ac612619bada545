// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/callback/csv-inl.hpp>
#include <raytrain/callback/progress_bar-inl.hpp>
