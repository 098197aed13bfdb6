/// Files of packing problems: a header line with the columns id, lower, upper and size in any order, then one
/// tensor a line. Other columns are skipped.
#pragma once

#include <string>

#include "renaissance/graph/packing.h"

namespace tr::cli {

/// Reads a file, or standard input for "-". Throws IoError for one that cannot be read and DataError, naming
/// file and line, for a missing column, a field that is no integer, a size below 1, lower >= upper, an id
/// that occurs twice.
PackingProblem read_packing_problem(const std::string& path);

/// Writes `id,lower,upper,size,offset`. Throws IoError.
void write_packing(const std::string& path, const PackingProblem& problem, const Packing& packing);

}  // namespace tr::cli
