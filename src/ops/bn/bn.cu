// A thread works on 8 channels of many pixels and holds what it needs of them in registers. A block covers a
// tile of up to 64 channels, so neighbouring threads read neighbouring memory, and a slice of the pixels; all
// blocks together move through the map once, from one end to the other. Kernels that read what was just
// written begin at the end, which the cache still holds; a second pass over the same map then walks the other
// way.
#include "ops/bn/bn_cuda.h"
#include "ops/support/device.cuh"

namespace tr::bn_cuda {
namespace {

constexpr int TILE_GROUPS = 8;
constexpr int TILE_CHANNELS = TILE_GROUPS * GROUP;
constexpr int SUM_THREADS = 512;  // sums: one large block per multiprocessor leaves few partial sums to add
constexpr int MAP_THREADS = 256;
constexpr int NORMALIZE_BLOCKS = 3;  // per multiprocessor
constexpr int INPUT_GRADIENT_BLOCKS = 2;

enum class Walk : uint8_t { UP, DOWN };

/// How the blocks of a kernel divide a map. Slice s has run s of block_pixels pixels and every slices-th
/// after it.
struct Tiling {
  int pixels, channels, groups;
  int tiles, tile_groups;
  int block_pixels;  // side by side in a block
  int runs, slices;
  int steps;  // runs of the longest slice
  Walk walk;
};

int divide_up(int value, int by) { return (value + by - 1) / by; }

Tiling make_tiling(const Extent& extent, int threads, int most_blocks, int most_slices, Walk walk) {
  Tiling t{};
  t.pixels = extent.pixels;
  t.channels = extent.channels;
  t.groups = divide_up(extent.channels, GROUP);
  t.tiles = divide_up(t.groups, TILE_GROUPS);
  t.tile_groups = divide_up(t.groups, t.tiles);
  t.block_pixels = threads / t.tile_groups;
  t.runs = divide_up(t.pixels, t.block_pixels);
  const int wanted = most_blocks / t.tiles < most_slices ? most_blocks / t.tiles : most_slices;
  t.slices = wanted < 1 ? 1 : wanted < t.runs ? wanted : t.runs;
  t.steps = divide_up(t.runs, t.slices);
  t.walk = walk;
  return t;
}

/// Pixels of a slice in all, and those of them that the threads at `pixel` of the block see.
__device__ int pixels_of_slice(const Tiling& t, int slice) {
  const int runs = (t.runs - 1 - slice) / t.slices + 1;
  const bool has_last = (t.runs - 1) % t.slices == slice;
  return runs * t.block_pixels - (has_last ? t.runs * t.block_pixels - t.pixels : 0);
}
__device__ int pixels_of_thread(const Tiling& t, int slice, int pixel) {
  const int first = slice * t.block_pixels + pixel;
  return first < t.pixels ? (t.pixels - 1 - first) / (t.slices * t.block_pixels) + 1 : 0;
}

/// Where a thread is.
struct Place {
  __device__ explicit Place(const Tiling& t)
      : tile(static_cast<int>(blockIdx.x) % t.tiles),
        slice(static_cast<int>(blockIdx.x) / t.tiles),
        first_group(tile * t.tile_groups),
        block_groups(min(t.tile_groups, t.groups - first_group)),
        lane(static_cast<int>(threadIdx.x) % t.tile_groups),
        pixel(static_cast<int>(threadIdx.x) / t.tile_groups),
        group(first_group + lane),
        channel(group * GROUP),
        active(pixel < t.block_pixels && lane < block_groups) {}

  int tile, slice;
  int first_group, block_groups;  // of the block
  int lane, pixel;                // in the block
  int group, channel;             // the thread's, in the map
  bool active;                    // has channels and pixels
};

__device__ __half2 two_of(__half, float low, float high) { return __floats2half2_rn(low, high); }
__device__ __nv_bfloat162 two_of(__nv_bfloat16, float low, float high) {
  return __floats2bfloat162_rn(low, high);
}

/// Channels in 16-byte words. Padding is read, as zeros, and written.
template <typename T>
struct Vectors {
  using Element = T;
  static constexpr int WORDS = GROUP * sizeof(T) / 16;
  static constexpr int UNROLL = 4 / WORDS;
  struct Raw {
    uint4 words[WORDS];
  };

