// Tensor cores multiply matrices of 8 x 16 bytes. In an input of 4 channels 16 bytes are two neighbouring
// pixels: the inputs of a pair of taps. So a row of the kernel is cut into pairs of taps, the last one filled
// up, and the input of a pair is read from shared memory as it lies there, with no copy per tap: the rows of
// a matrix may overlap. They must start at multiples of 16 bytes, which an odd stride does not give: such
// inputs are kept twice, the second time one pixel earlier.
//
// A block walks down strips of the output, `segment` pixels wide.
#include <algorithm>
#include <utility>

#include "ops/conv/first_layer_cuda.h"
#include "ops/support/cuda.h"
#include "ops/support/device.cuh"
#include "ops/support/mma.cuh"

namespace tr {
namespace {

using device::commit_copies;
using device::copy_async;
using device::from_float;
using device::load_matrices;
using device::multiply_add;
using device::Pack;
using device::shared_address;
using device::to_float;
using device::wait_for_copies;

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MULTIPROCESSORS = 132;
constexpr int MOST_KERNEL = 7;
constexpr int MOST_SEGMENT = 128;
constexpr int PIXEL_BYTES = 8;  ///< of x
constexpr int PAIR_BYTES = 2 * PIXEL_BYTES;
constexpr int TILE = 16;  ///< pixels of a matrix product

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

/// The taps of a kernel in pairs, row by row.
template <int KERNEL>
struct Taps {
  static constexpr int PAIRS_PER_ROW = (KERNEL + 1) / 2;
  static constexpr int PAIRS = KERNEL * PAIRS_PER_ROW;
};

/// How the width of y is cut, and how a row of x below one segment lies in shared memory.
struct Strips {
  explicit Strips(const ConvGeometry& g) {
    segments = divide_up(g.out_width, MOST_SEGMENT);
    segment = divide_up(divide_up(g.out_width, segments), TILE) * TILE;
    segments = divide_up(g.out_width, segment);
    columns = (segment - 1) * g.stride + (g.kernel + 1) / 2 * 2;
    twice = g.stride % 2 != 0;
    const int bytes = columns * PIXEL_BYTES;
    // Kept twice, the copies of eight pixels in turn lie in 32 different banks.
    copy_bytes = twice ? divide_up(bytes, 128) * 128 + 64 : divide_up(bytes, PAIR_BYTES) * PAIR_BYTES;
    row_bytes = twice ? 2 * copy_bytes : copy_bytes;
  }

  /// Where the input of a pixel of the segment starts within a row.
  __device__ int offset(int pixel, int stride) const {
    const int column = pixel * stride;
    return column % 2 == 0 ? column * PIXEL_BYTES : copy_bytes + (column - 1) * PIXEL_BYTES;
  }

  int segments, segment;  ///< how many, and the pixels of one
  int columns;            ///< of x
  bool twice;
  int copy_bytes, row_bytes;
};

/// The first of the columns of x below a segment.
__device__ int first_column(const ConvGeometry& g, const Strips& strips, int segment) {
  return segment * strips.segment * g.stride - g.padding;
}

/// Row h of the image from `column` on, zeros outside, to shared memory at `to`.
template <typename T>
__device__ void copy_input_row(const ConvGeometry& g, const Strips& strips, const T* x, int image, int h,
                               int column, uint32_t to) {
  const bool row_inside = h >= 0 && h < g.height;
  const int64_t row = (int64_t{image} * g.height + h) * g.width;
  for (int i = static_cast<int>(threadIdx.x); i < strips.columns; i += THREADS) {
    const int w = column + i;
    const bool inside = row_inside && w >= 0 && w < g.width;
    const T* from = inside ? x + (row + w) * 4 : x;
    copy_async<PIXEL_BYTES>(to + i * PIXEL_BYTES, from, inside);
    if (strips.twice && i > 0)
      copy_async<PIXEL_BYTES>(to + strips.copy_bytes + (i - 1) * PIXEL_BYTES, from, inside);
  }
}

// Weight gradient: [channels x pixels] times [pixels x taps].

/// Who does what: warps share the pairs of taps, and those left over the pixels.
template <int KERNEL>
struct GradientPlan : Taps<KERNEL> {
  using Taps<KERNEL>::PAIRS;
  static constexpr int CHANNELS = 64;  ///< of y that a block does
  static constexpr int CHANNEL_TILES = CHANNELS / TILE;
  static constexpr int MOST_PAIRS = 7;  ///< of a warp, for the registers of the sums
  static constexpr int TAP_WARPS = PAIRS <= MOST_PAIRS ? 1 : PAIRS <= 2 * MOST_PAIRS ? 2 : 4;
  static constexpr int PIXEL_WARPS = WARPS / TAP_WARPS;
  static constexpr int WARP_PAIRS = (PAIRS + TAP_WARPS - 1) / TAP_WARPS;
  static_assert(WARP_PAIRS <= MOST_PAIRS);
  static constexpr int BLOCKS = 3;  ///< of a multiprocessor
  static constexpr int STAGES = KERNEL <= 4 ? 3 : 2;
  static constexpr int INPUT_ROWS = STAGES * KERNEL;
  static constexpr int ZERO_BYTES = 128;
  /// With 16 bytes more than the channels have, eight pixels lie in 32 different banks.
  static constexpr int DY_PITCH = CHANNELS * 2 + 16;
  static constexpr int SUMS = WARP_PAIRS * CHANNEL_TILES * 4;  ///< of a thread

