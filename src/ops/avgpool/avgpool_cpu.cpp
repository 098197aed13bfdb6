#include "ops/support/cpu_loops.h"
#include "ops/support/pool.h"

namespace tr {
namespace {

struct AvgPool {
  explicit AvgPool(const OpQuery& query)
      : x_shape(query.x[0]),
        y_shape(query.y),
        rows(PoolAttributes(query.attrs), x_shape.h(), y_shape.h()),
        columns(PoolAttributes(query.attrs), x_shape.w(), y_shape.w()),
        weight(1.0f / static_cast<float>(rows.kernel * rows.kernel)) {}

  void forward(const float* x, float* y) const {
    const int64_t channels = x_shape.c(), lines = y_shape.n() * y_shape.h();
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t p = line % y_shape.h(), image = line / y_shape.h();
      for (int64_t q = 0; q < y_shape.w(); ++q) {
        float* out = y + (line * y_shape.w() + q) * channels;
        std::fill_n(out, channels, 0.0f);
        for (int64_t h = rows.first_input(p); h < rows.end_input(p); ++h) {
          for (int64_t w = columns.first_input(q); w < columns.end_input(q); ++w) {
            const float* values = x + ((image * x_shape.h() + h) * x_shape.w() + w) * channels;
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c) out[c] += values[c];
          }
        }
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) out[c] *= weight;
      }
    }
  }

  /// Each input gathers from the windows that hold it, so that no two threads write one place.
  void backward(const float* dy, float* dx) const {
    const int64_t channels = x_shape.c(), lines = x_shape.n() * x_shape.h();
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t h = line % x_shape.h(), image = line / x_shape.h();
      for (int64_t w = 0; w < x_shape.w(); ++w) {
        float* out = dx + (line * x_shape.w() + w) * channels;
        std::fill_n(out, channels, 0.0f);
        for (int64_t p = rows.first_output(h); p < rows.end_output(h); ++p) {
          for (int64_t q = columns.first_output(w); q < columns.end_output(w); ++q) {
            const float* dy_window = dy + ((image * y_shape.h() + p) * y_shape.w() + q) * channels;
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c) out[c] += dy_window[c] * weight;
          }
        }
      }
    }
  }

  Shape x_shape, y_shape;
  PoolAxis rows, columns;
  float weight;
};

class AvgPoolCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const AvgPool pool(binding.query);
    if (binding.pass == Pass::BACKWARD)
      return [pool, dy = binding.data<float>(Port::DY), dx = binding.data<float>(Port::DX)] {
        pool.backward(dy, dx);
      };
    return [pool, x = binding.data<float>(Port::X), y = binding.data<float>(Port::Y)] { pool.forward(x, y); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> avgpool_cpu_kernels();
std::unique_ptr<OpKernels> avgpool_cpu_kernels() { return std::make_unique<AvgPoolCpuKernels>(); }

}  // namespace tr
