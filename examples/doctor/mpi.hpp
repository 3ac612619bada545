#pragma once

#include <raytrain/backend/mpi/mpi_context.hpp>

#include "findings.hpp"

// Which MPI this program was built with, and how arrays travel in this job. A group operation.
void examine_mpi(raytrain::MpiContext& ctx, Findings& findings);
