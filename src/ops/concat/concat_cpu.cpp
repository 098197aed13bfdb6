#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

/// One input's channels in the rows of the whole.
struct Part {
  float* data;
  int64_t channels;
  int64_t offset;  // of its first channel in a row of the whole
};

/// The inputs of a pass that take part, x or dx.
std::vector<Part> parts_of(const Binding& binding, Port port) {
  std::vector<Part> parts;
  int64_t offset = 0;
  for (size_t i = 0; i < binding.query.x.size(); ++i) {
    const int64_t channels = binding.query.x[i].c();
    const auto index = static_cast<int>(i);
    if (binding.has(port, index)) parts.push_back({binding.data<float>(port, index), channels, offset});
    offset += channels;
  }
  return parts;
}

class ConcatCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const Shape& y = binding.query.y;
    const int64_t pixels = y.n() * y.h() * y.w(), row = y.c();
    if (binding.pass == Pass::BACKWARD)
      return [=, parts = parts_of(binding, Port::DX), dy = binding.data<const float>(Port::DY)] {
#pragma omp parallel for schedule(static)
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          for (const Part& part : parts)
            std::copy_n(dy + pixel * row + part.offset, part.channels, part.data + pixel * part.channels);
      };
    return [=, parts = parts_of(binding, Port::X), to = binding.data<float>(Port::Y)] {
#pragma omp parallel for schedule(static)
      for (int64_t pixel = 0; pixel < pixels; ++pixel)
        for (const Part& part : parts)
          std::copy_n(part.data + pixel * part.channels, part.channels, to + pixel * row + part.offset);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> concat_cpu_kernels();
std::unique_ptr<OpKernels> concat_cpu_kernels() { return std::make_unique<ConcatCpuKernels>(); }

}  // namespace tr
