#include "ops/adaptive_avgpool/adaptive_avgpool.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

struct AdaptiveAvgPool {
  explicit AdaptiveAvgPool(const OpQuery& query)
      : images(query.y.n()),
        channels(query.y.c()),
        rows(query.x[0].h(), query.y.h()),
        columns(query.x[0].w(), query.y.w()) {}

  float weight(int64_t p, int64_t q) const {
    return 1.0f / static_cast<float>(rows.inputs_of(p) * columns.inputs_of(q));
  }

  void forward(const float* x, float* y) const {
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < images * rows.outputs; ++line) {
      const int64_t p = line % rows.outputs, image = line / rows.outputs;
      for (int64_t q = 0; q < columns.outputs; ++q) {
        float* out = y + (line * columns.outputs + q) * channels;
        const float factor = weight(p, q);
        std::fill_n(out, channels, 0.0f);
        for (int64_t h = rows.first_input(p); h < rows.end_input(p); ++h)
          for (int64_t w = columns.first_input(q); w < columns.end_input(q); ++w)
            add(x + ((image * rows.size + h) * columns.size + w) * channels, 1.0f, out);
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) out[c] *= factor;
      }
    }
  }

  /// Each input gathers from the windows that hold it, so that no two threads write one place.
  void backward(const float* dy, float* dx) const {
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < images * rows.size; ++line) {
      const int64_t h = line % rows.size, image = line / rows.size;
      for (int64_t w = 0; w < columns.size; ++w) {
        float* out = dx + (line * columns.size + w) * channels;
        std::fill_n(out, channels, 0.0f);
        for (int64_t p = rows.first_output(h); p < rows.end_output(h); ++p)
          for (int64_t q = columns.first_output(w); q < columns.end_output(w); ++q)
            add(dy + ((image * rows.outputs + p) * columns.outputs + q) * channels, weight(p, q), out);
      }
    }
  }

  void add(const float* values, float factor, float* out) const {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) out[c] += values[c] * factor;
  }

  int64_t images, channels;
  AdaptiveAxis<> rows, columns;
};

class AdaptiveAvgPoolCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const AdaptiveAvgPool pool(binding.query);
    if (binding.pass == Pass::BACKWARD)
      return [pool, dy = binding.data<float>(Port::DY), dx = binding.data<float>(Port::DX)] {
        pool.backward(dy, dx);
      };
    return [pool, x = binding.data<float>(Port::X), y = binding.data<float>(Port::Y)] { pool.forward(x, y); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> adaptive_avgpool_cpu_kernels();
std::unique_ptr<OpKernels> adaptive_avgpool_cpu_kernels() {
  return std::make_unique<AdaptiveAvgPoolCpuKernels>();
}

}  // namespace tr