  static int64_t shared_bytes(const Strips& strips) {
    const int64_t stages =
        ZERO_BYTES + int64_t{STAGES} * strips.segment * DY_PITCH + int64_t{INPUT_ROWS} * strips.row_bytes;
    const int64_t exchange = int64_t{TAP_WARPS} * SUMS * 32 * static_cast<int64_t>(sizeof(float));
    return std::max(stages, PIXEL_WARPS > 1 ? exchange : 0);
  }
};

/// Sums of the blocks' slices, FP32 [slices, K, R, R, C]. A slice is a run of the lines of all strips: one
/// row of one segment each. The rows of x that a line has in common with the one above it are loaded once:
/// they lie in a ring in the order in which they were loaded.
template <typename T, int KERNEL>
__global__ void __launch_bounds__(THREADS, GradientPlan<KERNEL>::BLOCKS)
    weight_gradient_kernel(ConvGeometry g, Strips strips, const T* __restrict__ x, const T* __restrict__ dy,
                           float* __restrict__ partials) {
  using Plan = GradientPlan<KERNEL>;
  constexpr int STAGES = Plan::STAGES, RING = Plan::INPUT_ROWS;
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const uint32_t zeros = shared_address(shared_bytes);
  const uint32_t dy_stages = zeros + Plan::ZERO_BYTES;
  const int dy_stage_bytes = strips.segment * Plan::DY_PITCH;
  const uint32_t ring = dy_stages + STAGES * dy_stage_bytes;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int tap_warp = warp % Plan::TAP_WARPS, pixel_warp = warp / Plan::TAP_WARPS;
  const int channel0 = static_cast<int>(blockIdx.y) * Plan::CHANNELS;
  const int64_t lines = int64_t{g.images} * strips.segments * g.out_height;
  const int begin = static_cast<int>(lines * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(lines * (blockIdx.x + 1) / gridDim.x);
  if (thread < PAIR_BYTES / 4) reinterpret_cast<uint32_t*>(shared_bytes)[thread] = 0;

  /// Rows of x that line has and the one before it in the slice has not.
  const auto new_rows = [&](int line) {
    return line == begin || line % g.out_height == 0 ? KERNEL : min(g.stride, KERNEL);
  };
  int ring_head = 0;
  const auto fetch = [&](int line, int stage) {
    if (line < end) {
      const int strip = line / g.out_height, row = line - strip * g.out_height;
      const int image = strip / strips.segments, segment = strip - image * strips.segments;
      const int column = first_column(g, strips, segment);
      for (int i = KERNEL - new_rows(line); i < KERNEL; ++i) {
        copy_input_row(g, strips, x, image, row * g.stride - g.padding + i, column,
                       ring + ring_head * strips.row_bytes);
        ring_head = ring_head + 1 == RING ? 0 : ring_head + 1;
      }
      const int pixel0 = segment * strips.segment;
      const int channel = channel0 + thread % 8 * 8;
      const int64_t line_pixel = (int64_t{image} * g.out_height + row) * g.out_width + pixel0;
      const uint32_t to = dy_stages + stage * dy_stage_bytes + thread % 8 * 16;
      for (int i = thread / 8; i < strips.segment; i += THREADS / 8) {
        const bool inside = pixel0 + i < g.out_width && channel < g.out_channels;
        copy_async<16>(to + i * Plan::DY_PITCH,
                       inside ? dy + (line_pixel + i) * g.out_channels + channel : dy, inside);
      }
    }
    commit_copies();
  };

  // The matrices of this lane: a's pixel and channels, b's pixel and pairs of taps.
  const int a_offset = (lane / 16 * 8 + lane % 8) * Plan::DY_PITCH + lane / 8 % 2 * 16;
  const int b_pixel = lane / 8 % 2 * 8 + lane % 8;
  constexpr int LOADS = (Plan::WARP_PAIRS + 1) / 2;
  int b_row[LOADS], b_offset[LOADS];
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const int pair = min(tap_warp * Plan::WARP_PAIRS + 2 * i + lane / 16, Plan::PAIRS - 1);
    b_row[i] = pair / Plan::PAIRS_PER_ROW;
    b_offset[i] = pair % Plan::PAIRS_PER_ROW * PAIR_BYTES + strips.offset(b_pixel, g.stride);
  }

  float sums[Plan::WARP_PAIRS][Plan::CHANNEL_TILES][4] = {};
  const auto add_line = [&](int line, int stage, int window) {
    const int segment = line / g.out_height % strips.segments;
    const int pixels = min(g.out_width - segment * strips.segment, strips.segment);
    uint32_t b_address[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const int row = window + b_row[i];
      b_address[i] = ring + (row < RING ? row : row - RING) * strips.row_bytes + b_offset[i];
    }
    const uint32_t a_address = dy_stages + stage * dy_stage_bytes + a_offset;
    for (int pixel0 = pixel_warp * TILE; pixel0 < pixels; pixel0 += Plan::PIXEL_WARPS * TILE) {
      uint32_t a[Plan::CHANNEL_TILES][4];
#pragma unroll
      for (int m = 0; m < Plan::CHANNEL_TILES; ++m)
        load_matrices<true>(a[m], a_address + pixel0 * Plan::DY_PITCH + m * TILE * 2);
      // dy is zero past the end of the line, but zero times what x has there may be NaN.
      const bool inside = pixel0 + b_pixel < pixels;
      const int step = pixel0 * g.stride * PIXEL_BYTES;
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        const uint32_t address = inside ? b_address[i] + step : zeros;
        if (2 * i + 1 < Plan::WARP_PAIRS) {
          uint32_t b[4];
          load_matrices<true>(b, address);
#pragma unroll
          for (int m = 0; m < Plan::CHANNEL_TILES; ++m) {
            multiply_add<T>(sums[2 * i][m], a[m], b[0], b[1]);
            multiply_add<T>(sums[2 * i + 1][m], a[m], b[2], b[3]);
          }
        } else {
          uint32_t b[2];
          load_matrices<true>(b, address);
#pragma unroll
          for (int m = 0; m < Plan::CHANNEL_TILES; ++m) multiply_add<T>(sums[2 * i][m], a[m], b[0], b[1]);
        }
      }
    }
  };

