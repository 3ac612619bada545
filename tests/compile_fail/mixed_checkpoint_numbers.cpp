// SPDX-License-Identifier: Apache-2.0
// expect-error: could not convert|no known conversion
#include <raytrain/core/identifiers.hpp>

void remove(raytrain::CheckpointNumber);
void ok() { remove(raytrain::CheckpointNumber{12}); }

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong() { remove(raytrain::CheckpointOrdinal{11}); }
#endif
