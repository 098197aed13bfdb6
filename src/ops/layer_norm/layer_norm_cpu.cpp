#include <cmath>

#include "ops/layer_norm/layer_norm.h"
#include "ops/support/channel_sums.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

struct Forward {
  void find_statistics(const float* row, float& row_mean, float& row_inverse_std) const {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < channels; ++c) sum += row[c];
    const float center = sum / static_cast<float>(channels);
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < channels; ++c) squares += (row[c] - center) * (row[c] - center);
    row_mean = center;
    row_inverse_std = 1.0f / std::sqrt(squares / static_cast<float>(channels) + epsilon);
  }

  void normalize(const float* row, float row_mean, float row_inverse_std, float* to) const {
    const float *w = weight, *b = bias;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = (row[c] - row_mean) * row_inverse_std * w[c] + b[c];
  }

  void operator()() const {
    parallel_rows(rows, channels, [this](int64_t row) {
      const float* from = x + row * channels;
      float row_mean = 0.0f, row_inverse_std = 0.0f;
      if (known) {
        row_mean = mean[row];
        row_inverse_std = inverse_std[row];
      } else {
        find_statistics(from, row_mean, row_inverse_std);
      }
      normalize(from, row_mean, row_inverse_std, y + row * channels);
      if (known || mean == nullptr) return;
      mean[row] = row_mean;
      inverse_std[row] = row_inverse_std;
    });
  }

  int64_t rows, channels;
  float epsilon;
  const float *x, *weight, *bias;
  float* y;
  float *mean, *inverse_std;  ///< null in inference
  bool known;                 ///< they are read instead of found
};

struct Backward {
  /// With g = dy weight and n = (x - mean) inverse_std: dx = inverse_std (g - mean(g) - n mean(g n)). Adds
  /// the row's terms of the gradients of weight and bias.
  void do_row(int64_t row, float* weight_terms, float* bias_terms) const {
    const float *xs = x + row * channels, *gradient = dy + row * channels, *w = weight;
    const float center = mean[row], inverse = inverse_std[row];
    float sum_g = 0.0f, sum_gn = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gn)
    for (int64_t c = 0; c < channels; ++c) {
      const float n = (xs[c] - center) * inverse, g = gradient[c] * w[c];
      weight_terms[c] += gradient[c] * n;
      bias_terms[c] += gradient[c];
      sum_g += g;
      sum_gn += g * n;
    }
    if (dx == nullptr) return;
    const float mean_g = sum_g / static_cast<float>(channels),
                mean_gn = sum_gn / static_cast<float>(channels);
    float* to = dx + row * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c)
      to[c] = inverse * (gradient[c] * w[c] - mean_g - (xs[c] - center) * inverse * mean_gn);
  }

  void operator()() const {
    sums.run([this](int64_t row, float* block) { do_row(row, block, block + channels); },
             [this](int64_t i, float total) {
               (i < channels ? weight_grad[i] : bias_grad[i - channels]) = total;
             });
  }

  ChannelSums sums;
  int64_t channels;
  const float *x, *dy, *weight, *mean, *inverse_std;
  float *dx, *weight_grad, *bias_grad;
};

class LayerNormCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    WorkspaceSlices slices;
    if (pass == Pass::BACKWARD) ChannelSums(layer_norm_rows(query), query.x[0].c(), 2, slices);
    return {cpu_declines(query.dtype), slices.bytes()};
  }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const OpQuery& query = binding.query;
    const int64_t rows = layer_norm_rows(query), channels = query.x[0].c();
    const auto optional = [&](Port port, int index = 0) {
      return binding.has(port, index) ? binding.data<float>(port, index) : nullptr;
    };
    if (binding.pass == Pass::BACKWARD) {
      WorkspaceSlices slices(binding.workspace);
      return Backward{ChannelSums(rows, channels, 2, slices),
                      channels,
                      binding.data<float>(Port::X),
                      binding.data<float>(Port::DY),
                      binding.data<float>(Port::PARAM, 0),
                      binding.data<float>(Port::SAVED, 0),
                      binding.data<float>(Port::SAVED, 1),
                      optional(Port::DX),
                      binding.data<float>(Port::PARAM_GRAD, 0),
                      binding.data<float>(Port::PARAM_GRAD, 1)};
    }
    return Forward{rows,
                   channels,
                   static_cast<float>(query.attrs.number("epsilon")),
                   binding.data<float>(Port::X),
                   binding.data<float>(Port::PARAM, 0),
                   binding.data<float>(Port::PARAM, 1),
                   binding.data<float>(Port::Y),
                   optional(Port::SAVED, 0),
                   optional(Port::SAVED, 1),
                   binding.pass == Pass::RECOMPUTE};
  }
};

}  // namespace

std::unique_ptr<OpKernels> layer_norm_cpu_kernels();
std::unique_ptr<OpKernels> layer_norm_cpu_kernels() { return std::make_unique<LayerNormCpuKernels>(); }

}  // namespace tr