  for (int i = 0; i < STAGES - 1; ++i) fetch(begin + i, i);
  int window = RING - KERNEL, stage = 0;
  for (int line = begin; line < end; ++line) {
    wait_for_copies<STAGES - 2>();
    __syncthreads();  // the line is there, and all warps are done with the one before it
    fetch(line + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
    window += new_rows(line);
    if (window >= RING) window -= RING;
    add_line(line, stage, window);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }

  // The warps of the same taps, in their order.
  if constexpr (Plan::PIXEL_WARPS > 1) {
    float* exchange = reinterpret_cast<float*>(shared_bytes) + tap_warp * Plan::SUMS * 32 + lane;
    for (int from = 1; from < Plan::PIXEL_WARPS; ++from) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Plan::SUMS; ++i)
        if (pixel_warp == from) exchange[i * 32] = (&sums[0][0][0])[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Plan::SUMS; ++i)
        if (pixel_warp == 0) (&sums[0][0][0])[i] += exchange[i * 32];
    }
    if (pixel_warp != 0) return;
  }
  float* slice = partials + int64_t{blockIdx.x} * g.out_channels * KERNEL * KERNEL * g.channels;
#pragma unroll
  for (int n = 0; n < Plan::WARP_PAIRS; ++n) {
    const int pair = tap_warp * Plan::WARP_PAIRS + n, row = pair / Plan::PAIRS_PER_ROW;
    const int tap = 2 * (pair % Plan::PAIRS_PER_ROW) + lane % 4 / 2;
    if (pair >= Plan::PAIRS || tap >= KERNEL) continue;
#pragma unroll
    for (int m = 0; m < Plan::CHANNEL_TILES; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = channel0 + m * TILE + lane / 4 + i / 2 * 8, c = lane % 2 * 2 + i % 2;
        if (k < g.out_channels && c < g.channels)
          slice[((k * KERNEL + row) * KERNEL + tap) * g.channels + c] = sums[n][m][i];
      }
  }
}

