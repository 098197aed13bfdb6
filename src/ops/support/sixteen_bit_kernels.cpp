#include "ops/support/sixteen_bit_kernels.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/sixteen_bits.h"
#include "ops/support/workspace.h"

namespace tr {
namespace {

OpQuery in_fp32(OpQuery query) {
  query.dtype = DType::FP32;
  return query;
}

OpQuery with_samples(OpQuery query, int64_t samples) {
  if (samples == query.y.n()) return query;
  const auto cut = [samples](const Shape& shape) { return Shape(samples, shape.h(), shape.w(), shape.c()); };
  std::ranges::transform(query.x, query.x.begin(), cut);
  query.y = cut(query.y);
  return query;
}

bool is_of_batch(Port port) {
  return port == Port::X || port == Port::DX || port == Port::Y || port == Port::DY;
}

/// The elements of an operand that is 16-bit under mixed precision; 0 for every other.
int64_t narrow_elements(const OpSpec& spec, const OpQuery& query, const Use& use) {
  const auto index = static_cast<size_t>(use.index);
  switch (use.port) {
    case Port::X:
    case Port::DX:
      return query.x.at(index).numel();
    case Port::Y:
    case Port::DY:
      return query.y.numel();
    case Port::PARAM:
    case Port::PARAM_GRAD: {
      const ParamSpec param = spec.params(query).at(index);
      return is_weight_role(param.role) ? param.shape.numel() : 0;
    }
    case Port::SAVED: {
      const SavedSpec saved = spec.saved(query).at(index);
      return region_traits(saved.region).dtype == RegionDType::SIXTEEN_BIT ? saved.shape.numel() : 0;
    }
    default:
      return 0;
  }
}

/// One operand and its copy.
struct Copy {
  Port port;
  int index;
  bool reads, writes;
  float* wide;  ///< dense
  uint16_t* narrow = nullptr;
  int64_t samples = 1, sample_pixels = 0, channels = 0, stride = 0;  ///< of `narrow`
};

/// The copies of a pass in the workspace, behind the bytes of the kernel itself; with no base only their
/// size. An output that may lie on an input's bytes takes over that input's copy.
struct Copies {
  Copies(const OpSpec& spec, const OpQuery& query, Pass pass, int64_t kernel_bytes,
         std::byte* base = nullptr) {
    WorkspaceSlices slices(base);
    slices.take(kernel_bytes);
    const std::vector<Use> uses = spec.uses(query, pass);
    std::vector<InPlace> pairs;  // no operand is in two of them
    for (const InPlace& pair : spec.in_place(query, pass)) {
      const auto clashes = [&](const InPlace& other) {
        return is_same(pair.output, other.output) || is_same(pair.input, other.input);
      };
      if (std::ranges::none_of(pairs, clashes) && fits(spec, query, uses, pair)) pairs.push_back(pair);
    }
    const auto take = [&](const Use& use) {
      const int64_t elements = narrow_elements(spec, query, use);
      if (elements == 0) return;
      const auto pair = std::ranges::find_if(pairs, [&](const InPlace& p) { return is_same(p.output, use); });
      const Copy* taken_over = pair == pairs.end() ? nullptr : find(pair->input.port, pair->input.index);
      float* wide = taken_over != nullptr
                        ? taken_over->wide
                        : reinterpret_cast<float*>(slices.take(elements * int64_t{sizeof(float)}));
      list.push_back({use.port, use.index, use.read, use.write, wide});
    };
    for (const Use& use : uses)
      if (use.read) take(use);
    for (const Use& use : uses)
      if (!use.read) take(use);
    bytes = slices.bytes();
  }

  Copy* find(Port port, int index) {
    for (Copy& copy : list)
      if (copy.port == port && copy.index == index) return &copy;
    return nullptr;
  }

  std::vector<Copy> list;
  int64_t bytes = 0;

 private:
  static bool is_same(const Use& a, const Use& b) { return a.port == b.port && a.index == b.index; }

