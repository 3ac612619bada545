#include "blas.hpp"

void examine_blas(Findings& findings) { findings.say("LibTorch", "not built with it: needs libtorch-dev"); }