constexpr int SLICE_ITEMS = 32;
constexpr int SLICE_ROWS = 8;

/// to[i] = the sum over the slices, FP32 [slices, items]: thread row r takes slices r, r + 8, ...
template <typename T>
__global__ void __launch_bounds__(SLICE_ITEMS* SLICE_ROWS)
    sum_slices_kernel(const float* __restrict__ partials, int slices, int items, T* __restrict__ to) {
  __shared__ double shared[SLICE_ROWS][SLICE_ITEMS];
  const int column = static_cast<int>(threadIdx.x) % SLICE_ITEMS,
            row = static_cast<int>(threadIdx.x) / SLICE_ITEMS;
  const int item = static_cast<int>(blockIdx.x) * SLICE_ITEMS + column;
  double sum = 0.0;
  if (item < items)
#pragma unroll 8
    for (int slice = row; slice < slices; slice += SLICE_ROWS)
      sum += static_cast<double>(partials[int64_t{slice} * items + item]);
  shared[row][column] = sum;
  __syncthreads();
  if (row != 0 || item >= items) return;
  for (int r = 1; r < SLICE_ROWS; ++r) sum += shared[r][column];
  to[item] = from_float<T>(static_cast<float>(sum));
}

template <typename T>
void sum_slices(const float* partials, int64_t slices, int64_t items, T* to, cudaStream_t stream) {
  sum_slices_kernel<T>
      <<<static_cast<unsigned>((items + SLICE_ITEMS - 1) / SLICE_ITEMS), SLICE_ITEMS * SLICE_ROWS, 0,
         stream>>>(partials, static_cast<int>(slices), static_cast<int>(items), to);
}

// Forward: [pixels x taps] times [taps x channels]. A warp keeps the weights of 32 channels in registers.

constexpr int WARP_CHANNELS = 32;
constexpr int FORWARD_STAGES = 2;
constexpr int CHANNEL_TILES = WARP_CHANNELS / 8;

template <int KERNEL>
struct ForwardPlan : Taps<KERNEL> {
  using Taps<KERNEL>::PAIRS;
  static constexpr int STEPS = (PAIRS + 1) / 2;                       ///< products of two pairs of taps
  static constexpr int PIXEL_TILES = 2;                               ///< that a warp does together
  static constexpr int BLOCKS = STEPS <= 3 ? 4 : STEPS <= 8 ? 3 : 2;  ///< of a multiprocessor
};

/// How the work is cut: a step is so many rows of one strip.
struct ForwardSteps {
  ForwardSteps(const ConvGeometry& g, const Strips& strips) {
    static constexpr int MOST_ROWS = 4;
    static constexpr int64_t WANTED_STEPS = 4 * 4 * MULTIPROCESSORS;
    const int64_t lines = int64_t{g.images} * strips.segments * g.out_height;
    rows = static_cast<int>(std::clamp<int64_t>(lines / WANTED_STEPS, 1, MOST_ROWS));
    rows = std::min(rows, g.out_height);
    input_rows = (rows - 1) * g.stride + g.kernel;
    per_strip = divide_up(g.out_height, rows);
    total = g.images * strips.segments * per_strip;
    const int warps = divide_up(g.out_channels, WARP_CHANNELS);
    channel_warps = warps == 1 ? 1 : warps == 2 ? 2 : 4;
  }

