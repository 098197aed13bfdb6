/// One operator on one backend with buffers of its own, laid out as a plan would: 256-byte aligned slots
/// whose tails and channel padding are zero.
///
///   OpRig rig(catalog, {.op = "conv", .attrs = {{"out_channels", int64_t{8}}, {"kernel", int64_t{3}}},
///                       .x = {Shape(2, 9, 9, 3)}});
///   rig.run(Pass::FORWARD);
///   rig.run_backward();
///   rig.values(Port::DX)[0];
///
/// Every pass runs twice from the same start, with two different poisons in what it writes and in its
/// workspace, and must give the same bits both times: an element left unwritten, a read of undefined scratch
/// and a race all show. Whatever a pass does not write, slot tails included, must keep its bytes; the channel
/// padding of feature maps that it writes must be zero. Outputs that OpSpec::in_place() names are then put on
/// their inputs' bytes, each pair by itself and as many at once as a plan may, which must not change a bit.
/// After FORWARD, OpSpec::recompute_pass() must give the same bits once more.
///
/// On CUDA the buffers below are the host's: a pass runs on a copy of them on the device that is brought back
/// afterwards, the first time as a plain call and the second time as a captured graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/graph/op_spec.h"
#include "support/cuda_rig.h"

namespace tr::test {

/// Value i of stream `salt`, exact in FP32, in [-0.5, 0.5). tests/reference/fill.py has the same formula.
float fill_value(uint64_t i, uint32_t salt);
/// scale * fill_value(i, salt) + shift for each element, in double and rounded once.
void fill(std::span<float> values, uint32_t salt, double scale = 1.0, double shift = 0.0);

/// Streams of a case are `salt` plus these.
enum FillStream : uint32_t {
  X_STREAM = 0,
  PARAM_STREAM = 100,
  DY_STREAM = 200,
  STATE_STREAM = 300,
  OFFSET_STREAM = 400
};

struct OpCase {
  std::string op;
  Attributes attrs;  ///< completed with the schema's defaults
  std::vector<Shape> x;
  DType dtype = DType::FP32;  ///< of features and of the weights of conv and fc, with their gradients
  bool reads_network_input = false;
  uint32_t salt = 1;
  std::vector<bool> needs_dx;  ///< empty: all
  bool flatten_x = false;  ///< shapes are inferred from [N,1,1,H*W*C] while kernels see x: fc after a view
  double x_scale = 1.0, x_shift = 0.0;
  float label_smoothing = 0.0f;
  float loss_scale = 1.0f;
  std::vector<int32_t> labels;  ///< empty: label i is (7 i + salt) mod C
  std::string layer = "layer";
  int gradients = 1;        ///< DY operands
  bool statistics = false;  ///< FORWARD writes STATISTICS, or reads them if the operator takes any
  int statistics_rows = 2;  ///< then: 1 an offset only, 2 sums, 3 both
  Target target;            ///< its backend is replaced by the rig's
  float mix_share = 0.0f;   ///< of a loss with `mix`
};

void PrintTo(const OpCase& c, std::ostream* out);

/// FINITE: everything a pass writes must be finite. ANY: NaN and infinity may be right answers.
enum class Expect : uint8_t { FINITE, ANY };

class OpRig {
 public:
  /// Fills, each from its stream and rounded to its type: x[i] with value times x_scale plus x_shift;
  /// parameters that start at ones with 1 + value, others with the value; running mean with the value,
  /// running variance with 1 + value; dy[i] and a reader's offset with the value. A reader's other STATISTICS
  /// are sums over x.
  OpRig(const Catalog& catalog, const OpCase& c, BackendKind backend = BackendKind::CPU);
  ~OpRig();
  OpRig(const OpRig&) = delete;
  OpRig& operator=(const OpRig&) = delete;

