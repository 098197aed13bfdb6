#include "ops/dropout/dropout.h"
#include "ops/support/cpu_loops.h"
#include "renaissance/core/philox.h"

namespace tr {
namespace {

constexpr int64_t GROUP = 64;  // elements drawn together: sixteen Philox blocks, side by side in registers
constexpr int64_t BLOCKS = GROUP / 4;

struct Dropout {
  /// The mask of elements [64 group, 64 group + 64), bit i for the i-th.
  uint64_t keep_bits(const Philox& random, uint32_t stream, int64_t group) const {
    uint32_t above[GROUP];
#pragma omp simd
    for (int64_t b = 0; b < BLOCKS; ++b) {
      const uint64_t index = index_base ^ static_cast<uint64_t>(group * BLOCKS + b);
      const Philox::Block words = random.at(RandomPurpose::DROPOUT, stream, index);
      above[b] = words[0] >> 8 >= threshold;
      above[BLOCKS + b] = words[1] >> 8 >= threshold;
      above[2 * BLOCKS + b] = words[2] >> 8 >= threshold;
      above[3 * BLOCKS + b] = words[3] >> 8 >= threshold;
    }
    uint64_t bits = 0;
    for (int64_t b = 0; b < BLOCKS; ++b)
      for (int64_t word = 0; word < 4; ++word) bits |= uint64_t{above[word * BLOCKS + b]} << (4 * b + word);
    return bits;
  }

  /// out = in where the mask has a 1, scaled; else 0. `count` elements from an element divisible by 64.
  void apply(uint64_t bits, const float* in, float* out, int64_t count) const {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) out[i] = (bits >> i & 1) != 0 ? in[i] * scale : 0.0f;
  }

  void forward(const float* x, uint32_t seed, uint32_t stream, float* y, uint8_t* mask) const {
    const Philox random(seed);
    each_group([&, this](int64_t group, int64_t count) {
      uint64_t bits = keep_bits(random, stream, group);
      if (count < GROUP) bits &= (uint64_t{1} << count) - 1;
      for (int64_t byte = 0; byte < (count + 7) / 8; ++byte)
        mask[group * GROUP / 8 + byte] = static_cast<uint8_t>(bits >> 8 * byte);
      apply(bits, x + group * GROUP, y + group * GROUP, count);
    });
  }

  void backward(const float* dy, const uint8_t* mask, float* dx) const {
    each_group([&, this](int64_t group, int64_t count) {
      uint64_t bits = 0;
      for (int64_t byte = 0; byte < (count + 7) / 8; ++byte)
        bits |= uint64_t{mask[group * GROUP / 8 + byte]} << 8 * byte;
      apply(bits, dy + group * GROUP, dx + group * GROUP, count);
    });
  }

  /// body(group, elements in it) in parallel; groups own whole bytes of the mask.
  template <typename Body>
  void each_group(Body body) const {
    constexpr int64_t LEAST_GROUPS = 64;
    const int64_t groups = (numel + GROUP - 1) / GROUP;
#pragma omp parallel for schedule(static) if (groups > LEAST_GROUPS)
    for (int64_t group = 0; group < groups; ++group) body(group, std::min(GROUP, numel - group * GROUP));
  }

  int64_t numel;
  uint64_t index_base;
  uint32_t threshold;
  float scale;
};

class DropoutCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const OpQuery& query = binding.query;
    const double probability = query.attrs.number("probability");
    const Dropout dropout{query.y.numel(), dropout_index_base(query.layer), dropout_threshold(probability),
                          dropout_scale(probability)};
    if (binding.pass == Pass::BACKWARD)
      return [dropout, dy = binding.data<float>(Port::DY), mask = binding.data<uint8_t>(Port::SAVED),
              dx = binding.data<float>(Port::DX)] { dropout.backward(dy, mask, dx); };
    const float* x = binding.data<float>(Port::X);
    float* y = binding.data<float>(Port::Y);
    if (binding.pass == Pass::INFERENCE)
      return [numel = dropout.numel, x, y] {
        parallel_pieces(numel,
                        [=](int64_t first, int64_t last) { std::copy(x + first, x + last, y + first); });
      };
    return [dropout, x, y, mask = binding.data<uint8_t>(Port::SAVED),
            seed = binding.data<int32_t>(Port::BASELINE, DROPOUT_SEED),
            counter = binding.data<int32_t>(Port::BASELINE, DROPOUT_COUNTER)] {
      dropout.forward(x, static_cast<uint32_t>(*seed), static_cast<uint32_t>(*counter), y, mask);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> dropout_cpu_kernels();
std::unique_ptr<OpKernels> dropout_cpu_kernels() { return std::make_unique<DropoutCpuKernels>(); }

}  // namespace tr
