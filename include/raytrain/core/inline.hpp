// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is defined in an `-inl.hpp` is part of every program that includes its header, or of the library that
/// `raytrain-compiled` names, and then of no other file.
#ifdef RAYTRAIN_COMPILED
#define RAYTRAIN_INLINE
#else
#define RAYTRAIN_INLINE inline
#endif

/// The same for what needs LibTorch: a library of its own, which is there only where raytrain was built with LibTorch.
#ifdef RAYTRAIN_COMPILED_TORCH
#define RAYTRAIN_TORCH_INLINE
#else
#define RAYTRAIN_TORCH_INLINE inline
#endif