  int rows, per_strip, total;
  int input_rows;     ///< of x, for a step
  int channel_warps;  ///< of a block: 1, 2 or 4; the others share the pixels
};

constexpr int64_t STATISTICS_BYTES = int64_t{WARPS} * 2 * WARP_CHANNELS * sizeof(float);

int64_t forward_shared_bytes(const ConvGeometry& g, const Strips& strips, const ForwardSteps& steps) {
  const int64_t stages = int64_t{FORWARD_STAGES} * steps.input_rows * strips.row_bytes;
  return std::max(stages, STATISTICS_BYTES);
}

template <typename T>
struct ForwardOperands {
  const T *x, *weight;
  const float* bias;
  bool relu;
  T* y;
  float* partials;  ///< FP32 [slices, 2, K]
};

/// Element 2 * (l % 4) + 8 * half + i of a step's taps and channels is i of weights[step][..][half], and
/// column n of tile t is channel n / 2 * 8 + 2 * t + n % 2: so lane l gets results for 8 channels in a row.
template <typename T, int KERNEL>
__device__ void load_weights(const ConvGeometry& g, const T* weight, int channel0, int lane,
                             uint32_t (&weights)[ForwardPlan<KERNEL>::STEPS][CHANNEL_TILES][2]) {
  using Plan = ForwardPlan<KERNEL>;
  const int channel = channel0 + lane / 8 * 8 + lane / 4 % 2, c0 = lane % 2 * 2;
#pragma unroll
  for (int step = 0; step < Plan::STEPS; ++step)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pair = 2 * step + half, row = pair / Plan::PAIRS_PER_ROW;
      const int tap = 2 * (pair % Plan::PAIRS_PER_ROW) + lane % 4 / 2;
#pragma unroll
      for (int tile = 0; tile < CHANNEL_TILES; ++tile) {
        const int k = channel + 2 * tile;
        const bool inside = pair < Plan::PAIRS && tap < KERNEL && k < g.out_channels;
        const T* from = weight + ((k * KERNEL + row) * KERNEL + tap) * g.channels + c0;
        Pack<T, 2> both;
        both.v[0] = inside && c0 < g.channels ? from[0] : from_float<T>(0.0f);
        both.v[1] = inside && c0 + 1 < g.channels ? from[1] : from_float<T>(0.0f);
        weights[step][tile][half] = reinterpret_cast<const uint32_t&>(both);
      }
    }
}

