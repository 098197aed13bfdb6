/// The data of a recipe, in memory.
#pragma once

#include "data/dataset.h"
#include "renaissance/train/recipe.h"

namespace tr {

struct DataInfo;

struct LoadedData {
  Dataset train, val;
};
LoadedData load_data(const Recipe& recipe, const DataInfo& info);

}  // namespace tr