  static __device__ Raw load(const T* from, int) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) raw.words[i] = reinterpret_cast<const uint4*>(from)[i];
    return raw;
  }
  /// What is read for the last time need not stay in the cache.
  static __device__ Raw load_last(const T* from, int) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) raw.words[i] = __ldcs(reinterpret_cast<const uint4*>(from) + i);
    return raw;
  }
  static __device__ void store(T* to, const float (&values)[GROUP], int) {
    Raw raw;
    pack(values, raw);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) reinterpret_cast<uint4*>(to)[i] = raw.words[i];
  }
  static __device__ void unpack(const Raw& raw, float (&values)[GROUP]) {
    T elements[GROUP];
    memcpy(elements, &raw, sizeof raw);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) values[i] = device::to_float(elements[i]);
  }

 private:
  static __device__ void pack(const float (&values)[GROUP], Raw& raw) {
    if constexpr (sizeof(T) == sizeof(float)) {
      memcpy(&raw, values, sizeof raw);
    } else {
      decltype(two_of(T{}, 0.0f, 0.0f)) pairs[GROUP / 2];
#pragma unroll
      for (int i = 0; i < GROUP / 2; ++i) pairs[i] = two_of(T{}, values[2 * i], values[2 * i + 1]);
      memcpy(&raw, pairs, sizeof raw);
    }
  }
};

/// Channels one by one, for strides that allow no words; those past `limit` are zeros, and are not touched.
template <typename T>
struct Elements {
  using Element = T;
  static constexpr int UNROLL = 1;
  struct Raw {
    float values[GROUP];
  };

  static __device__ Raw load(const T* from, int limit) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) raw.values[i] = i < limit ? device::to_float(from[i]) : 0.0f;
    return raw;
  }
  static __device__ Raw load_last(const T* from, int limit) { return load(from, limit); }
  static __device__ void store(T* to, const float (&values)[GROUP], int limit) {
#pragma unroll
    for (int i = 0; i < GROUP; ++i)
      if (i < limit) to[i] = device::from_float<T>(values[i]);
  }
  static __device__ void unpack(const Raw& raw, float (&values)[GROUP]) {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) values[i] = raw.values[i];
  }
};

/// The thread's channels of a map.
template <typename Access>
class Reader {
 public:
  using Element = typename Access::Element;
  using Raw = typename Access::Raw;
  __device__ Reader(const ConstMap& map, const Tiling& t, const Place& at)
      : from_(static_cast<const Element*>(map.data) + at.channel),
        stride_(map.stride),
        limit_(t.channels - at.channel) {}
  __device__ Raw load(int pixel) const { return Access::load(at(pixel), limit_); }
  __device__ Raw load_last(int pixel) const { return Access::load_last(at(pixel), limit_); }

 private:
  __device__ const Element* at(int pixel) const { return from_ + static_cast<int64_t>(pixel) * stride_; }
  const Element* from_;
  int stride_, limit_;
};

template <typename Access>
class Writer {
 public:
  using Element = typename Access::Element;
  __device__ Writer(const MutableMap& map, const Place& at)
      : to_(static_cast<Element*>(map.data) + at.channel),
        stride_(map.stride),
        limit_(map.stride - at.channel) {}
  __device__ void store(int pixel, const float (&values)[GROUP]) const {
    Access::store(to_ + static_cast<int64_t>(pixel) * stride_, values, limit_);
  }

 private:
  Element* to_;
  int stride_, limit_;
};

/// body(pixels, which of them exist) for all pixels of the thread, UNROLL at a time.
template <int UNROLL, typename Body>
__device__ void for_pixels(const Tiling& t, const Place& at, Body body) {
  const int begin = t.walk == Walk::UP ? 0 : t.steps - 1;
  const int stride = t.slices * t.block_pixels;
  const int step = t.walk == Walk::UP ? stride : -stride;
  int first = begin * stride + at.slice * t.block_pixels + at.pixel;
  for (int i = 0; i < t.steps; i += UNROLL, first += UNROLL * step) {
    int pixel[UNROLL];
    bool exists[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      pixel[u] = first + u * step;
      exists[u] = pixel[u] >= 0 && pixel[u] < t.pixels;  // below zero is past the end of a walk down
    }
    body(pixel, exists);
  }
}

