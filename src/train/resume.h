/// Whether a training may go on from a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"

namespace tr {

struct DataInfo;

/// Keys that may differ between a checkpoint's recipe and the one that goes on from it, because no saved bit
/// depends on them; `train.epochs` has a check of its own.
std::vector<std::string> free_recipe_keys();

/// "optimizer.learning_rate: 0.1 in the checkpoint, 0.05 now", for every other key that differs.
std::vector<std::string> state_differences(const Recipe& saved, const Recipe& now);

/// Refuses a recipe or data of another training: RecipeError, DataError, beginning with `source`.
void check_can_resume(const CheckpointInfo& checkpoint, const Recipe& now, const DataInfo& data,
                      const std::string& source);

}  // namespace tr
