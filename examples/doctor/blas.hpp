#pragma once

#include "findings.hpp"

// Which LibTorch and which kernels multiply matrices here.
void examine_blas(Findings& findings);