/// The thread's channels of `values`; zeros past the last.
__device__ void load_channels(const float* values, const Tiling& t, const Place& at, float (&out)[GROUP]) {
#pragma unroll
  for (int i = 0; i < GROUP; ++i) out[i] = at.channel + i < t.channels ? values[at.channel + i] : 0.0f;
}

/// One form for forward and backward, which must find the same signs. Subtracting first keeps the precision
/// where the mean is large, and a constant channel becomes its bias exactly.
__device__ float scale_of(float weight, float inverse_std) { return __fmul_rn(weight, inverse_std); }
__device__ float normalized(float deviation, float scale, float bias) {
  return __fmaf_rn(deviation, scale, bias);
}

/// totals[c] = sum of term(c, i) over i < items, for c < columns <= SUM_THREADS / 2, by the whole block in an
/// order that depends on the two counts alone. Every thread may read the totals afterwards.
template <typename Term>
__device__ void sum_columns(int columns, int items, float (&scratch)[SUM_THREADS], float* totals, Term term) {
  constexpr int UNROLL = 8;
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = SUM_THREADS / columns, part = thread / columns, column = thread % columns;
  float sum = 0.0f;
  for (int i = part < parts ? part : items; i < items; i += UNROLL * parts) {
    float terms[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) terms[u] = i + u * parts < items ? term(column, i + u * parts) : 0.0f;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) sum += terms[u];
  }
  scratch[thread] = sum;
  __syncthreads();
  if (thread < columns) {
    float total = 0.0f;
    for (int p = 0; p < parts; ++p) total += scratch[p * columns + thread];
    totals[thread] = total;
  }
  __syncthreads();
}

