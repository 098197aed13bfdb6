/// The recipe's `init`: weights of a file in place of first values, for fine-tuning.
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/train/recipe.h"

namespace tr {

/// Loads weights and statistics of recipe.init, a state_dict or a checkpoint, into every rank's arena; what a
/// glob of recipe.init_except matches keeps its first values. Nothing happens where the recipe names no file.
/// IoError or DataError, which names the file, and RecipeError as check_state_dict().
void load_init_weights(Context& context, const Recipe& recipe);

}  // namespace tr
