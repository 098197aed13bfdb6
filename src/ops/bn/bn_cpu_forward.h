/// FORWARD, INFERENCE and RECOMPUTE of batch normalization on the CPU.
#pragma once

#include <cmath>

#include "ops/bn/bn.h"
#include "ops/bn/bn_map.h"

namespace tr::batch_norm {

/// Mean and sum of squared deviations of one chunk per channel. Each block sums deviations from its own first
/// row, one of the values averaged, so no mean is large beside them; blocks merge in double (Chan et al.
/// 1979).
inline void chunk_statistics(const Rows& map, const float* x, const Partials& partials, int64_t chunk) {
  double folded_mean[SLAB], folded_squares[SLAB];
  double* mean = map.fold == 1 ? partials.at(chunk, 0) : folded_mean;
  double* squares = map.fold == 1 ? partials.at(chunk, 1) : folded_squares;
  std::fill_n(mean, map.columns, 0.0);
  std::fill_n(squares, map.columns, 0.0);
  const int64_t first_value = map.first(chunk) * map.columns;
  sum_chunk(
      map, chunk,
      [x](int64_t first, int64_t i, int64_t) {
        const float deviation = x[i] - x[first];
        return Terms{deviation, deviation * deviation};
      },
      [&](int64_t base, int64_t slab, int64_t width, int64_t rows, const float* sum,
          const float* sum_squares) {
        const double before = static_cast<double>((base - slab - first_value) / map.columns);
        const double count = static_cast<double>(rows), total = before + count;
        const double share = count / total, cross = before * share, inverse = 1.0 / count;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          const double offset = double{sum[j]} * inverse;
          const double delta = double{x[base + j]} + offset - mean[slab + j];
          mean[slab + j] += delta * share;
          squares[slab + j] += double{sum_squares[j]} - double{sum[j]} * offset + delta * delta * cross;
        }
      });
  if (map.fold == 1) return;
  const double rows = static_cast<double>(map.first(chunk + 1) - map.first(chunk));
  for (int64_t c = 0; c < map.channels; ++c) {
    double center = 0.0, total = 0.0;
    for (int64_t j = c; j < map.columns; j += map.channels) center += folded_mean[j];
    center /= static_cast<double>(map.fold);
    for (int64_t j = c; j < map.columns; j += map.channels) {
      const double delta = folded_mean[j] - center;
      total += folded_squares[j] + rows * delta * delta;
    }
    partials.at(chunk, 0)[c] = center;
    partials.at(chunk, 1)[c] = total;
  }
}

/// Statistics of the whole map for channels [first, last) of at most SLAB: chunks in order, then the tail.
inline void merge_statistics(const Rows& map, const float* x, const Partials& partials, int64_t first,
                             int64_t last, double* mean, double* squares) {
  const int64_t width = last - first;
  std::fill_n(mean, width, 0.0);
  std::fill_n(squares, width, 0.0);
  double before = 0.0;
  const auto merge = [&](double count, auto other_mean, auto other_squares) {
    const double share = count / (before + count), cross = before * share;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const double delta = other_mean(j) - mean[j];
      mean[j] += delta * share;
      squares[j] += other_squares(j) + delta * delta * cross;
    }
    before += count;
  };
  if (map.rows > 0) {
    for (int64_t chunk = 0; chunk < map.chunks; ++chunk) {
      const double* chunk_mean = partials.at(chunk, 0) + first;
      const double* chunk_squares = partials.at(chunk, 1) + first;
      merge(
          static_cast<double>((map.first(chunk + 1) - map.first(chunk)) * map.fold),
          [=](int64_t j) { return chunk_mean[j]; }, [=](int64_t j) { return chunk_squares[j]; });
    }
  }
  for (int64_t pixel = 0; pixel < map.tail; ++pixel) {
    const float* values = x + map.tail_offset() + pixel * map.channels + first;
    merge(
        1.0, [=](int64_t j) { return double{values[j]}; }, [](int64_t) { return 0.0; });
  }
}

template <bool RELU, bool RESIDUAL>
void normalize(const Rows& map, const Columns& columns, const float* x, const float* x1, float* y) {
  write_map(map, y,
            [=, mean = columns.mean, scale = columns.scale, bias = columns.bias](int64_t i, int64_t column) {
              float value = (x[i] - mean[column]) * scale[column] + bias[column];
              if constexpr (RESIDUAL) value += x1[i];
              if constexpr (RELU) value = value <= 0.0f ? 0.0f : value;
              return value;
            });
}

using Normalize = void (*)(const Rows&, const Columns&, const float*, const float*, float*);
inline Normalize normalize_kernel(const BnAttributes& attrs) {
  if (attrs.residual) return attrs.relu ? normalize<true, true> : normalize<false, true>;
  return attrs.relu ? normalize<true, false> : normalize<false, false>;
}