  /// Both are copied, the output is only written and the input only read.
  static bool fits(const OpSpec& spec, const OpQuery& query, const std::vector<Use>& uses,
                   const InPlace& pair) {
    const auto used = [&](const Use& use, bool read) {
      return std::ranges::any_of(
          uses, [&](const Use& u) { return is_same(u, use) && u.read == read && u.write != read; });
    };
    if (!used(pair.output, false) || !used(pair.input, true))
      return false;  // in_place() may name what is not there
    const int64_t elements = narrow_elements(spec, query, pair.output);
    return elements > 0 && elements == narrow_elements(spec, query, pair.input);
  }
};

template <typename Type>
void widen_samples(Type type, const Copy& copy, int64_t first_sample, int64_t samples) {
  const uint16_t* from = copy.narrow + first_sample * copy.sample_pixels * copy.stride;
  float* to = copy.wide;
  const int64_t pixels = samples * copy.sample_pixels, channels = copy.channels, stride = copy.stride;
  if (stride == channels)
    return parallel_pieces(pixels * channels, [=](int64_t first, int64_t last) {
      widen(type, from + first, to + first, last - first);
    });
  parallel_pieces(pixels, [=](int64_t first, int64_t last) {
    widen_pixels(type, from + first * stride, stride, last - first, channels, to + first * channels);
  });
}

template <typename Type>
void narrow_samples(Type type, const Copy& copy, int64_t first_sample, int64_t samples) {
  const int64_t per_sample = copy.sample_pixels * copy.channels;
  const float* from = copy.wide;
  uint16_t* to = copy.narrow + first_sample * per_sample;
  parallel_pieces(samples * per_sample,
                  [=](int64_t first, int64_t last) { narrow(type, from + first, to + first, last - first); });
}

/// How many samples are computed at once.
struct Blocks {
  int64_t samples = 0;  ///< of the batch
  int64_t block = 0;    ///< of each block but the last
  int64_t rest() const { return samples % block; }

  /// A sample of evaluation does not depend on the others of its batch, so where a pass writes y alone,
  /// copies of a few samples are enough.
  Blocks(const OpSpec& spec, const OpQuery& query, Pass pass) : samples(query.y.n()), block(samples) {
    constexpr int64_t BLOCK_BYTES = 4 << 20;
    int64_t bytes = 0;
    for (const Use& use : spec.uses(query, pass)) {
      if (use.write && use.port != Port::Y) return;
      if (is_of_batch(use.port)) bytes += narrow_elements(spec, query, use) * int64_t{sizeof(float)};
    }
    const auto is_batch = [&](const Shape& x) { return x.n() == samples; };
    if (pass == Pass::INFERENCE && std::ranges::all_of(query.x, is_batch) && bytes > BLOCK_BYTES)
      block = std::max<int64_t>(BLOCK_BYTES / (bytes / samples), 1);
  }
};

template <typename Type>
Call between_copies(Type type, std::vector<Copy> copies, const Blocks& blocks, Call kernel,
                    Call rest_kernel) {
  return [type, copies = std::move(copies), blocks, kernel = std::move(kernel),
          rest_kernel = std::move(rest_kernel)] {
    for (const Copy& copy : copies)
      if (copy.reads && !is_of_batch(copy.port)) widen_samples(type, copy, 0, copy.samples);
    for (int64_t first = 0; first < blocks.samples; first += blocks.block) {
      const int64_t samples = std::min(blocks.block, blocks.samples - first);
      for (const Copy& copy : copies)
        if (copy.reads && is_of_batch(copy.port)) widen_samples(type, copy, first, samples);
      (samples == blocks.block ? kernel : rest_kernel)();
      for (const Copy& copy : copies)
        if (copy.writes && is_of_batch(copy.port)) narrow_samples(type, copy, first, samples);
    }
    for (const Copy& copy : copies)
      if (copy.writes && !is_of_batch(copy.port)) narrow_samples(type, copy, 0, copy.samples);
  };
}

class SixteenBitKernels : public OpKernels {
 public:
  SixteenBitKernels(std::unique_ptr<OpKernels> kernels, const OpSpec& spec)
      : kernels_(std::move(kernels)), spec_(spec) {}