template <typename T, int KERNEL, bool STATISTICS>
__global__ void __launch_bounds__(THREADS, ForwardPlan<KERNEL>::BLOCKS)
    forward_kernel(ConvGeometry g, Strips strips, ForwardSteps steps, ForwardOperands<T> operands) {
  using Plan = ForwardPlan<KERNEL>;
  constexpr int TILES = Plan::PIXEL_TILES;
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const uint32_t stages = shared_address(shared_bytes);
  const int stage_bytes = steps.input_rows * strips.row_bytes;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int channel_warp = warp % steps.channel_warps, pixel_warp = warp / steps.channel_warps;
  const int pixel_warps = WARPS / steps.channel_warps;
  const int block_channel0 = static_cast<int>(blockIdx.y) * steps.channel_warps * WARP_CHANNELS;
  const int channel0 = block_channel0 + channel_warp * WARP_CHANNELS;
  const int begin = static_cast<int>(int64_t{steps.total} * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(int64_t{steps.total} * (blockIdx.x + 1) / gridDim.x);

  struct Step {
    int image, segment, row, rows;
  };
  const auto place = [&](int step) {
    const int strip = step / steps.per_strip, row = (step - strip * steps.per_strip) * steps.rows;
    const int image = strip / strips.segments;
    return Step{image, strip - image * strips.segments, row, min(steps.rows, g.out_height - row)};
  };
  const auto fetch = [&](int step, int stage) {
    if (step < end) {
      const Step at = place(step);
      const int column = first_column(g, strips, at.segment), h = at.row * g.stride - g.padding;
      const int rows = (at.rows - 1) * g.stride + KERNEL;
      for (int i = 0; i < rows; ++i)
        copy_input_row(g, strips, operands.x, at.image, h + i, column,
                       stages + stage * stage_bytes + i * strips.row_bytes);
    }
    commit_copies();
  };
  fetch(begin, 0);

  uint32_t weights[Plan::STEPS][CHANNEL_TILES][2];
  load_weights<T, KERNEL>(g, operands.weight, channel0, lane, weights);
  // The second tap of a row's last pair is none, where the number of taps is odd; but zero weights times what
  // x has there may be NaN.
  const uint32_t keep = KERNEL % 2 == 0 || lane % 4 < 2 ? 0xffffffffu : 0u;
  const int channel = channel0 + lane % 4 * 8;  // the first of this lane's eight
  float bias[STATISTICS ? 1 : 8] = {};
  if (!STATISTICS && operands.bias != nullptr && channel < g.out_channels)
#pragma unroll
    for (int i = 0; i < 8; ++i) bias[i] = operands.bias[channel + i];
  float channel_sums[STATISTICS ? 8 : 1] = {}, channel_squares[STATISTICS ? 8 : 1] = {};

  // Where there are as many pairs on the left as on the right, the two of a step are of one row.
  constexpr int PER_ROW = Plan::PAIRS_PER_ROW;
  constexpr bool ONE_ROW = PER_ROW % 2 == 0;
  const auto multiply = [&](const uint32_t(&address)[TILES], float(&sums)[TILES][CHANNEL_TILES][4]) {
#pragma unroll
    for (int step = 0; step < Plan::STEPS; ++step) {
      const int low = 2 * step, high = min(2 * step + 1, Plan::PAIRS - 1);
      const int low_row = low / PER_ROW * strips.row_bytes, high_row = high / PER_ROW * strips.row_bytes;
      uint32_t a[TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
        if (ONE_ROW)
          load_matrices<false>(a[m], address[m] + low_row + low % PER_ROW * PAIR_BYTES);
        else
          load_matrices<false>(a[m], address[m] + (lane < 16 ? low_row + low % PER_ROW * PAIR_BYTES
                                                             : high_row + high % PER_ROW * PAIR_BYTES));
        if (low % PER_ROW == PER_ROW - 1) {
          a[m][0] &= keep;
          a[m][1] &= keep;
        }
        if (high % PER_ROW == PER_ROW - 1) {
          a[m][2] &= keep;
          a[m][3] &= keep;
        }
        if (high == low) a[m][2] = a[m][3] = 0;
      }
#pragma unroll
      for (int tile = 0; tile < CHANNEL_TILES; ++tile)
#pragma unroll
        for (int m = 0; m < TILES; ++m)
          multiply_add<T>(sums[m][tile], a[m], weights[step][tile][0], weights[step][tile][1]);
    }
  };

  /// Rows `half` of the tile: eight channels of one pixel.
  const auto write = [&](const float(&sums)[CHANNEL_TILES][4], int half, T* to) {
    Pack<T, 8> values;
#pragma unroll
    for (int i = 0; i < 8; ++i) values.v[i] = from_float<T>(sums[i / 2][2 * half + i % 2]);
    if constexpr (STATISTICS) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float stored = to_float(values.v[i]);
        channel_sums[i] += stored;
        channel_squares[i] = fmaf(stored, stored, channel_squares[i]);
      }
    } else if (operands.relu) {
#pragma unroll
      for (int i = 0; i < 8; ++i) values.v[i] = __hmax_nan(values.v[i], from_float<T>(0.0f));
    }
    device::store<T, 8>(to, values);
  };

  const int lane_pixel = lane / 8 % 2 * 8 + lane % 8;
  const uint32_t lane_address = stages + (ONE_ROW ? lane / 16 * PAIR_BYTES : 0);
  int stage = 0;
  for (int step = begin; step < end; ++step) {
    wait_for_copies<0>();
    __syncthreads();  // the step is there, and all warps are done with the one before it
    fetch(step + 1, 1 - stage);
    const Step at = place(step);
    const int pixel0 = at.segment * strips.segment;
    const int pixels = min(g.out_width - pixel0, strips.segment);
    const int row_tiles = divide_up(pixels, TILE), tiles = at.rows * row_tiles;
    T* to = operands.y +
            ((int64_t{at.image} * g.out_height + at.row) * g.out_width + pixel0) * g.out_channels + channel;
    for (int tile0 = pixel_warp * TILES; tile0 < tiles; tile0 += pixel_warps * TILES) {
      int row[TILES], pixel[TILES];
      uint32_t address[TILES];
      float sums[TILES][CHANNEL_TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
        const int tile = min(tile0 + m, tiles - 1);
        row[m] = tile / row_tiles;
        pixel[m] = (tile - row[m] * row_tiles) * TILE;
        address[m] = lane_address + stage * stage_bytes + row[m] * g.stride * strips.row_bytes +
                     strips.offset(pixel[m] + lane_pixel, g.stride);
#pragma unroll
        for (int i = 0; i < CHANNEL_TILES * 4; ++i)
          sums[m][i / 4][i % 4] = STATISTICS ? 0.0f : bias[i / 4 * 2 + i % 2];
      }
      multiply(address, sums);
#pragma unroll
      for (int m = 0; m < TILES; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at_pixel = pixel[m] + lane / 4 + 8 * half;
          if (tile0 + m < tiles && at_pixel < pixels && channel < g.out_channels)
            write(sums[m], half, to + int64_t{row[m] * g.out_width + at_pixel} * g.out_channels);
        }
    }
    stage = 1 - stage;
  }

  if constexpr (STATISTICS) {
    // The lanes of the same channels, then the warps, in a fixed order.
    float* shared = reinterpret_cast<float*>(shared_bytes);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      for (int distance = 4; distance < 32; distance *= 2) {
        channel_sums[i] += __shfl_xor_sync(0xffffffffu, channel_sums[i], distance);
        channel_squares[i] += __shfl_xor_sync(0xffffffffu, channel_squares[i], distance);
      }
      if (lane < 4) {
        shared[warp * 2 * WARP_CHANNELS + lane * 8 + i] = channel_sums[i];
        shared[(warp * 2 + 1) * WARP_CHANNELS + lane * 8 + i] = channel_squares[i];
      }
    }
    __syncthreads();
    const int block_channels = steps.channel_warps * WARP_CHANNELS;
    float* slice = operands.partials + int64_t{blockIdx.x} * 2 * g.out_channels;
    for (int i = thread; i < 2 * block_channels; i += THREADS) {
      const int kind = i / block_channels, of_block = i - kind * block_channels;
      if (block_channel0 + of_block >= g.out_channels) continue;
      float sum = 0.0f;
      for (int from = of_block / WARP_CHANNELS; from < WARPS; from += steps.channel_warps)
        sum += shared[(from * 2 + kind) * WARP_CHANNELS + of_block % WARP_CHANNELS];
      slice[kind * g.out_channels + block_channel0 + of_block] = sum;
    }
  }
}

