#include "ops/support/cpu_loops.h"
#include "ops/support/pool.h"

namespace tr {
namespace {

constexpr int64_t SLAB = 64;  // channels whose running maxima stay on the stack

/// One pixel of the output from a window that lies wholly inside, its size known to the compiler.
template <int KERNEL, bool SAVE>
void whole_window(const float* x, int64_t row, int64_t channels, float* y, uint8_t* place) {
#pragma omp simd
  for (int64_t c = 0; c < channels; ++c) {
    float best = x[c];
    int at = 0;
#pragma GCC unroll 16
    for (int k = 1; k < KERNEL * KERNEL; ++k) {
      const float value = x[k / KERNEL * row + k % KERNEL * channels + c];
      const bool take = value > best || value != value;
      best = take ? value : best;
      at = take ? k : at;
    }
    y[c] = best;
    if constexpr (SAVE) place[c] = static_cast<uint8_t>(at);
  }
}

struct MaxPool {
  explicit MaxPool(const OpQuery& query)
      : x_shape(query.x[0]),
        y_shape(query.y),
        rows(PoolAttributes(query.attrs), x_shape.h(), y_shape.h()),
        columns(PoolAttributes(query.attrs), x_shape.w(), y_shape.w()) {}

  /// A window that the border cuts, or one of an uncommon size.
  template <bool SAVE>
  void any_window(const float* image, int64_t p, int64_t q, float* y, uint8_t* place) const {
    const int64_t channels = x_shape.c(), row = x_shape.w() * channels;
    for (int64_t slab = 0; slab < channels; slab += SLAB) {
      const int64_t width = std::min(SLAB, channels - slab);
      float best[SLAB];
      int32_t at[SLAB];
      bool first = true;
      for (int64_t h = rows.first_input(p); h < rows.end_input(p); ++h) {
        for (int64_t w = columns.first_input(q); w < columns.end_input(q); ++w) {
          const float* values = image + h * row + w * channels + slab;
          const int32_t k = static_cast<int32_t>((h - rows.start(p)) * rows.kernel + (w - columns.start(q)));
          if (first) {
            std::copy_n(values, width, best);
            std::fill_n(at, width, k);
            first = false;
            continue;
          }
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) {
            const float value = values[c];
            const bool take = value > best[c] || value != value;
            best[c] = take ? value : best[c];
            at[c] = take ? k : at[c];
          }
        }
      }
      std::copy_n(best, width, y + slab);
      if constexpr (SAVE) {
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) place[slab + c] = static_cast<uint8_t>(at[c]);
      }
    }
  }

  template <bool SAVE>
  void forward(const float* x, float* y, uint8_t* place) const {
    const int64_t channels = x_shape.c(), row = x_shape.w() * channels;
    const int64_t lines = y_shape.n() * y_shape.h();
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t p = line % y_shape.h();
      const float* image = x + line / y_shape.h() * x_shape.h() * row;
      for (int64_t q = 0; q < y_shape.w(); ++q) {
        const int64_t out = (line * y_shape.w() + q) * channels;
        uint8_t* out_place = SAVE ? place + out : nullptr;
        const float* corner = image + rows.start(p) * row + columns.start(q) * channels;
        const bool whole = rows.inside(p) && columns.inside(q);
        if (whole && rows.kernel == 2) {
          whole_window<2, SAVE>(corner, row, channels, y + out, out_place);
        } else if (whole && rows.kernel == 3) {
          whole_window<3, SAVE>(corner, row, channels, y + out, out_place);
        } else {
          any_window<SAVE>(image, p, q, y + out, out_place);
        }
      }
    }
  }

  /// Each input gathers from the windows that hold it, so that no two threads write one place.
  void backward(const float* dy, const uint8_t* place, float* dx) const {
    const int64_t channels = x_shape.c();
    const int64_t lines = x_shape.n() * x_shape.h();
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t h = line % x_shape.h(), image = line / x_shape.h();
      for (int64_t w = 0; w < x_shape.w(); ++w) {
        float* out = dx + (line * x_shape.w() + w) * channels;
        bool first = true;
        for (int64_t p = rows.first_output(h); p < rows.end_output(h); ++p) {
          for (int64_t q = columns.first_output(w); q < columns.end_output(w); ++q) {
            const int64_t window = ((image * y_shape.h() + p) * y_shape.w() + q) * channels;
            const auto k = static_cast<uint8_t>((h - rows.start(p)) * rows.kernel + (w - columns.start(q)));
            const float* dy_window = dy + window;
            const uint8_t* place_window = place + window;
            if (first) {
#pragma omp simd
              for (int64_t c = 0; c < channels; ++c) out[c] = place_window[c] == k ? dy_window[c] : 0.0f;
              first = false;
            } else {
#pragma omp simd
              for (int64_t c = 0; c < channels; ++c) out[c] += place_window[c] == k ? dy_window[c] : 0.0f;
            }
          }
        }
        if (first) std::fill_n(out, channels, 0.0f);
      }
    }
  }

  Shape x_shape, y_shape;
  PoolAxis rows, columns;
};

class MaxPoolCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cpu_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const MaxPool pool(binding.query);
    if (binding.pass == Pass::BACKWARD)
      return [pool, dy = binding.data<float>(Port::DY), place = binding.data<uint8_t>(Port::SAVED),
              dx = binding.data<float>(Port::DX)] { pool.backward(dy, place, dx); };
    const float* x = binding.data<float>(Port::X);
    float* y = binding.data<float>(Port::Y);
    if (binding.pass == Pass::INFERENCE) return [pool, x, y] { pool.forward<false>(x, y, nullptr); };
    return [pool, x, y, place = binding.data<uint8_t>(Port::SAVED)] { pool.forward<true>(x, y, place); };
  }
};

}  // namespace

std::unique_ptr<OpKernels> maxpool_cpu_kernels();
std::unique_ptr<OpKernels> maxpool_cpu_kernels() { return std::make_unique<MaxPoolCpuKernels>(); }

}  // namespace tr
