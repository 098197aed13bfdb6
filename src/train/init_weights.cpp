#include "train/init_weights.h"

#include "train/state_dict.h"

namespace tr {

void load_init_weights(Context& context, const Recipe& recipe) {
  if (recipe.init.empty()) return;
  const StateDict state = read_weights(recipe.init);
  try {
    write_state_dict(context, state, recipe.init_except);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::DataError) throw;
    throw Error(error.kind(), cat("init: ", recipe.init.string(), ": ", error.what()));
  }
}

}  // namespace tr
