/// One operator on one backend with buffers of its own, laid out as a plan would: 256-byte aligned slots
/// whose tails are zero.
///
///   OpRig rig(catalog, {.op = "conv", .attrs = {{"out_channels", int64_t{8}}, {"kernel", int64_t{3}}},
///                       .x = {Shape(2, 9, 9, 3)}});
///   rig.run(Pass::FORWARD);
///   rig.run_backward();
///   rig.values(Port::DX)[0];
///
/// Every pass runs twice from the same start, with two different poisons in what it writes and in its
/// workspace, and must give the same bits both times: an element left unwritten, a read of undefined scratch
/// and a race all show. Whatever a pass does not write, slot tails included, must keep its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/graph/op_spec.h"

namespace tr::test {

/// Value i of stream `salt`, exact in FP32, in [-0.5, 0.5). tests/reference/fill.py has the same formula.
float fill_value(uint64_t i, uint32_t salt);
/// scale * fill_value(i, salt) + shift for each element, in double and rounded once.
void fill(std::span<float> values, uint32_t salt, double scale = 1.0, double shift = 0.0);

/// Streams of a case are `salt` plus these.
enum FillStream : uint32_t { X_STREAM = 0, PARAM_STREAM = 100, DY_STREAM = 200, STATE_STREAM = 300 };

struct OpCase {
  std::string op;
  Attributes attrs;  ///< completed with the schema's defaults
  std::vector<Shape> x;
  bool reads_network_input = false;
  uint32_t salt = 1;
  std::vector<bool> needs_dx;  ///< empty: all
  bool flatten_x = false;  ///< shapes are inferred from [N,1,1,H*W*C] while kernels see x: fc after a view
  double x_scale = 1.0, x_shift = 0.0;
  float label_smoothing = 0.0f;
  float loss_scale = 1.0f;
  std::vector<int32_t> labels;  ///< empty: label i is (7 i + salt) mod C
  std::string layer = "layer";
  Target target;  ///< its backend is replaced by the rig's
};

/// FINITE: everything a pass writes must be finite. ANY: NaN and infinity may be right answers.
enum class Expect : uint8_t { FINITE, ANY };

class OpRig {
 public:
  /// Fills, each from its stream: x[i] with value times x_scale plus x_shift; parameters that start at ones
  /// with 1 + value, others with the value; running mean with the value, running variance with 1 + value; dy
  /// with the value.
  OpRig(const Catalog& catalog, const OpCase& c, BackendKind backend = BackendKind::CPU);
  ~OpRig();
  OpRig(const OpRig&) = delete;
  OpRig& operator=(const OpRig&) = delete;

  /// Throws tr::Error naming pass and operand when one of the promises above is broken.
  void run(Pass pass, Expect expect = Expect::FINITE);
  /// All backward passes in order; for operators that pass gradients through, dx = dy. DY is as before
  /// afterwards, also where a pass masks it in place.
  void run_backward(Expect expect = Expect::FINITE);
  /// The prepared call by itself, for measuring time.
  const Call& call(Pass pass);

  /// Logical NHWC elements, dense; writable, so that a test can put values of its own.
  std::span<float> values(Port port, int index = 0);
  std::span<int32_t> ints(Port port, int index = 0);
  std::span<uint8_t> bytes(Port port, int index = 0);

  bool has(Port port, int index = 0) const { return slots_.contains({port, index}); }
  const DTensor& tensor(Port port, int index = 0) const { return slot(port, index).tensor; }
  const OpQuery& query() const { return query_; }
  const OpSpec& spec() const { return *entry_.spec; }
  const std::vector<ParamSpec>& params() const { return params_; }
  Offer offer(Pass pass) const { return catalog_.offer(entry_, query_, pass); }

 private:
  struct Slot {
    DTensor tensor;
    int64_t offset = 0;
  };
  struct Prepared {
    std::vector<Use> uses;
    Call call;
    std::byte* workspace = nullptr;
    int64_t workspace_bytes = 0;
  };
  struct AlignedFree {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte[], AlignedFree>;

  static Buffer allocate(int64_t bytes);
  void add(Port port, int index, const Shape& shape, DType dtype, Region region);
  void add_tensors();
  void fill_tensors(const OpCase& c);
  const Slot& slot(Port port, int index) const;
  std::byte* data(Port port, int index) { return arena_.get() + slot(port, index).offset; }
  std::byte* typed_data(Port port, int index, DType dtype);
  Prepared& prepared(Pass pass);
  void poison(const Prepared& p, int byte);
  void check_untouched(Pass pass, const Prepared& p, const std::vector<std::byte>& before) const;
  void check_written(Pass pass, const Prepared& p, const std::vector<std::byte>& first, Expect expect) const;
  std::string who(Pass pass) const;

  const Catalog& catalog_;
  const CatalogEntry& entry_;
  const OpKernels* kernels_ = nullptr;
  std::unique_ptr<KernelContext> context_;
  OpQuery query_;
  std::vector<ParamSpec> params_;
  std::map<std::pair<Port, int>, Slot> slots_;
  int64_t arena_bytes_ = 0;
  Buffer arena_;
  std::vector<Buffer> workspaces_;
  std::map<Pass, Prepared> prepared_;
};

}  // namespace tr::test