  Offer offer(const OpQuery& query, Pass pass) const override {
    if (!is_16bit(query.dtype)) return kernels_->offer(query, pass);
    if (const Offer own = kernels_->offer(query, pass); own.supported()) return own;
    Offer offer = kernel_offer(query, pass, Blocks(spec_, query, pass));
    if (offer.supported()) offer.workspace_bytes = copies(query, pass, offer.workspace_bytes, nullptr).bytes;
    return offer;
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const OpQuery& query = binding.query;
    const Pass pass = binding.pass;
    if (!is_16bit(query.dtype) || kernels_->offer(query, pass).supported())
      return kernels_->prepare(binding, context);
    const Blocks blocks(spec_, query, pass);
    Copies copied = copies(query, pass, kernel_offer(query, pass, blocks).workspace_bytes, binding.workspace);
    const Binding wide = bind_copies(binding, copied, blocks.block);
    Call kernel = kernels_->prepare(wide, context), rest;
    if (blocks.rest() > 0) rest = kernels_->prepare(bind_copies(binding, copied, blocks.rest()), context);
    std::erase_if(copied.list, [](const Copy& copy) { return copy.narrow == nullptr; });
    return with_16bit(query.dtype, [&](auto type) {
      return between_copies(type, std::move(copied.list), blocks, std::move(kernel), std::move(rest));
    });
  }

 private:
  /// Of the FP32 kernel for each number of samples that occurs.
  Offer kernel_offer(const OpQuery& query, Pass pass, const Blocks& blocks) const {
    Offer offer = kernels_->offer(in_fp32(with_samples(query, blocks.block)), pass);
    if (!offer.supported() || blocks.rest() == 0) return offer;
    const Offer rest = kernels_->offer(in_fp32(with_samples(query, blocks.rest())), pass);
    return {rest.declined, std::max(offer.workspace_bytes, rest.workspace_bytes)};
  }

  Copies copies(const OpQuery& query, Pass pass, int64_t kernel_bytes, std::byte* workspace) const {
    const Blocks blocks(spec_, query, pass);
    return {spec_, with_samples(query, blocks.block), pass, kernel_bytes, workspace};
  }

  /// What the FP32 kernel sees: the copies instead of the 16-bit operands, of `samples` samples.
  static Binding bind_copies(const Binding& binding, Copies& copied, int64_t samples) {
    Binding wide = binding;
    wide.query = in_fp32(with_samples(binding.query, samples));
    for (Operand& operand : wide.operands)
      if (is_16bit(operand.tensor.dtype))
        replace(operand, copied.find(operand.port, operand.index), samples, binding.query.layer);
    return wide;
  }

  static void replace(Operand& operand, Copy* copy, int64_t samples, const std::string& layer) {
    const DTensor narrow = operand.tensor;
    const Shape& shape = narrow.shape;
    TR_CHECK(copy != nullptr, IndexError,
             cat("'", layer, "': ", port_name(operand.port), '[', operand.index,
                 "] is 16-bit, but the operator does not list it among its uses"));
    TR_CHECK(narrow.strides[2] == shape.c() || !copy->writes, NotSupportedError,
             cat("'", layer, "': ", port_name(operand.port), '[', operand.index,
                 "] has padded channels, which a 16-bit output on the cpu may not have"));
    copy->narrow = reinterpret_cast<uint16_t*>(operand.data);
    copy->samples = shape.n();
    copy->sample_pixels = shape.h() * shape.w();
    copy->channels = shape.c();
    copy->stride = narrow.strides[2];
    const Shape seen = is_of_batch(operand.port) ? Shape(samples, shape.h(), shape.w(), shape.c()) : shape;
    operand.data = reinterpret_cast<std::byte*>(copy->wide);
    operand.tensor = make_dtensor(narrow.id, seen, DType::FP32, narrow.region, BackendKind::CPU);
  }

  std::unique_ptr<OpKernels> kernels_;
  const OpSpec& spec_;
};

}  // namespace

std::unique_ptr<OpKernels> with_sixteen_bits(std::unique_ptr<OpKernels> kernels, const OpSpec& spec) {
  if (kernels == nullptr) return nullptr;
  return std::make_unique<SixteenBitKernels>(std::move(kernels), spec);
}

}  // namespace tr
