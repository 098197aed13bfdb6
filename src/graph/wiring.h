/// Phase 4's first half: which call sites run in which part of a step and what each reads and writes, with
/// symbolic operands. Depends on no shape.
#pragma once

#include <vector>

#include "graph/freeze.h"
#include "renaissance/graph/compiler.h"

namespace tr {

/// A tensor before it has an id.
struct TensorRef {
  enum class Kind : uint8_t {
    VALUE,
    RECOMPUTED,
    GRAD,
    PARAM,
    PARAM_GRAD,
    STATE_PREV,
    STATE_NEXT,
    EQUIVALENT,
    SAVED,
    STATISTICS,
    BASELINE
  };
  Kind kind = Kind::VALUE;
  int owner = 0;  ///< VALUE, RECOMPUTED: value. GRAD: gradient. BASELINE: id. Others: call site
  int index = 0;  ///< which parameter, statistic or saved tensor
};

struct WiredOperand {
  Use use;
  TensorRef ref;
};

struct WiredNode {
  GraphId part;
  int op;
  Pass pass;
  std::vector<WiredOperand> operands;
  bool recomputes = false;  ///< an output of FORWARD once more
};

struct Wiring {
  std::vector<OpInstance> ops;
  std::vector<WiredNode> nodes;
  std::vector<ValueId> grad_values;  ///< per gradient tensor, the value whose shape it has
  std::vector<ValueId> recomputed;   ///< values that have a second tensor, for backward
};

/// `shapes`: storage shapes of any training variant; only asked for what does not depend on them.
/// `mix_samples`, `freezing`: as in CompileRequest. `bn_folded`: as in PlanConfig. Backward ends above the
/// lowest parameter that trains.
Wiring wire(const ArchPlan& arch, const Catalog& catalog, const std::vector<Shape>& shapes, DType dtype,
            const Target& target, bool mix_samples, bool bn_folded, const Freezing& freezing = {});

/// "layer1.0.conv1.weight"
inline std::string parameter_name(const OpInstance& op, const ParamSpec& spec) {
  return spec.name.empty() ? op.name : op.name + '.' + spec.name;
}

/// The query of a call site for given storage shapes.
OpQuery instance_query(const OpInstance& op, const std::vector<Shape>& shapes, DType dtype,
                       const Target& target);

/// Whether a step needs norms of gradients, and on CUDA scratch for their sums.
inline bool needs_norms(const CompileRequest& request) {
  return request.clip_norm > 0.0 || is_lars(request.config.optimizer);
}

/// Appends the RANGE nodes that the configuration asks for. Needs parameters and statistics.
void append_range_nodes(CompiledModel& model);

}  // namespace tr
