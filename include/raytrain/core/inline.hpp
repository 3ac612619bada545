// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is defined in an `-inl.hpp` is part of every program that includes its header, or of the library that
/// `raytrain-compiled` names, and then of no other file.
#ifdef RAYTRAIN_COMPILED
#define RAYTRAIN_INLINE
#else
#define RAYTRAIN_INLINE inline
#endif
