// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes maps and vectors of what is `Transferable` Transferable, too.
#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