/// True in all threads of the block that ends last among the slices of a tile; it sees what the others wrote.
/// The counter is zero again then.
__device__ bool is_last_slice(const Tiling& t, const Place& at, int32_t* counters) {
  __shared__ bool last;
  __syncthreads();
  if (t.slices == 1) return true;
  if (threadIdx.x == 0) {
    __threadfence();
    const auto others = static_cast<unsigned>(t.slices - 1);
    last = atomicInc(reinterpret_cast<unsigned*>(counters + at.tile), others) == others;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/// Two sums for each channel of a tile are PAIR columns for each group of channels: GROUP values of the
/// first, then GROUP of the second. A block holds one row of them per pixel side by side, the workspace one
/// per slice.
constexpr int PAIR = 2 * GROUP;
struct BlockSums {
  float rows[PAIR][SUM_THREADS + 2];  // [column of a group][pixel, group]: neither access has bank conflicts
  float scratch[SUM_THREADS];
  float totals[TILE_GROUPS * PAIR];
};

__device__ void put_row(BlockSums& sums, const Place& at, const float (&a)[GROUP], const float (&b)[GROUP]) {
  const int entry = at.pixel * at.block_groups + at.lane;
#pragma unroll
  for (int i = 0; i < GROUP; ++i) {
    sums.rows[i][entry] = a[i];
    sums.rows[GROUP + i][entry] = b[i];
  }
}

/// The columns of one block and of one tile in the workspace, as (column, item) -> value.
struct BlockRows {
  const BlockSums& sums;
  int groups;
  __device__ float operator()(int column, int pixel) const {
    return sums.rows[column % PAIR][pixel * groups + column / PAIR];
  }
};
struct SliceRows {
  __device__ SliceRows(float* partials, const Tiling& t, const Place& at)
      : first(partials + at.first_group * PAIR), row_floats(t.groups * PAIR) {}
  __device__ float* row(int slice) const { return first + static_cast<int64_t>(slice) * row_floats; }
  __device__ float operator()(int column, int slice) const { return row(slice)[column]; }
  float* first;
  int row_floats;
};
/// The column of a channel's first sum; its second is GROUP further.
__device__ int column_of(int channel) { return channel / GROUP * PAIR + channel % GROUP; }

__device__ float inverse_std_of(double variance, double epsilon) {
  return __frsqrt_rn(static_cast<float>(variance + epsilon));
}

/// What a batch's mean and biased variance of channel c leave behind.
__device__ void keep_statistics(const BatchStatistics& s, int c, double mean, double variance) {
  const double offset = s.offset == nullptr ? 0.0 : static_cast<double>(s.offset[c]);
  s.mean[c] = static_cast<float>(mean);
  s.inverse_std[c] = inverse_std_of(variance, s.epsilon);
  s.next_mean[c] = static_cast<float>((1.0 - s.momentum) * static_cast<double>(s.prev_mean[c]) +
                                      s.momentum * (mean + offset));
  s.next_variance[c] = static_cast<float>((1.0 - s.momentum) * static_cast<double>(s.prev_variance[c]) +
                                          s.momentum * (variance * s.unbiased));
}

/// Rows of (offset of the mean from a pivot of the channel, sum of squared deviations), merged: the offset
/// and the sum of each channel of the tile. Deviations are taken from the common mean, not from the pivot,
/// which may be an outlier.
template <typename Rows, typename Count>
__device__ void merge_moments(const Rows& rows, int items, int channels, int pixels, Count count_of,
                              float (&scratch)[SUM_THREADS], float (&offsets)[TILE_CHANNELS],
                              float (&squares)[TILE_CHANNELS]) {
  const float share = 1.0f / static_cast<float>(pixels);
  sum_columns(channels, items, scratch, offsets, [&](int channel, int item) {
    return static_cast<float>(count_of(item)) * share * rows(column_of(channel), item);
  });
  sum_columns(channels, items, scratch, squares, [&](int channel, int item) {
    const float delta = rows(column_of(channel), item) - offsets[channel];
    return rows(column_of(channel) + GROUP, item) + static_cast<float>(count_of(item)) * delta * delta;
  });
}

/// Each thread sums deviations from its own first value, one of those averaged, so that no mean is large
/// beside them.
template <typename Access>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sum_statistics(Tiling tiling, ConstMap x_map, BatchStatistics statistics, float* partials,
                   int32_t* counters) {
  using Raw = typename Access::Raw;
  constexpr int UNROLL = 2 * Access::UNROLL;
  __shared__ BlockSums sums;
  __shared__ float offsets[TILE_CHANNELS], squares[TILE_CHANNELS];
  const Place at(tiling);
  const int thread = static_cast<int>(threadIdx.x);
  if (at.active) {
    const Reader<Access> x(x_map, tiling, at);
    const int count = pixels_of_thread(tiling, at.slice, at.pixel);
    float pivot[GROUP] = {}, offset[GROUP] = {}, sum[GROUP] = {}, sum_squares[GROUP] = {};
    if (count > 0) {
      Access::unpack(x.load(at.slice * tiling.block_pixels + at.pixel), pivot);
      Access::unpack(x.load(0), offset);
    }
    for_pixels<UNROLL>(tiling, at, [&](const int(&pixel)[UNROLL], const bool(&exists)[UNROLL]) {
      Raw raw[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u)
        if (exists[u]) raw[u] = x.load(pixel[u]);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        if (!exists[u]) continue;
        float values[GROUP];
        Access::unpack(raw[u], values);
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
          const float deviation = values[i] - pivot[i];
          sum[i] += deviation;
          sum_squares[i] += deviation * deviation;
        }
      }
    });
    const float share = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const float mean = sum[i] * share, about_mean = sum_squares[i] - sum[i] * mean;
      offset[i] = (pivot[i] - offset[i]) + mean;
      sum_squares[i] = about_mean < 0.0f ? 0.0f : about_mean;
    }
    put_row(sums, at, offset, sum_squares);
  }
  __syncthreads();
  const int channels = at.block_groups * GROUP;
  merge_moments(
      BlockRows{sums, at.block_groups}, tiling.block_pixels, channels, pixels_of_slice(tiling, at.slice),
      [&](int pixel) { return pixels_of_thread(tiling, at.slice, pixel); }, sums.scratch, offsets, squares);
  const SliceRows slices(partials, tiling, at);
  if (thread < channels) {
    slices.row(at.slice)[column_of(thread)] = offsets[thread];
    slices.row(at.slice)[column_of(thread) + GROUP] = squares[thread];
  }
  if (!is_last_slice(tiling, at, counters)) return;
  merge_moments(
      slices, tiling.slices, channels, tiling.pixels,
      [&](int slice) { return pixels_of_slice(tiling, slice); }, sums.scratch, offsets, squares);
  const int c = at.first_group * GROUP + thread;
  if (thread >= channels || c >= tiling.channels) return;
  const auto* pivots = static_cast<const typename Access::Element*>(x_map.data);
  const double mean = static_cast<double>(device::to_float(pivots[c])) + static_cast<double>(offsets[thread]);
  const double variance = static_cast<double>(squares[thread]) * statistics.share;
  keep_statistics(statistics, c, mean, variance);
}

