// Batch normalization, memory bound: FORWARD reads x twice and writes y once, BACKWARD reads x and dy twice.
#include <omp.h>

#include <cmath>
#include <numeric>

#include "ops/bn/bn.h"
#include "ops/support/cpu_loops.h"

namespace tr {
namespace {

constexpr int64_t VECTOR = 16;  // floats of the widest register
constexpr int64_t LEAST_COLUMNS = 64;
constexpr int64_t SLAB = 128;       // columns whose sums stay on the stack
constexpr int64_t BLOCK_ROWS = 32;  // rows summed in FP32 before double takes over
constexpr int64_t CHUNK_VALUES = 1 << 15;

/// The map as rows of `columns` values, `fold` pixels side by side where channels are few, so that loops over
/// columns fill vector registers. Pixels past the last whole row are the tail.
struct Rows {
  explicit Rows(const Shape& x) : channels(x.c()), pixels(x.n() * x.h() * x.w()) {
    if (channels < LEAST_COLUMNS) {
      fold = (LEAST_COLUMNS + channels - 1) / channels;
      const int64_t aligned = round_up(fold, VECTOR / std::gcd(VECTOR, channels));
      if (aligned * channels <= SLAB) fold = aligned;
    }
    columns = fold * channels;
    rows = pixels / fold;
    tail = pixels % fold;
    chunks = fixed_chunks(rows, std::max(2 * BLOCK_ROWS, CHUNK_VALUES / columns));
  }
  int64_t first(int64_t chunk) const { return rows * chunk / chunks; }
  int64_t tail_offset() const { return rows * columns; }

  int64_t channels, pixels, fold = 1, columns, rows, tail, chunks;
};

/// Two doubles per channel from each chunk: (mean, sum of squares about it) or (sum g, sum g*(x - mean)).
struct Partials {
  static int64_t bytes(const Rows& map) { return map.chunks * 2 * map.channels * int64_t{sizeof(double)}; }
  double* at(int64_t chunk, int64_t which) const { return data + (2 * chunk + which) * channels; }
  double* data;
  int64_t channels;
};

/// What differs from column to column: per-channel values repeated `fold` times.
struct Columns {
  Columns(const Rows& map, WorkspaceSlices& slices) {
    for (float** values : {&mean, &scale, &bias, &x_factor, &constant})
      *values = reinterpret_cast<float*>(slices.take(map.columns * int64_t{sizeof(float)}));
  }
  void set(const Rows& map, float* values, int64_t channel, float value) const {
    for (int64_t i = channel; i < map.columns; i += map.channels) values[i] = value;
  }
  float *mean, *scale, *bias;  // y = (x - mean) * scale + bias
  float *x_factor, *constant;  // dx = scale * g + (x_factor * (x - mean) + constant)
};

/// The walk through the workspace, for offer() and prepare() alike.
struct Scratch {
  Scratch(const Rows& map, WorkspaceSlices slices)
      : partials{reinterpret_cast<double*>(slices.take(Partials::bytes(map))), map.channels},
        columns(map, slices),
        bytes(slices.bytes()) {}
  Partials partials;
  Columns columns;
  int64_t bytes;
};

/// body(chunk) for every chunk. The second pass over a map walks each thread's chunks backwards, to begin
/// with what the first pass left in the caches.
enum class Walk : uint8_t { UP, DOWN };
template <typename Body>
void each_chunk(int64_t chunks, Walk walk, Body body) {
#pragma omp parallel if (chunks > 1)
  {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t first = chunks * thread / threads, last = chunks * (thread + 1) / threads;
    for (int64_t i = first; i < last; ++i) body(walk == Walk::UP ? i : first + last - 1 - i);
  }
}

/// body(first, last) for blocks of channels, in parallel.
template <typename Body>
void each_channel_block(int64_t channels, int64_t chunks, Body body) {
#pragma omp parallel for schedule(static) if (channels * chunks > 8192)
  for (int64_t first = 0; first < channels; first += SLAB) body(first, std::min(first + SLAB, channels));
}

/// Sums over the columns' blocks of one chunk, handed to merge(slab, width, rows, sum0, sum1): sums of
/// term(offset of a value, its column) -> (a, b).
template <typename Term, typename Merge>
void sum_chunk(const Rows& map, int64_t chunk, Term term, Merge merge) {
  const int64_t end = map.first(chunk + 1);
  for (int64_t row = map.first(chunk); row < end; row += BLOCK_ROWS) {
    const int64_t rows = std::min(BLOCK_ROWS, end - row);
    for (int64_t slab = 0; slab < map.columns; slab += SLAB) {
      const int64_t width = std::min(SLAB, map.columns - slab);
      alignas(64) float sum0[SLAB], sum1[SLAB];
      std::fill_n(sum0, width, 0.0f);
      std::fill_n(sum1, width, 0.0f);
      const int64_t base = row * map.columns + slab;
      int64_t r = 0;
      for (; r + 4 <= rows; r += 4) {
        const int64_t o0 = base + r * map.columns, o1 = o0 + map.columns, o2 = o1 + map.columns,
                      o3 = o2 + map.columns;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          const auto [a0, b0] = term(base + j, o0 + j, slab + j);
          const auto [a1, b1] = term(base + j, o1 + j, slab + j);
          const auto [a2, b2] = term(base + j, o2 + j, slab + j);
          const auto [a3, b3] = term(base + j, o3 + j, slab + j);
          sum0[j] += (a0 + a1) + (a2 + a3);
          sum1[j] += (b0 + b1) + (b2 + b3);
        }
      }
      for (; r < rows; ++r) {
        const int64_t offset = base + r * map.columns;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
          const auto [a, b] = term(base + j, offset + j, slab + j);
          sum0[j] += a;
          sum1[j] += b;
        }
      }
      merge(base, slab, width, rows, sum0, sum1);
    }
  }
}

