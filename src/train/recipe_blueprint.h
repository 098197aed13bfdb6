/// Layers written out in a recipe, to and from a BluePrint. docs/recipes.md shows the forms.
#pragma once

#include "renaissance/graph/blueprint.h"
#include "train/yaml_tree.h"

namespace tr {

/// The value of `model.layers`. Operators and their attributes are checked by the compiler, which knows the
/// catalogue; `where` of each layer is its place in the file.
BluePrint read_layers(const YamlTree& list, Mistakes& mistakes);
YamlTree write_layers(const BluePrint& layers);

}  // namespace tr
