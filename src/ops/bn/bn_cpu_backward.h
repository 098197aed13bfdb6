/// BACKWARD of batch normalization on the CPU.
#pragma once

#include "ops/bn/bn.h"
#include "ops/bn/bn_map.h"

namespace tr::batch_norm {

/// Where backward takes the ReLU mask from.
enum class Mask : uint8_t { NONE, FROM_X, FROM_Y };

struct BackwardMaps {
  const float *x, *dy, *y;
  float *dx0, *dx1;  // null where not wanted
};

/// Sums of g and g*(x - mean), g being dy under the mask; writes g to dx1 where there is one.
template <Mask MASK, bool STORE>
auto gradient_terms(const BackwardMaps& maps, const Columns& columns) {
  return [x = maps.x, dy = maps.dy, y = maps.y, dx1 = maps.dx1, mean = columns.mean, scale = columns.scale,
          bias = columns.bias](int64_t, int64_t i, int64_t column) {
    const float deviation = x[i] - mean[column];
    float g = dy[i];
    if constexpr (MASK == Mask::FROM_X) g = deviation * scale[column] + bias[column] <= 0.0f ? 0.0f : g;
    if constexpr (MASK == Mask::FROM_Y) g = y[i] <= 0.0f ? 0.0f : g;
    if constexpr (STORE) dx1[i] = g;
    return Terms{g, g * deviation};
  };
}

template <Mask MASK, bool STORE>
void sum_gradients(const Rows& map, const BackwardMaps& maps, const Scratch& scratch) {
  const auto terms = gradient_terms<MASK, STORE>(maps, scratch.columns);
  each_chunk(map.chunks, Walk::UP, [&](int64_t chunk) {
    double folded0[SLAB], folded1[SLAB];
    double* sum0 = map.fold == 1 ? scratch.partials.at(chunk, 0) : folded0;
    double* sum1 = map.fold == 1 ? scratch.partials.at(chunk, 1) : folded1;
    std::fill_n(sum0, map.columns, 0.0);
    std::fill_n(sum1, map.columns, 0.0);
    sum_chunk(map, chunk, terms,
              [&](int64_t, int64_t slab, int64_t width, int64_t, const float* a, const float* b) {
#pragma omp simd
                for (int64_t j = 0; j < width; ++j) {
                  sum0[slab + j] += double{a[j]};
                  sum1[slab + j] += double{b[j]};
                }
              });
    if (map.fold == 1) return;
    for (int64_t c = 0; c < map.channels; ++c) {
      double total0 = 0.0, total1 = 0.0;
      for (int64_t j = c; j < map.columns; j += map.channels) {
        total0 += folded0[j];
        total1 += folded1[j];
      }
      scratch.partials.at(chunk, 0)[c] = total0;
      scratch.partials.at(chunk, 1)[c] = total1;
    }
  });
}

template <Mask MASK>
void input_gradient(const Rows& map, const Columns& columns, const BackwardMaps& maps) {
  // dx1 already holds the masked gradient.
  const float* gradient = maps.dx1 != nullptr ? maps.dx1 : maps.dy;
  write_map(
      map, maps.dx0,
      [x = maps.x, y = maps.y, gradient, mean = columns.mean, scale = columns.scale, bias = columns.bias,
       x_factor = columns.x_factor, constant = columns.constant](int64_t i, int64_t column) {
        const float deviation = x[i] - mean[column];
        float g = gradient[i];
        if constexpr (MASK == Mask::FROM_X) g = deviation * scale[column] + bias[column] <= 0.0f ? 0.0f : g;
        if constexpr (MASK == Mask::FROM_Y) g = y[i] <= 0.0f ? 0.0f : g;
        return scale[column] * g + (x_factor[column] * deviation + constant[column]);
      });
}

template <Mask MASK>
Call prepare_backward(const Binding& binding, const Rows& map, const Scratch& scratch) {
  struct Backward {
    Rows map;
    Scratch scratch;
    BackwardMaps maps;
    const float *weight, *bias, *mean, *inverse_std;
    float *weight_grad, *bias_grad;
    double inverse_pixels;  ///< 0 where the statistics are not the batch's

    void finish_sums(int64_t first, int64_t last) const {
      const int64_t width = last - first;
      double sum_g[SLAB] = {}, sum_gx[SLAB] = {};
      if (map.rows > 0) {
        for (int64_t chunk = 0; chunk < map.chunks; ++chunk) {
          const double *a = scratch.partials.at(chunk, 0) + first, *b = scratch.partials.at(chunk, 1) + first;
#pragma omp simd
          for (int64_t j = 0; j < width; ++j) {
            sum_g[j] += a[j];
            sum_gx[j] += b[j];
          }
        }
      }
      add_tail(first, width, sum_g, sum_gx);
      const Columns& columns = scratch.columns;
      for (int64_t c = first; c < last; ++c) {
        const double g = sum_g[c - first], gx = sum_gx[c - first], inverse = double{inverse_std[c]};
        const double scale = double{weight[c]} * inverse;
        weight_grad[c] = static_cast<float>(gx * inverse);
        bias_grad[c] = static_cast<float>(g);
        columns.set(map, columns.x_factor, c,
                    static_cast<float>(-scale * inverse * inverse * gx * inverse_pixels));
        columns.set(map, columns.constant, c, static_cast<float>(-scale * g * inverse_pixels));
      }
    }
    void add_tail(int64_t first, int64_t width, double* sum_g, double* sum_gx) const {
      const auto add = [&](auto terms) {
        for (int64_t pixel = 0; pixel < map.tail; ++pixel)
          for (int64_t j = 0; j < width; ++j) {
            const int64_t c = first + j;
            const Terms t = terms(0, map.tail_offset() + pixel * map.channels + c, c);
            sum_g[j] += double{t.a};
            sum_gx[j] += double{t.b};
          }
      };
      if (maps.dx1 != nullptr) {
        add(gradient_terms<MASK, true>(maps, scratch.columns));
      } else {
        add(gradient_terms<MASK, false>(maps, scratch.columns));
      }
    }
    void operator()() const {
      const Columns& columns = scratch.columns;
      for (int64_t c = 0; c < map.channels; ++c) {
        columns.set(map, columns.mean, c, mean[c]);
        columns.set(map, columns.scale, c, weight[c] * inverse_std[c]);
        if (bias != nullptr) columns.set(map, columns.bias, c, bias[c]);
      }
      if (maps.dx1 != nullptr) {
        sum_gradients<MASK, true>(map, maps, scratch);
      } else {
        sum_gradients<MASK, false>(map, maps, scratch);
      }
      each_channel_block(map.channels, map.chunks,
                         [&](int64_t first, int64_t last) { finish_sums(first, last); });
      if (maps.dx0 == nullptr) return;
      if (maps.dx1 != nullptr) {
        input_gradient<Mask::NONE>(map, columns, maps);
      } else {
        input_gradient<MASK>(map, columns, maps);
      }
    }
  };
  const auto optional = [&](Port port, int index = 0) {
    return binding.has(port, index) ? binding.data<float>(port, index) : nullptr;
  };
  return Backward{map,
                  scratch,
                  {binding.data<float>(Port::X), binding.data<float>(Port::DY), optional(Port::Y),
                   optional(Port::DX, 0), optional(Port::DX, 1)},
                  binding.data<float>(Port::PARAM, 0),
                  optional(Port::PARAM, 1),
                  binding.data<float>(Port::SAVED, 0),
                  binding.data<float>(Port::SAVED, 1),
                  binding.data<float>(Port::PARAM_GRAD, 0),
                  binding.data<float>(Port::PARAM_GRAD, 1),
                  BnAttributes(binding.query.attrs).frozen ? 0.0 : 1.0 / static_cast<double>(map.pixels)};
}

}  // namespace tr::batch_norm
