/// An operator as the compiler sees it, and as a backend offers and prepares it.
///
/// An OpSpec owns what is true of the mathematics: attributes, checks, shapes, parameters, what is kept
/// for backward, which tensors each pass reads and writes. OpKernels are one backend's implementation:
/// offer() at compile time (pure, no device), prepare() once before the run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/graph/blueprint.h"
#include "renaissance/graph/memory_plan.h"
#include "renaissance/graph/target.h"

namespace tr {

/// INFERENCE is the forward pass of evaluation. An operator's backward is either one BACKWARD pass or
/// BACKWARD_WEIGHT then BACKWARD_DATA; the latter is left out where the input needs no gradient. RECOMPUTE is
/// y once more, to the bit, from x and what FORWARD saved.
enum class Pass : uint8_t { FORWARD, INFERENCE, BACKWARD, BACKWARD_WEIGHT, BACKWARD_DATA, RECOMPUTE };
std::string_view pass_name(Pass pass);

/// Roles of a node's operands; the index tells apart several of one role.
enum class Port : uint8_t {
  X,           ///< input features, x[i]
  Y,           ///< output features
  DX,          ///< gradient of x[i]
  DY,          ///< gradient of y; several, up to most_gradients(), are to be summed
  PARAM,       ///< params()[i] as the kernels compute with it: the 16-bit copy under AMP where it has one
  PARAM_GRAD,  ///< gradient of params()[i], likewise
  STATE_PREV,  ///< BatchNorm: 0 running mean, 1 running variance in force
  STATE_NEXT,  ///< BatchNorm: the same, as this step produces them
  EQUIVALENT,  ///< BatchNorm folded for INFERENCE: 0 scale, 1 bias per channel
  SAVED,       ///< saved()[i]: kept from forward to backward
  STATISTICS,  ///< sums over y that one operator's FORWARD leaves for the next one's, FP32 [1,1,rows,C]
  WORKSPACE,   ///< scratch of one node, undefined before and after
  BASELINE,    ///< a baseline tensor; the index is its BaselineId
};
std::string_view port_name(Port port);

struct Use {
  Port port;
  int index = 0;
  bool read = true;
  bool write = false;
};
inline Use reads(Port port, int index = 0) { return {port, index, true, false}; }
inline Use writes(Port port, int index = 0) { return {port, index, false, true}; }
inline Use updates(Port port, int index = 0) { return {port, index, true, true}; }

/// An output of a pass that may lie on an input's bytes: no element is read after it has been written.
struct InPlace {
  Use output, input;
};

/// How an operator may read what a flatten made of [N,H,W,C], which still lies so: not at all; in the order
/// that its parameters know of (fc); element by element, so that its output lies as its inputs do.
enum class FlattenedInput : uint8_t { REFUSED, ORDERED, KEPT };

struct AttrSpec {
  std::string name;
  std::optional<AttrValue> default_value;  ///< none: required. Its type (or `type_example`'s) is the type
  AttrValue type_example;
  std::string help;
};

/// CONSTANT is ParamSpec::init_value.
enum class InitKind : uint8_t { WEIGHT, BIAS, ONES, ZEROS, CONSTANT };

struct ParamSpec {
  std::string name;  ///< "weight", "bias"; empty: the layer's own name is the parameter's
  ParamRole role;
  Shape shape;  ///< K,R,S,C; out × in; or 1,1,1,C
  InitKind init;
  int64_t fan_in = 1;  ///< of the layer's weight, for a bias too (PyTorch's default bound)
  int64_t fan_out = 1;
  /// Shape of the same tensor in a torchvision state_dict: [K,C,R,S], [out,in] or [C].
  std::vector<int64_t> door_shape;
  /// FC after a flatten of H×W×C: the columns are (h,w,c) inside and (c,h,w) at the door.
  std::array<int64_t, 3> flattened_hwc{1, 1, 1};
  double init_value = 0.0;
};

struct SavedSpec {
  std::string name;
  Region region;  ///< T_TEMP_* or S_MASK
  Shape shape;
};

/// One layer at one input shape: all an operator may depend on.
struct OpQuery {
  std::string layer;  ///< dotted name, for errors
  Attributes attrs;   ///< complete: defaults filled in
  std::vector<Shape> x;
  Shape y;
  DType dtype = DType::FP32;  ///< of features
  Target target;
  bool reads_network_input = false;
  std::vector<bool> needs_dx;  ///< per input
  int gradients = 1;           ///< DY operands of the backward passes
  int statistics = 0;          ///< rows of the STATISTICS operand of FORWARD, as statistics_rows(); 0: none
  bool bn_folded = false;      ///< INFERENCE of BatchNorm takes EQUIVALENT in place of PARAM and STATE_PREV
};

struct Offer {
  std::string declined;  ///< empty: supported; else the reason
  int64_t workspace_bytes = 0;
  bool supported() const { return declined.empty(); }
};

class OpSpec {
 public:
  virtual ~OpSpec() = default;
  virtual std::string_view name() const = 0;
  /// Attributes in positional order.
  virtual std::vector<AttrSpec> schema() const { return {}; }
  virtual int num_inputs(const Attributes&) const { return 1; }
  /// As num_inputs(): one or more, as many as the place gives.
  static constexpr int SEVERAL = -1;
  /// Checks attribute values that the schema cannot express; throws with `who`.
  virtual void check(const Attributes&, const std::string& /*who*/) const {}
  /// Output shape; throws ShapeError that starts with `who`.
  virtual Shape infer(const Attributes& attrs, std::span<const Shape> x, const std::string& who) const = 0;
  /// Only renames or reshapes its input: no node, no tensor (identity, flatten).
  virtual bool is_view(const Attributes&) const { return false; }
  /// y is x for an input of this shape: where that holds for every variant, the compiler leaves the layer
  /// out. Only operators of one input without parameters may say so.
  virtual bool changes_nothing(const Attributes&, const Shape& /*x*/) const { return false; }
  virtual FlattenedInput flattened_input() const { return FlattenedInput::REFUSED; }
  /// The gradient of every input is the gradient of the output, unchanged (add).
  virtual bool passes_gradient_through(const Attributes&) const { return false; }
  virtual std::vector<ParamSpec> params(const OpQuery&) const { return {}; }
  /// Channels of running statistics; 0 for none.
  virtual int64_t state_channels(const OpQuery&) const { return 0; }
  virtual std::vector<SavedSpec> saved(const OpQuery&) const { return {}; }
  /// The backward passes in the order they run.
  virtual std::vector<Pass> backward_passes(const OpQuery&) const { return {Pass::BACKWARD}; }
  /// DY operands that backward can sum itself; the compiler's own nodes sum the rest.
  virtual int most_gradients(const OpQuery&) const { return 1; }
  /// Rows of STATISTICS that FORWARD can leave for the only reader of y, if that one's takes_statistics() is
  /// true. 0: none; 1: an offset per channel that y lacks; 2: sum and sum of squares over y's pixels; 3:
  /// these and the offset.
  virtual int statistics_rows(const OpQuery&) const { return 0; }
  virtual bool takes_statistics(const OpQuery&) const { return false; }
  /// What a pass reads and writes, WORKSPACE left out.
  virtual std::vector<Use> uses(const OpQuery&, Pass) const = 0;
  /// How y is computed again in the same step: RECOMPUTE where that is less work than FORWARD, else FORWARD,
  /// which then writes all that it wrote before with the same values.
  virtual Pass recompute_pass() const { return Pass::FORWARD; }
  /// Outputs that may take over an input's bytes, the best first. Both have the same shape and dtype.
  virtual std::vector<InPlace> in_place(const OpQuery&, Pass) const { return {}; }
  /// Attributes of the fused operator if this one can take its only consumer in (`input` is the place of
  /// this operator's output among the consumer's inputs); nothing if it cannot.
  virtual std::optional<Attributes> absorb(const Attributes& /*mine*/, std::string_view /*consumer*/,
                                           const Attributes& /*theirs*/, int /*input*/) const {
    return std::nullopt;
  }
  /// The rules for CUDA plans, valid with no CUDA in the build: workspace under the target's cap.
  virtual Offer offer_cuda(const OpQuery&, Pass) const { return {}; }
  /// Floating-point operations of a pass (multiply and add count two); 0 where bytes decide.
  virtual int64_t flops(const OpQuery&, Pass) const { return 0; }
};

/// One operand of a node, resolved for one rank: what it is and where.
struct Operand {
  Port port;
  int index = 0;
  DTensor tensor;
  std::byte* data = nullptr;
};

/// One node resolved: everything a kernel needs to prepare its call.
struct Binding {
  OpQuery query;
  Pass pass;
  std::vector<Operand> operands;
  std::byte* workspace = nullptr;  ///< 256-byte aligned, offer().workspace_bytes long