/// Terms of one value; a struct, which vectorizes.
struct Terms {
  float a, b;
};

/// Mean and sum of squared deviations of one chunk per channel. Each block sums deviations from its own first
/// row, one of the values averaged, so no mean is large beside them; blocks merge in double (Chan et al.
/// 1979).
void chunk_statistics(const Rows& map, const float* x, const Partials& partials, int64_t chunk) {
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
void merge_statistics(const Rows& map, const float* x, const Partials& partials, int64_t first, int64_t last,
                      double* mean, double* squares) {
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
void normalize_rows(const Columns& columns, int64_t width, int64_t offset, int64_t rows, const float* x,
                    const float* x1, float* y) {
  const float *mean = columns.mean, *scale = columns.scale, *bias = columns.bias;
  for (int64_t r = 0; r < rows; ++r, offset += width) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      float value = (x[offset + j] - mean[j]) * scale[j] + bias[j];
      if constexpr (RESIDUAL) value += x1[offset + j];
      if constexpr (RELU) value = value <= 0.0f ? 0.0f : value;
      y[offset + j] = value;
    }
  }
}

template <bool RELU, bool RESIDUAL>
void normalize(const Rows& map, const Columns& columns, const float* x, const float* x1, float* y) {
  each_chunk(map.chunks, Walk::DOWN, [&](int64_t chunk) {
    const int64_t first = map.first(chunk);
    normalize_rows<RELU, RESIDUAL>(columns, map.columns, first * map.columns, map.first(chunk + 1) - first, x,
                                   x1, y);
  });
  if (map.tail > 0)
    normalize_rows<RELU, RESIDUAL>(columns, map.tail * map.channels, map.tail_offset(), 1, x, x1, y);
}

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
void input_gradient_rows(const Columns& columns, const BackwardMaps& maps, int64_t width, int64_t offset,
                         int64_t rows) {
  const float *mean = columns.mean, *scale = columns.scale, *bias = columns.bias;
  const float *x_factor = columns.x_factor, *constant = columns.constant;
  // dx1 already holds the masked gradient.
  const float *x = maps.x, *y = maps.y, *dy = maps.dx1 != nullptr ? maps.dx1 : maps.dy;
  float* dx = maps.dx0;
  for (int64_t r = 0; r < rows; ++r, offset += width) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const float deviation = x[offset + j] - mean[j];
      float g = dy[offset + j];
      if constexpr (MASK == Mask::FROM_X) g = deviation * scale[j] + bias[j] <= 0.0f ? 0.0f : g;
      if constexpr (MASK == Mask::FROM_Y) g = y[offset + j] <= 0.0f ? 0.0f : g;
      dx[offset + j] = scale[j] * g + (x_factor[j] * deviation + constant[j]);
    }
  }
}