inline Call prepare_forward(const Binding& binding, const Rows& map, const Scratch& scratch) {
  struct Forward {
    BnAttributes bn;
    Rows map;
    Scratch scratch;
    Normalize normalize;
    Pass pass;
    const float *x, *x1, *weight, *bias, *prev_mean, *prev_var, *eq_scale, *eq_bias;
    float *y, *next_mean, *next_var, *saved_mean, *saved_inverse_std;

    void use_batch_statistics(int64_t first, int64_t last) const {
      double mean[SLAB], squares[SLAB];
      merge_statistics(map, x, scratch.partials, first, last, mean, squares);
      const double pixels = static_cast<double>(map.pixels);
      for (int64_t c = first; c < last; ++c) {
        const double center = mean[c - first], sum = squares[c - first];
        next_mean[c] = static_cast<float>((1.0 - bn.momentum) * double{prev_mean[c]} + bn.momentum * center);
        next_var[c] = static_cast<float>((1.0 - bn.momentum) * double{prev_var[c]} +
                                         bn.momentum * sum / (pixels - 1.0));
        saved_mean[c] = static_cast<float>(center);
        saved_inverse_std[c] = static_cast<float>(1.0 / std::sqrt(sum / pixels + bn.epsilon));
        set_columns(c, saved_mean[c], saved_inverse_std[c]);
      }
    }
    void use_running_statistics() const {
      for (int64_t c = 0; c < map.channels; ++c) {
        next_mean[c] = saved_mean[c] = prev_mean[c];
        next_var[c] = prev_var[c];
        saved_inverse_std[c] = static_cast<float>(1.0 / std::sqrt(double{prev_var[c]} + bn.epsilon));
        set_columns(c, saved_mean[c], saved_inverse_std[c]);
      }
    }
    void set_columns(int64_t c, float mean, float inverse_std) const {
      const Columns& columns = scratch.columns;
      columns.set(map, columns.mean, c, mean);
      columns.set(map, columns.scale, c, weight[c] * inverse_std);
      columns.set(map, columns.bias, c, bias[c]);
    }
    void set_folded_columns(int64_t c) const {
      const Columns& columns = scratch.columns;
      columns.set(map, columns.mean, c, 0.0f);
      columns.set(map, columns.scale, c, eq_scale[c]);
      columns.set(map, columns.bias, c, eq_bias[c]);
    }
    void operator()() const {
      if (pass == Pass::RECOMPUTE) {
        for (int64_t c = 0; c < map.channels; ++c) set_columns(c, saved_mean[c], saved_inverse_std[c]);
      } else if (pass == Pass::FORWARD && bn.frozen) {
        use_running_statistics();
      } else if (pass == Pass::FORWARD) {
        each_chunk(map.chunks, Walk::UP,
                   [&](int64_t chunk) { chunk_statistics(map, x, scratch.partials, chunk); });
        each_channel_block(map.channels, map.chunks,
                           [&](int64_t first, int64_t last) { use_batch_statistics(first, last); });
      } else if (eq_scale != nullptr) {
        for (int64_t c = 0; c < map.channels; ++c) set_folded_columns(c);
      } else {
        for (int64_t c = 0; c < map.channels; ++c)
          set_columns(c, prev_mean[c], static_cast<float>(1.0 / std::sqrt(double{prev_var[c]} + bn.epsilon)));
      }
      normalize(map, scratch.columns, x, x1, y);
    }
  };
  const BnAttributes bn(binding.query.attrs);
  const bool training = binding.pass == Pass::FORWARD, recomputing = binding.pass == Pass::RECOMPUTE;
  const bool folded = binding.has(Port::EQUIVALENT);
  const auto data = [&](Port port, int index, bool wanted) {
    return wanted ? binding.data<float>(port, index) : nullptr;
  };
  return Forward{bn,
                 map,
                 scratch,
                 normalize_kernel(bn),
                 binding.pass,
                 data(Port::X, 0, true),
                 data(Port::X, 1, bn.residual),
                 data(Port::PARAM, 0, !folded),
                 data(Port::PARAM, 1, !folded),
                 data(Port::STATE_PREV, 0, !recomputing && !folded),
                 data(Port::STATE_PREV, 1, !recomputing && !folded),
                 data(Port::EQUIVALENT, 0, folded),
                 data(Port::EQUIVALENT, 1, folded),
                 data(Port::Y, 0, true),
                 data(Port::STATE_NEXT, 0, training),
                 data(Port::STATE_NEXT, 1, training),
                 data(Port::SAVED, 0, training || recomputing),
                 data(Port::SAVED, 1, training || recomputing)};
}

}  // namespace tr::batch_norm