/// body(std::integral_constant<int, KERNEL>{}) for the kernel's size.
template <typename Body>
void for_kernel(int kernel, Body&& body) {
  const auto visit = [&]<int... SMALLER>(std::integer_sequence<int, SMALLER...>) {
    static_cast<void>(
        ((kernel == SMALLER + 1 && (body(std::integral_constant<int, SMALLER + 1>{}), true)) || ...));
  };
  visit(std::make_integer_sequence<int, MOST_KERNEL>{});
}

template <typename Body>
void for_sixteen_bits(DType dtype, Body&& body) {
  if (dtype == DType::FP16)
    body(__half{});
  else
    body(__nv_bfloat16{});
}

template <typename Kernel>
void allow_shared_bytes(Kernel* kernel, int64_t bytes) {
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "first layer: shared memory");
}

int64_t gradient_items(const ConvGeometry& g) {
  return int64_t{g.out_channels} * g.kernel * g.kernel * g.channels;
}

/// As many as wanted, or as there is room for.
int64_t slices_of(int64_t wanted, int64_t items, int64_t partial_bytes) {
  return std::min(wanted, partial_bytes / (items * static_cast<int64_t>(sizeof(float))));
}

template <typename T, int KERNEL, bool STATISTICS>
void launch_forward(const ConvGeometry& g, const FirstLayerForward& o, cudaStream_t stream) {
  const Strips strips(g);
  const ForwardSteps steps(g, strips);
  const int64_t bytes = forward_shared_bytes(g, strips, steps), items = int64_t{2} * g.out_channels;
  int64_t blocks = std::min<int64_t>(steps.total, MULTIPROCESSORS * ForwardPlan<KERNEL>::BLOCKS);
  if (STATISTICS) blocks = slices_of(blocks, items, o.partial_bytes);
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(divide_up(g.out_channels, steps.channel_warps * WARP_CHANNELS)));
  auto* kernel = forward_kernel<T, KERNEL, STATISTICS>;
  allow_shared_bytes(kernel, bytes);
  kernel<<<grid, THREADS, static_cast<size_t>(bytes), stream>>>(
      g, strips, steps,
      ForwardOperands<T>{static_cast<const T*>(o.x), static_cast<const T*>(o.weight), o.bias, o.relu,
                         static_cast<T*>(o.y), o.partials});
  if (STATISTICS) sum_slices<float>(o.partials, blocks, items, o.sums, stream);
}

}  // namespace

