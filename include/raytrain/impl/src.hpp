// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the headers define, for one file of a program that has no library `raytrain-compiled`: that file includes this
/// header, and every file of the program is compiled with -DRAYTRAIN_COMPILED.
#ifndef RAYTRAIN_COMPILED
#error "compile every file of the program with -DRAYTRAIN_COMPILED, or include no raytrain/impl"
#endif

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