struct MeanAndScale {
  float mean, scale;
};

/// Of channel c. The one block whose slice is the first also keeps what a batch leaves behind.
__device__ MeanAndScale mean_and_scale(const Normalization& n, int c, bool keep) {
  const BatchStatistics& s = n.statistics;
  const float weight = n.weight[c];
  if (n.moments == Moments::FOLDED) return {0.0f, weight};
  if (n.moments == Moments::BATCH) return {s.mean[c], scale_of(weight, s.inverse_std[c])};
  if (n.moments == Moments::FIXED && keep) {
    s.next_mean[c] = s.mean[c] = s.prev_mean[c];
    s.next_variance[c] = s.prev_variance[c];
    s.inverse_std[c] = inverse_std_of(static_cast<double>(s.prev_variance[c]), s.epsilon);
  }
  if (n.moments == Moments::RUNNING || n.moments == Moments::FIXED)
    return {s.prev_mean[c],
            scale_of(weight, inverse_std_of(static_cast<double>(s.prev_variance[c]), s.epsilon))};
  const double mean = static_cast<double>(n.sums[c]) * s.share;
  const double about_mean = static_cast<double>(n.sums[n.sums_stride + c]) * s.share - mean * mean;
  const double variance = about_mean < 0.0 ? 0.0 : about_mean;  // NaN stays
  if (keep) keep_statistics(s, c, mean, variance);
  return {static_cast<float>(mean), scale_of(weight, inverse_std_of(variance, s.epsilon))};
}

template <typename Access, bool RELU, bool RESIDUAL>
__global__ void __launch_bounds__(MAP_THREADS, NORMALIZE_BLOCKS) normalize(Tiling tiling, Normalization n) {
  using Raw = typename Access::Raw;
  constexpr int UNROLL = Access::UNROLL;
  __shared__ float block_mean[TILE_CHANNELS], block_scale[TILE_CHANNELS], block_bias[TILE_CHANNELS];
  const Place at(tiling);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < at.block_groups * GROUP) {
    const int c = at.first_group * GROUP + thread;
    const bool exists = c < tiling.channels;
    const MeanAndScale m = exists ? mean_and_scale(n, c, at.slice == 0) : MeanAndScale{0.0f, 0.0f};
    block_mean[thread] = m.mean;
    block_scale[thread] = m.scale;
    block_bias[thread] = exists ? n.bias[c] : 0.0f;
  }
  if (blockIdx.x == 0 && thread < n.mask_padding)
    n.mask[static_cast<int64_t>(tiling.pixels) * tiling.groups + thread] = 0;
  __syncthreads();
  if (!at.active) return;

  float mean[GROUP], scale[GROUP], bias[GROUP];