bool first_layer_takes(DType dtype, const ConvGeometry& g, int64_t partial_bytes, int64_t shared_bytes) {
  if (dtype != DType::FP16 && dtype != DType::BF16) return false;
  if (g.groups != 1 || g.dilation != 1 || g.x_stride != 4 || g.y_stride != g.out_channels ||
      g.out_channels % 8 != 0 || g.kernel > MOST_KERNEL || g.stride > MOST_SEGMENT)
    return false;
  const Strips strips(g);
  int64_t needed = forward_shared_bytes(g, strips, ForwardSteps(g, strips));
  for_kernel(g.kernel, [&](auto kernel) {
    needed = std::max(needed, GradientPlan<decltype(kernel)::value>::shared_bytes(strips));
  });
  const int64_t items = std::max(gradient_items(g), int64_t{2} * g.out_channels);
  return needed <= shared_bytes && slices_of(1, items, partial_bytes) == 1;
}

void launch_first_layer_forward(DType dtype, const ConvGeometry& g, const FirstLayerForward& operands,
                                cudaStream_t stream) {
  for_sixteen_bits(dtype, [&](auto element) {
    using T = decltype(element);
    for_kernel(g.kernel, [&](auto kernel) {
      constexpr int KERNEL = decltype(kernel)::value;
      if (operands.sums != nullptr)
        launch_forward<T, KERNEL, true>(g, operands, stream);
      else
        launch_forward<T, KERNEL, false>(g, operands, stream);
    });
  });
}

void launch_first_layer_backward_weight(DType dtype, const ConvGeometry& g, const void* x, const void* dy,
                                        void* dw, float* partials, int64_t partial_bytes,
                                        cudaStream_t stream) {
  const Strips strips(g);
  const int64_t lines = int64_t{g.images} * strips.segments * g.out_height, items = gradient_items(g);
  for_sixteen_bits(dtype, [&](auto element) {
    using T = decltype(element);
    for_kernel(g.kernel, [&](auto size) {
      using Plan = GradientPlan<decltype(size)::value>;
      const int64_t wanted = std::min<int64_t>(lines, MULTIPROCESSORS * Plan::BLOCKS);
      const int64_t slices = slices_of(wanted, items, partial_bytes), bytes = Plan::shared_bytes(strips);
      const dim3 grid(static_cast<unsigned>(slices),
                      static_cast<unsigned>(divide_up(g.out_channels, Plan::CHANNELS)));
      auto* kernel = weight_gradient_kernel<T, decltype(size)::value>;
      allow_shared_bytes(kernel, bytes);
      kernel<<<grid, THREADS, static_cast<size_t>(bytes), stream>>>(g, strips, static_cast<const T*>(x),
                                                                    static_cast<const T*>(dy), partials);
      sum_slices<T>(partials, slices, items, static_cast<T*>(dw), stream);
    });
  });
}

}  // namespace tr
