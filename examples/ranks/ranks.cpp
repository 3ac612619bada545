// SPDX-License-Identifier: Apache-2.0
// What a program gains ranks by; compiled once for all that need it.
#include <raytrain/launch/ranks.hpp>