#pragma unroll
  for (int i = 0; i < GROUP; ++i) {
    mean[i] = block_mean[at.lane * GROUP + i];
    scale[i] = block_scale[at.lane * GROUP + i];
    bias[i] = block_bias[at.lane * GROUP + i];
  }
  const Reader<Access> x(n.x, tiling, at), x1(RESIDUAL ? n.x1 : n.x, tiling, at);
  const Writer<Access> y(n.y, at);
  for_pixels<UNROLL>(tiling, at, [&](const int(&pixel)[UNROLL], const bool(&exists)[UNROLL]) {
    Raw raw[UNROLL], raw1[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (exists[u]) {
        raw[u] = x.load_last(pixel[u]);
        if constexpr (RESIDUAL) raw1[u] = x1.load_last(pixel[u]);
      }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (!exists[u]) continue;
      float values[GROUP];
      Access::unpack(raw[u], values);
#pragma unroll
      for (int i = 0; i < GROUP; ++i) values[i] = normalized(values[i] - mean[i], scale[i], bias[i]);
      if constexpr (RESIDUAL) {
        float more[GROUP];
        Access::unpack(raw1[u], more);
#pragma unroll
        for (int i = 0; i < GROUP; ++i) values[i] += more[i];
      }
      if constexpr (RELU) {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
          const bool blocked = values[i] <= 0.0f;  // NaN passes
          values[i] = blocked ? 0.0f : values[i];
          bits |= blocked ? 0u : 1u << i;
        }
        if constexpr (RESIDUAL)
          if (n.mask != nullptr)
            n.mask[static_cast<int64_t>(pixel[u]) * tiling.groups + at.group] = static_cast<uint8_t>(bits);
      }
      y.store(pixel[u], values);
    }
  });
}

/// The ReLU mask of a thread's channels of one pixel.
template <MaskFrom MASK>
class ReluMask {
 public:
  __device__ ReluMask(const Gradients& g, const Tiling& t, const Place& at) : groups_(t.groups) {
    if constexpr (MASK == MaskFrom::BITS) bits_ = g.mask + at.group;
    if constexpr (MASK == MaskFrom::X) {
      float inverse_std[GROUP];
      load_channels(g.weight, t, at, scale_);
      load_channels(g.inverse_std, t, at, inverse_std);
      load_channels(g.bias, t, at, bias_);
#pragma unroll
      for (int i = 0; i < GROUP; ++i) scale_[i] = scale_of(scale_[i], inverse_std[i]);
    }
  }
  __device__ unsigned load(int pixel) const {
    if constexpr (MASK == MaskFrom::BITS) return bits_[static_cast<int64_t>(pixel) * groups_];
    return 0;
  }
  __device__ void apply(unsigned bits, const float (&deviation)[GROUP], float (&gradient)[GROUP]) const {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      if constexpr (MASK == MaskFrom::BITS) gradient[i] = (bits >> i & 1u) != 0 ? gradient[i] : 0.0f;
      if constexpr (MASK == MaskFrom::X)
        gradient[i] = normalized(deviation[i], scale_[i], bias_[i]) <= 0.0f ? 0.0f : gradient[i];
    }
  }

 private:
  int groups_;
  const uint8_t* bits_ = nullptr;
  float scale_[GROUP], bias_[GROUP];
};

/// body(pixel, x - mean, gradient under the mask) for all pixels of the thread.
template <typename Access, MaskFrom MASK, int GRADIENTS, bool LAST, typename Body>
__device__ void for_gradients(const Gradients& g, const Tiling& tiling, const Place& at, Body body) {
  using Raw = typename Access::Raw;
  constexpr int UNROLL = Access::UNROLL;
  const Reader<Access> x(g.x, tiling, at), dy0(g.dy[0], tiling, at), dy1(g.dy[GRADIENTS - 1], tiling, at);
  const ReluMask<MASK> mask(g, tiling, at);
  float mean[GROUP];
  load_channels(g.mean, tiling, at, mean);
  const auto load = [](const Reader<Access>& from, int pixel) {
    return LAST ? from.load_last(pixel) : from.load(pixel);
  };
  for_pixels<UNROLL>(tiling, at, [&](const int(&pixel)[UNROLL], const bool(&exists)[UNROLL]) {
    Raw raw_x[UNROLL], raw0[UNROLL], raw1[UNROLL];
    unsigned bits[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (exists[u]) raw_x[u] = load(x, pixel[u]);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (exists[u]) raw0[u] = load(dy0, pixel[u]);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (exists[u]) bits[u] = mask.load(pixel[u]);
    if constexpr (GRADIENTS == 2) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u)
        if (exists[u]) raw1[u] = load(dy1, pixel[u]);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (!exists[u]) continue;
      float deviation[GROUP], gradient[GROUP];
      Access::unpack(raw_x[u], deviation);
      Access::unpack(raw0[u], gradient);
      if constexpr (GRADIENTS == 2) {
        float more[GROUP];
        Access::unpack(raw1[u], more);
#pragma unroll
        for (int i = 0; i < GROUP; ++i) gradient[i] += more[i];
      }
#pragma unroll
      for (int i = 0; i < GROUP; ++i) deviation[i] -= mean[i];
      mask.apply(bits[u], deviation, gradient);
      body(pixel[u], deviation, gradient);
    }
  });
}

