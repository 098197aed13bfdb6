/// A model as a normalized DAG of layers with stable dotted names; views resolved, fused where allowed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "renaissance/graph/op_spec.h"

namespace tr {

/// Value 0 is the network's input; layer i produces value i + 1.
using ValueId = int;

struct Layer {
  std::string name;  ///< "layer1.0.conv1"
  const CatalogEntry* entry = nullptr;
  Attributes attrs;             ///< complete
  std::vector<ValueId> inputs;  ///< all produced by earlier layers
  std::string where;            ///< place in the user's file, for errors
};

struct ArchPlan {
  std::vector<Layer> layers;  ///< topological order
  ValueId output = 0;
  /// Per value, the value whose tensor it is: itself, or what a view (flatten, identity) looks at.
  std::vector<ValueId> storage;

  int num_values() const { return static_cast<int>(layers.size()) + 1; }
};

/// Normalizes a blueprint: names, complete attributes, the DAG. RecipeError for unknown operators or
/// attributes and for two parameters of one name. `catalog` must outlive the plan.
ArchPlan lower(const BluePrint& model, const Catalog& catalog);

/// Logical shape of every value for one input shape. ShapeError names the layer.
std::vector<Shape> infer_shapes(const ArchPlan& arch, const Shape& input);

/// Shapes as they lie in memory: a view's is that of the value it looks at, and what is computed from a view
/// element by element lies as that does.
std::vector<Shape> storage_shapes(const ArchPlan& arch, const std::vector<Shape>& shapes);

/// ShapeError naming the layer where one reads a flattened feature map that it would take for another shape.
void check_flattened_inputs(const ArchPlan& arch, const std::vector<Shape>& logical,
                            const std::vector<Shape>& stored);

/// What layer `index` may depend on, given storage shapes.
OpQuery layer_query(const ArchPlan& arch, size_t index, const std::vector<Shape>& shapes, DType dtype,
                    const Target& target);

/// Leaves out layers that change nothing for any of these input shapes.
ArchPlan without_idle_layers(ArchPlan arch, std::span<const Shape> inputs);

/// Lets layers absorb their only consumer where OpSpec::absorb() and the backend's offers for the result
/// allow it. Names of the layers that remain do not change; parameters neither.
ArchPlan fuse(ArchPlan arch, const Catalog& catalog, const Shape& input, DType dtype, const Target& target);

}  // namespace tr