  /// Throws tr::Error naming pass and operand when one of the promises above is broken.
  void run(Pass pass, Expect expect = Expect::FINITE);
  /// All backward passes in order; for operators that pass gradients through, dx = dy. DY is as before
  /// afterwards, also where a pass masks it in place.
  void run_backward(Expect expect = Expect::FINITE);
  /// The prepared call by itself, for measuring time; on CUDA it enqueues work on the device's buffers.
  const Call& call(Pass pass);

  /// Logical NHWC elements of tensors without channel padding; writable, so that a test can put values of its
  /// own. TypeError for another element type.
  std::span<float> values(Port port, int index = 0);
  std::span<int32_t> ints(Port port, int index = 0);
  std::span<uint8_t> bytes(Port port, int index = 0);
  /// Copies of the logical elements of any tensor, channel padding left out.
  std::vector<float> get(Port port, int index = 0) const;
  /// FP32 and 16-bit tensors; rounds.
  void set(Port port, int index, std::span<const float> values);
  /// A reader's sums again, after a test changed x.
  void fill_statistics();

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
  /// Outputs on the bytes of inputs; empty: everything apart.
  using Sharing = std::vector<InPlace>;
  struct Prepared {
    std::vector<Use> uses;
    Sharing sharing;
    Call call;
    std::byte* workspace = nullptr;  ///< on the device for CUDA
    int64_t workspace_bytes = 0;
  };
  struct AlignedFree {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte[], AlignedFree>;

  static Buffer allocate(int64_t bytes);
  void add(Port port, int index, const Shape& shape, DType dtype, Region region);
  void add_tensors();
  void add_baseline();
  void fill_tensors(const OpCase& c);
  void fill_port(Port port, int index, uint32_t salt, double scale = 1.0, double shift = 0.0);
  const Slot& slot(Port port, int index) const;
  std::byte* data(Port port, int index) { return arena_.get() + slot(port, index).offset; }
  /// Bytes from the arena's start to logical element i.
  static int64_t position(const Slot& s, int64_t i);
  std::byte* dense_data(Port port, int index, DType dtype);
  /// Where an operand of a pass is: its own slot, or that of the input whose bytes it takes over.
  const Slot& placed(const Sharing& sharing, Port port, int index) const;
  Prepared prepare(Pass pass, Sharing sharing);
  Prepared& prepared(Pass pass);
  std::vector<Sharing> sharings(Pass pass) const;
  void recompute(Expect expect);
  void run_in_place(Pass pass, const std::vector<std::byte>& before);
  void check_same_as_apart(Pass pass, const Prepared& p, const std::vector<std::byte>& apart) const;
  void execute(Pass pass, const Prepared& p, bool captured);
  void fill_workspace(std::byte* to, int byte, int64_t bytes);
  void poison(const Prepared& p, int byte);
  /// To the bit, or in sums whose order varies, nearly.
  bool is_same(const std::byte* a, const std::byte* b, DType dtype) const;
  void check_untouched(Pass pass, const Prepared& p, const std::vector<std::byte>& before) const;
  void check_written(Pass pass, const Prepared& p, const std::vector<std::byte>& first, Expect expect) const;
  void check_padding(Pass pass, const Prepared& p, const Use& use) const;
  std::string who(Pass pass) const;

  const Catalog& catalog_;
  const CatalogEntry& entry_;
  const OpKernels* kernels_ = nullptr;
  std::unique_ptr<KernelContext> context_;  ///< CPU
  std::unique_ptr<DeviceMirror> mirror_;    ///< CUDA
  OpQuery query_;
  std::vector<ParamSpec> params_;
  std::map<std::pair<Port, int>, Slot> slots_;
  int64_t arena_bytes_ = 0;
  Buffer arena_;
  std::byte* device_arena_ = nullptr;
  std::vector<Buffer> workspaces_;
  std::map<Pass, Prepared> prepared_;
  std::map<Pass, std::vector<Prepared>> in_place_;
};

}  // namespace tr::test