/// The sums are of the gradient before it is rounded to dx: what rounding does to dx0 is the same either way
/// but for its mean over all pixels, and the parameters' gradients stay free of it.
template <typename Access, MaskFrom MASK, int GRADIENTS, bool STORE>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sum_gradients(Tiling tiling, Gradients g, float* partials, int32_t* counters) {
  __shared__ BlockSums sums;
  const Place at(tiling);
  const int thread = static_cast<int>(threadIdx.x);
  if (at.active) {
    float sum[GROUP] = {}, sum_deviation[GROUP] = {};
    const Writer<Access> dx(g.dx, at);
    for_gradients<Access, MASK, GRADIENTS, false>(
        g, tiling, at, [&](int pixel, const float(&deviation)[GROUP], const float(&gradient)[GROUP]) {
#pragma unroll
          for (int i = 0; i < GROUP; ++i) {
            sum[i] += gradient[i];
            sum_deviation[i] += gradient[i] * deviation[i];
          }
          if constexpr (STORE) dx.store(pixel, gradient);
        });
    put_row(sums, at, sum, sum_deviation);
  }
  __syncthreads();
  const int columns = at.block_groups * PAIR;
  sum_columns(columns, tiling.block_pixels, sums.scratch, sums.totals, BlockRows{sums, at.block_groups});
  const SliceRows slices(partials, tiling, at);
  if (thread < columns) slices.row(at.slice)[thread] = sums.totals[thread];
  if (!is_last_slice(tiling, at, counters)) return;
  sum_columns(columns, tiling.slices, sums.scratch, sums.totals, slices);
  const int c = at.first_group * GROUP + thread;
  if (thread >= at.block_groups * GROUP || c >= tiling.channels) return;
  g.bias_gradient[c] = sums.totals[column_of(thread)];
  g.weight_gradient[c] = sums.totals[column_of(thread) + GROUP] * g.inverse_std[c];
}

/// dx = scale * (g - mean(g) - xhat * mean(g * xhat)), as scale * g + (x_factor * (x - mean) + constant).
template <typename Access, MaskFrom MASK>
__global__ void __launch_bounds__(MAP_THREADS, INPUT_GRADIENT_BLOCKS)
    input_gradient(Tiling tiling, Gradients g) {
  const Place at(tiling);
  if (!at.active) return;
  float scale[GROUP], x_factor[GROUP], constant[GROUP], inverse_std[GROUP];
  load_channels(g.weight, tiling, at, scale);
  load_channels(g.inverse_std, tiling, at, inverse_std);
  load_channels(g.weight_gradient, tiling, at, x_factor);
  load_channels(g.bias_gradient, tiling, at, constant);
  const float share = g.fixed_statistics ? 0.0f : 1.0f / static_cast<float>(tiling.pixels);
#pragma unroll
  for (int i = 0; i < GROUP; ++i) {
    scale[i] = scale_of(scale[i], inverse_std[i]);
    x_factor[i] *= -scale[i] * inverse_std[i] * share;
    constant[i] *= -scale[i] * share;
  }
  const Writer<Access> dx(g.dx, at);
  for_gradients<Access, MASK, 1, true>(
      g, tiling, at, [&](int pixel, const float(&deviation)[GROUP], const float(&gradient)[GROUP]) {
        float values[GROUP];
#pragma unroll
        for (int i = 0; i < GROUP; ++i)
          values[i] = scale[i] * gradient[i] + (x_factor[i] * deviation[i] + constant[i]);
        dx.store(pixel, values);
      });
}

unsigned blocks_of(const Tiling& t) { return static_cast<unsigned>(t.tiles * t.slices); }