template <Mask MASK>
void input_gradient(const Rows& map, const Columns& columns, const BackwardMaps& maps) {
  each_chunk(map.chunks, Walk::DOWN, [&](int64_t chunk) {
    const int64_t first = map.first(chunk);
    input_gradient_rows<MASK>(columns, maps, map.columns, first * map.columns, map.first(chunk + 1) - first);
  });
  if (map.tail > 0) input_gradient_rows<MASK>(columns, maps, map.tail * map.channels, map.tail_offset(), 1);
}

using Normalize = void (*)(const Rows&, const Columns&, const float*, const float*, float*);
Normalize normalize_kernel(const BnAttributes& bn) {
  if (bn.residual) return bn.relu ? normalize<true, true> : normalize<false, true>;
  return bn.relu ? normalize<true, false> : normalize<false, false>;
}

Call prepare_forward(const Binding& binding, const Rows& map, const Scratch& scratch) {
  struct Forward {
    BnAttributes bn;
    Rows map;
    Scratch scratch;
    Normalize normalize;
    const float *x, *x1, *weight, *bias, *prev_mean, *prev_var;
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
    void set_columns(int64_t c, float mean, float inverse_std) const {
      const Columns& columns = scratch.columns;
      columns.set(map, columns.mean, c, mean);
      columns.set(map, columns.scale, c, weight[c] * inverse_std);
      columns.set(map, columns.bias, c, bias[c]);
    }
    void operator()() const {
      if (next_mean != nullptr) {
        each_chunk(map.chunks, Walk::UP,
                   [&](int64_t chunk) { chunk_statistics(map, x, scratch.partials, chunk); });
        each_channel_block(map.channels, map.chunks,
                           [&](int64_t first, int64_t last) { use_batch_statistics(first, last); });
      } else {
        for (int64_t c = 0; c < map.channels; ++c)
          set_columns(c, prev_mean[c], static_cast<float>(1.0 / std::sqrt(double{prev_var[c]} + bn.epsilon)));
      }
      normalize(map, scratch.columns, x, x1, y);
    }
  };
  const BnAttributes bn(binding.query.attrs);
  const bool training = binding.pass == Pass::FORWARD;
  const auto data = [&](Port port, int index, bool wanted) {
    return wanted ? binding.data<float>(port, index) : nullptr;
  };
  return Forward{bn,
                 map,
                 scratch,
                 normalize_kernel(bn),
                 data(Port::X, 0, true),
                 data(Port::X, 1, bn.residual),
                 data(Port::PARAM, 0, true),
                 data(Port::PARAM, 1, true),
                 data(Port::STATE_PREV, 0, true),
                 data(Port::STATE_PREV, 1, true),
                 data(Port::Y, 0, true),
                 data(Port::STATE_NEXT, 0, training),
                 data(Port::STATE_NEXT, 1, training),
                 data(Port::SAVED, 0, training),
                 data(Port::SAVED, 1, training)};
}

template <Mask MASK>
Call prepare_backward(const Binding& binding, const Rows& map, const Scratch& scratch) {
  struct Backward {
    Rows map;
    Scratch scratch;
    BackwardMaps maps;
    const float *weight, *bias, *mean, *inverse_std;
    float *weight_grad, *bias_grad;

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
      const double inverse_pixels = 1.0 / static_cast<double>(map.pixels);
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
                  binding.data<float>(Port::PARAM_GRAD, 1)};
}

class BnCpuKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    std::string declined = bn_declines(query, pass);
    if (declined.empty()) declined = cpu_declines(query.dtype);
    return {declined, Scratch(Rows(query.x[0]), WorkspaceSlices()).bytes};
  }

  Call prepare(const Binding& binding, KernelContext&) const override {
    const Rows map(binding.query.x[0]);
    const Scratch scratch(map, WorkspaceSlices(binding.workspace));
    if (binding.pass != Pass::BACKWARD) return prepare_forward(binding, map, scratch);
    const BnAttributes bn(binding.query.attrs);
    if (!bn.relu) return prepare_backward<Mask::NONE>(binding, map, scratch);
    return bn.residual ? prepare_backward<Mask::FROM_Y>(binding, map, scratch)
                       : prepare_backward<Mask::FROM_X>(binding, map, scratch);
  }
};

}  // namespace

std::unique_ptr<OpKernels> bn_cpu_kernels();
std::unique_ptr<OpKernels> bn_cpu_kernels() { return std::make_unique<BnCpuKernels>(); }

}  // namespace tr
