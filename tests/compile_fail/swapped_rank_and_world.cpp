// SPDX-License-Identifier: Apache-2.0
// expect-error: could not convert|no known conversion
#include <raytrain/core/identifiers.hpp>

void place(raytrain::Rank, raytrain::WorldSize);
void ok() { place(raytrain::Rank{0}, raytrain::WorldSize{4}); }

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong() { place(raytrain::WorldSize{4}, raytrain::Rank{0}); }
#endif