Tiling sums_tiling(const Extent& extent) {
  return make_tiling(extent, SUM_THREADS, extent.multiprocessors, MOST_SLICES, Walk::DOWN);
}
Tiling map_tiling(const Extent& extent, int blocks, Walk walk) {
  return make_tiling(extent, MAP_THREADS, blocks * extent.multiprocessors, extent.pixels, walk);
}

/// launch(Access{}) for the way that the strides allow.
template <typename Launch>
void for_access(const Extent& extent, Launch launch) {
  device::for_dtype(extent.dtype, [&](auto element) {
    using T = decltype(element);
    if (extent.vectors) {
      launch(Vectors<T>{});
    } else {
      launch(Elements<T>{});
    }
  });
}

/// The kernel for what is to be summed and stored: a ReLU without a residual has nothing to store.
template <typename Access, MaskFrom MASK>
auto* sums_kernel(const Gradients& g) {
  auto* kernel = sum_gradients<Access, MASK, 1, false>;
  if constexpr (MASK != MaskFrom::X) {
    if (g.dx.data != nullptr)
      kernel = g.dy[1].data != nullptr ? sum_gradients<Access, MASK, 2, true>
                                       : sum_gradients<Access, MASK, 1, true>;
  }
  return kernel;
}
template <typename Access>
auto* sums_kernel(const Gradients& g) {
  if (g.mask_from == MaskFrom::NONE) return sums_kernel<Access, MaskFrom::NONE>(g);
  if (g.mask_from == MaskFrom::X) return sums_kernel<Access, MaskFrom::X>(g);
  return sums_kernel<Access, MaskFrom::BITS>(g);
}
template <typename Access>
auto* input_kernel(MaskFrom mask) {
  if (mask == MaskFrom::NONE) return input_gradient<Access, MaskFrom::NONE>;
  if (mask == MaskFrom::X) return input_gradient<Access, MaskFrom::X>;
  return input_gradient<Access, MaskFrom::BITS>;
}
template <typename Access>
auto* normalize_kernel(bool relu, bool residual) {
  if (residual) return relu ? normalize<Access, true, true> : normalize<Access, false, true>;
  return relu ? normalize<Access, true, false> : normalize<Access, false, false>;
}

}  // namespace

void launch_statistics(const Extent& extent, ConstMap x, const BatchStatistics& statistics, float* partials,
                       int32_t* counters, cudaStream_t stream) {
  const Tiling tiling = sums_tiling(extent);
  for_access(extent, [&](auto access) {
    sum_statistics<decltype(access)>
        <<<blocks_of(tiling), SUM_THREADS, 0, stream>>>(tiling, x, statistics, partials, counters);
  });
}

void launch_normalize(const Extent& extent, const Normalization& n, cudaStream_t stream) {
  const Tiling tiling =
      map_tiling(extent, NORMALIZE_BLOCKS, n.moments == Moments::BATCH ? Walk::UP : Walk::DOWN);
  for_access(extent, [&](auto access) {
    auto* kernel = normalize_kernel<decltype(access)>(n.relu, n.x1.data != nullptr);
    kernel<<<blocks_of(tiling), MAP_THREADS, 0, stream>>>(tiling, n);
  });
}

void launch_gradient_sums(const Extent& extent, const Gradients& g, float* partials, int32_t* counters,
                          cudaStream_t stream) {
  const Tiling tiling = sums_tiling(extent);
  for_access(extent, [&](auto access) {
    auto* kernel = sums_kernel<decltype(access)>(g);
    kernel<<<blocks_of(tiling), SUM_THREADS, 0, stream>>>(tiling, g, partials, counters);
  });
}

void launch_input_gradient(const Extent& extent, const Gradients& g, cudaStream_t stream) {
  const Tiling tiling = map_tiling(extent, INPUT_GRADIENT_BLOCKS, Walk::UP);
  for_access(extent, [&](auto access) {
    auto* kernel = input_kernel<decltype(access)>(g.mask_from);
    kernel<<<blocks_of(tiling), MAP_THREADS, 0, stream>>>(tiling, g);
  });
}

}  // namespace tr::bn_cuda