  const Operand* find(Port port, int index = 0) const;
  bool has(Port port, int index = 0) const { return find(port, index) != nullptr; }
  /// Throw IndexError naming layer, pass and port when absent.
  const DTensor& tensor(Port port, int index = 0) const;
  template <typename T>
  T* data(Port port, int index = 0) const {
    return reinterpret_cast<T*>(require(port, index).data);
  }

 private:
  const Operand& require(Port port, int index) const;
};

/// What a captured node is: one call with every pointer and library handle resolved. Must not allocate.
using Call = std::function<void()>;

/// What a backend lends to prepare(): engines, streams, handles. Each backend derives its own.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
};

class OpKernels {
 public:
  virtual ~OpKernels() = default;
  /// Pure and deviceless: the workspace this pass needs, or why it is declined.
  virtual Offer offer(const OpQuery& query, Pass pass) const = 0;
  /// May allocate and be slow. The call it returns must write every element of its outputs.
  virtual Call prepare(const Binding& binding, KernelContext& context) const = 0;
};

struct CatalogEntry {
  std::unique_ptr<OpSpec> spec;
  std::array<std::unique_ptr<OpKernels>, NUM_BACKENDS> kernels;  ///< null where the build has none
};

/// The operators a program knows. Passed, never found.
class Catalog {
 public:
  void add(CatalogEntry entry);
  /// Throws RecipeError with the nearest known name.
  const CatalogEntry& find(std::string_view name) const;
  bool has(std::string_view name) const;
  std::vector<std::string> names() const;
  /// offer() of the target's backend; for CUDA the OpSpec's rules. NotSupported where nothing is offered.
  Offer offer(const CatalogEntry& entry, const OpQuery& query, Pass pass) const;

 private:
  std::vector<std::unique_ptr<CatalogEntry>> entries_;
};

/// All operators of this build.
Catalog make_catalog();

/// `given` checked against the schema and completed with its defaults. RecipeError for unknown names
/// (the nearest known one is named), missing required ones and wrong types.
Attributes complete_attributes(const OpSpec& spec, const Attributes& given, const std::string& who);

/// The nearest of `known` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace tr
