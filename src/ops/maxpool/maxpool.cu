#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/maxpool/maxpool_cuda.h"
#include "ops/support/pool.cuh"

namespace tr {
namespace {

using device::Pack;
using device::Place;
using device::PlaceIndex;

constexpr int PER_IMAGE_THREADS = 256;
constexpr int WORDS = 4;                     // registers that hold 16 bytes of elements
constexpr uint32_t NO_PLACES = 0xffffffffu;  // four bytes of 255; kernels of at most 15 have places below 225

__device__ bool inside(int at, int size) { return static_cast<unsigned>(at) < static_cast<unsigned>(size); }
__device__ int clamp(int at, int size) { return max(0, min(at, size - 1)); }
/// Bit by bit, a where `mask` is 1, else b.
__device__ uint32_t select(uint32_t mask, uint32_t a, uint32_t b) { return (mask & a) | (~mask & b); }

__device__ float2 to_floats(__half2 pair) { return __half22float2(pair); }
__device__ float2 to_floats(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ void from_floats(float2 values, __half2* pair) { *pair = __float22half2_rn(values); }
__device__ void from_floats(float2 values, __nv_bfloat162* pair) { *pair = __float22bfloat162_rn(values); }

/// A register of elements of T and the places that belong to them, each as wide as its element: one lane of
/// FP32 here. Comparisons give all ones or zeros in each lane.
template <typename T>
struct Lanes {
  static_assert(std::is_same_v<T, float>);
  static constexpr uint32_t EACH = 1;  // times a place: the place in each lane
  static constexpr uint32_t NO_SIGN = 0x7fffffff;

  __device__ static uint32_t greater(uint32_t a, uint32_t b) {
    return __uint_as_float(a) > __uint_as_float(b) ? ~0u : 0u;
  }
  __device__ static uint32_t same_place(uint32_t a, uint32_t b) { return a == b ? ~0u : 0u; }
  __device__ static uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
    return __float_as_uint(fmaf(__uint_as_float(a), __uint_as_float(b), __uint_as_float(c)));
  }
  template <int COUNT>
  __device__ static uint32_t sum(const uint32_t (&terms)[COUNT]) {
    float total = __uint_as_float(terms[0]);
#pragma unroll
    for (int i = 1; i < COUNT; ++i) total += __uint_as_float(terms[i]);
    return __float_as_uint(total);
  }

  /// The places of WORDS registers as bytes, and those of register `i` from bytes.
  using Bytes = Pack<uint32_t, 1>;
  __device__ static Bytes to_bytes(const uint32_t (&place)[WORDS]) {
    return {__byte_perm(__byte_perm(place[0], place[1], 0x0040), __byte_perm(place[2], place[3], 0x0040),
                        0x5410)};
  }
  __device__ static uint32_t from_bytes(const Bytes& bytes, int i) { return bytes.v[0] >> 8 * i & 0xff; }
};

/// Two lanes of 16 bits.
template <typename Pair>
struct PairLanes {
  static constexpr uint32_t EACH = 0x00010001, NO_SIGN = 0x7fff7fff;

  template <typename As = Pair>
  __device__ static As pair(uint32_t word) {
    return *reinterpret_cast<const As*>(&word);
  }
  __device__ static uint32_t word(Pair values) { return *reinterpret_cast<const uint32_t*>(&values); }

  __device__ static uint32_t greater(uint32_t a, uint32_t b) { return __hgt2_mask(pair(a), pair(b)); }
  /// Small integers are subnormal halves, and compare as such.
  __device__ static uint32_t same_place(uint32_t a, uint32_t b) {
    return __heq2_mask(pair<__half2>(a), pair<__half2>(b));
  }
  __device__ static uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
    return word(__hfma2(pair(a), pair(b), pair(c)));
  }
  template <int COUNT>
  __device__ static uint32_t sum(const uint32_t (&terms)[COUNT]) {
    if constexpr (COUNT == 1) {
      return terms[0];
    } else if constexpr (COUNT == 2) {
      return word(__hadd2(pair(terms[0]), pair(terms[1])));  // what the sum in FP32 rounds to
    } else {
      float2 total = to_floats(pair(terms[0]));
#pragma unroll
      for (int i = 1; i < COUNT; ++i) {
        const float2 term = to_floats(pair(terms[i]));
        total = {total.x + term.x, total.y + term.y};
      }
      Pair rounded;
      from_floats(total, &rounded);
      return word(rounded);
    }
  }

  using Bytes = Pack<uint32_t, 2>;
  __device__ static Bytes to_bytes(const uint32_t (&place)[WORDS]) {
    return {__byte_perm(place[0], place[1], 0x6420), __byte_perm(place[2], place[3], 0x6420)};
  }
  __device__ static uint32_t from_bytes(const Bytes& bytes, int i) {
    return __byte_perm(bytes.v[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342);
  }
};
template <>
struct Lanes<__half> : PairLanes<__half2> {};
template <>
struct Lanes<__nv_bfloat16> : PairLanes<__nv_bfloat162> {};

/// Zeroes all bytes but the first `kept`.
template <int N>
__device__ void drop_bytes(Pack<uint32_t, N>& bytes, int kept) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int here = kept - 4 * i;
    bytes.v[i] &= here >= 4 ? ~0u : here <= 0 ? 0u : (1u << 8 * here) - 1;
  }
}

using Words = Pack<uint32_t, WORDS>;
template <typename T>
__device__ Words load_words(const T* from) {
  return *reinterpret_cast<const Words*>(from);
}
/// In assembly because the compiler takes a store apart where it sees how its words came to be.
template <typename T>
__device__ void store_words(T* to, const uint32_t (&words)[WORDS]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

/// The maxima of one window, V channels of it, one value at a time.
template <typename T, int V>
struct WindowMaximum {
  __device__ WindowMaximum(const T* image, const PoolGeometry& g, const Place& out) {
    const int h0 = out.row * g.stride - g.padding, w0 = out.column * g.stride - g.padding;
    const int skipped_rows = max(-h0, 0), skipped_columns = max(-w0, 0);
    // The first value of a window wins unless one is larger, be it -infinity.
#pragma unroll
    for (int i = 0; i < V; ++i) {
      best[i] = -INFINITY;
      place[i] = skipped_rows * g.kernel + skipped_columns;
    }
    for (int r = skipped_rows; r < min(g.kernel, g.height - h0); ++r) {
      const T* row = image + int64_t{h0 + r} * g.width * g.map_stride + out.channel;
      for (int s = skipped_columns; s < min(g.kernel, g.width - w0); ++s)
        take(device::load<T, V>(row + (w0 + s) * g.map_stride), r * g.kernel + s);
    }
  }

  /// A NaN always wins.
  __device__ void take(const Pack<T, V>& values, int at) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float value = device::to_float(values.v[i]);
      const bool wins = value > best[i] || value != value;
      best[i] = wins ? value : best[i];
      place[i] = wins ? at : place[i];
    }
  }

  float best[V];
  int place[V];
};

/// What the forward kernels read and write of one image.
template <typename T>
struct ForwardImage {
  __device__ ForwardImage(const PoolGeometry& g, int64_t n, const T* all_x, T* all_y, uint8_t* all_places,
                          int places_stride)
      : x(all_x + n * g.height * g.width * g.map_stride),
        y(all_y + n * g.out_height * g.out_width * g.pooled_stride),
        place(all_places + n * g.out_height * g.out_width * places_stride),
        place_stride(places_stride) {}

  const T* x;
  T* y;
  uint8_t* place;
  int place_stride;
};

/// V channels of one output.
template <typename T, int V, bool SAVE>
__device__ void any_window(const PoolGeometry& g, const ForwardImage<T>& image, const Place& out) {
  const int64_t pixel = int64_t{out.row} * g.out_width + out.column;
  Pack<T, V> maxima;
  Pack<uint8_t, V> places;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    maxima.v[i] = device::from_float<T>(0.0f);
    places.v[i] = 0;
  }
  if (out.channel < g.channels) {
    const WindowMaximum<T, V> window(image.x, g, out);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (out.channel + i >= g.channels) continue;
      maxima.v[i] = device::from_float<T>(window.best[i]);
      places.v[i] = static_cast<uint8_t>(window.place[i]);
    }
  }
  if (out.channel < g.pooled_stride) device::store(image.y + pixel * g.pooled_stride + out.channel, maxima);
  if (SAVE && out.channel < image.place_stride)
    device::store(image.place + pixel * image.place_stride + out.channel, places);
}

/// A thread for each output, windows of any size.
template <typename T, int V, bool SAVE>
__global__ void __launch_bounds__(PER_IMAGE_THREADS)
    maxpool_forward_windows(PoolGeometry g, PlaceIndex index, const T* x, T* y, uint8_t* place,
                            int place_stride) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place out = index[item];
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y)
    any_window<T, V, SAVE>(g, ForwardImage<T>(g, n, x, y, place, place_stride), out);
}

/// Running maxima of 16 bytes of channels, and where they are.
template <typename T>
struct Maxima {
  __device__ void start(int i, uint32_t value, uint32_t at) {
    best[i] = value;
    place[i] = at;
  }
  /// Selects instead of taking the larger: of -0 and +0 the first wins.
  __device__ void take(int i, uint32_t value, uint32_t at) {
    const uint32_t wins = Lanes<T>::greater(value, best[i]);
    best[i] = select(wins, value, best[i]);
    place[i] = select(wins, at, place[i]);
  }

  uint32_t best[WORDS], place[WORDS];
};

/// The windows of one column of outputs, from top to bottom: each row of a window is searched once, and
/// serves all windows that it lies in. What lies outside reads as the nearest inside: a copy of a value of
/// the same window, which wins only when it comes first, at the left or the top, and then has that value's
/// place. As kernels here are 2 or 3, no more than one row and column there are outside.
template <typename T, int KERNEL, int STRIDE>
class WindowColumn {
  using L = Lanes<T>;

 public:
  __device__ WindowColumn(const PoolGeometry& geometry, const T* image, int column, int channel,
                          int first_row)
      : g_(geometry), image_(image), h0_(first_row * STRIDE - g_.padding) {
    const int w0 = column * STRIDE - g_.padding;
    left_ = w0 < 0 ? L::EACH : 0;
#pragma unroll
    for (int s = 0; s < KERNEL; ++s) at_[s] = clamp(w0 + s, g_.width) * g_.map_stride + channel;
    search<0, OVERLAP>();
  }

  /// The maxima of the next window.
  __device__ Maxima<T> next() {
    search<OVERLAP, KERNEL>();
    Maxima<T> window;
    const uint32_t top = h0_ < 0 ? KERNEL * L::EACH : 0;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      window.start(i, rows_[0].best[i], rows_[0].place[i] + top);
#pragma unroll
      for (int r = 1; r < KERNEL; ++r)
        window.take(i, rows_[r].best[i], rows_[r].place[i] + static_cast<uint32_t>(r * KERNEL) * L::EACH);
    }
#pragma unroll
    for (int r = 0; r < OVERLAP; ++r) rows_[r] = rows_[r + STRIDE];
    h0_ += STRIDE;
    return window;
  }

  /// Whether any value so far was a NaN or infinite: then places are not to be trusted.
  __device__ bool suspect() const {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) any |= zero_[i];
    return (any & L::NO_SIGN) != 0;
  }

 private:
  static constexpr int OVERLAP = KERNEL - STRIDE;

  /// Rows FIRST … END - 1 of the window at h0_; all loads are under way before the first is waited for.
  template <int FIRST, int END>
  __device__ void search() {
    if constexpr (FIRST < END) {
      Words in[END - FIRST][KERNEL];
#pragma unroll
      for (int r = FIRST; r < END; ++r) {
        const uint32_t row = static_cast<uint32_t>(clamp(h0_ + r, g_.height) * g_.width * g_.map_stride);
#pragma unroll
        for (int s = 0; s < KERNEL; ++s) in[r - FIRST][s] = load_words(image_ + (row + at_[s]));
      }
#pragma unroll
      for (int r = FIRST; r < END; ++r) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
          rows_[r].start(i, in[r - FIRST][0].v[i], left_);
#pragma unroll
          for (int s = 1; s < KERNEL; ++s)
            rows_[r].take(i, in[r - FIRST][s].v[i], static_cast<uint32_t>(s) * L::EACH);
#pragma unroll
          for (int s = 0; s < KERNEL; ++s)
            zero_[i] = L::multiply_add(in[r - FIRST][s].v[i], 0, zero_[i]);  // NaN unless finite
        }
      }
    }
  }

  const PoolGeometry& g_;
  const T* image_;
  int h0_;               // first row of the next window
  uint32_t left_;        // place of a row's first value
  uint32_t at_[KERNEL];  // where the columns begin in a row
  uint32_t zero_[WORDS] = {};
  Maxima<T> rows_[KERNEL];
};

/// A thread for 16 bytes of channels of each strip: `strip_rows` outputs of one column.
template <typename T, int KERNEL, int STRIDE, bool SAVE>
__global__ void __launch_bounds__(PER_IMAGE_THREADS, KERNEL - STRIDE < 2 ? 4 : 3)
    maxpool_forward_strips(PoolGeometry g, PlaceIndex index, int strip_rows, const T* __restrict__ x,
                           T* __restrict__ y, uint8_t* __restrict__ place, int place_stride) {
  using Bytes = typename Lanes<T>::Bytes;
  constexpr int V = device::VECTOR<T>;
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place strip = index[item];
  const int channel = strip.channel, first = strip.row * strip_rows,
            end = min(first + strip_rows, g.out_height);
  // FP32 places may have four channels of padding where y has none.
  const bool pads = channel + V >= g.pooled_stride && place_stride > g.pooled_stride;
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    const ForwardImage<T> image(g, n, x, y, place, place_stride);
    WindowColumn<T, KERNEL, STRIDE> column(g, image.x, strip.column, channel, first);
    const int64_t pixel = int64_t{first} * g.out_width + strip.column;
    T* to = image.y + pixel * g.pooled_stride + channel;
    uint8_t* place_to = image.place + pixel * place_stride + channel;
#pragma unroll 1
    for (int p = first; p < end; ++p) {
      const Maxima<T> maxima = column.next();
      store_words(to, maxima.best);
      to += g.out_width * g.pooled_stride;
      if constexpr (SAVE) {
        Bytes bytes = Lanes<T>::to_bytes(maxima.place);
        if (channel + V > g.channels) drop_bytes(bytes, g.channels - channel);
        *reinterpret_cast<Bytes*>(place_to) = bytes;
        if (pads) *reinterpret_cast<Bytes*>(place_to + V) = Bytes{};
        place_to += g.out_width * place_stride;
      }
    }
    if (column.suspect())
      for (int p = first; p < end; ++p) any_window<T, V, SAVE>(g, image, {p, strip.column, channel});
  }
}

/// The gradient and the places of one window, 16 bytes of channels.
template <typename T>
struct WindowGradient {
  /// Nothing is the maximum of a window outside.
  __device__ void load(const T* dy, const uint8_t* place, bool valid) {
    using Bytes = typename Lanes<T>::Bytes;
    gradient = load_words(dy);
    bytes = *reinterpret_cast<const Bytes*>(place);
#pragma unroll
    for (int i = 0; i < device::VECTOR<T> / 4; ++i) bytes.v[i] = valid ? bytes.v[i] : NO_PLACES;
  }
  /// Register i of what goes to place `at`.
  __device__ uint32_t part(int i, int at) const {
    const uint32_t places = Lanes<T>::from_bytes(bytes, i);
    return gradient.v[i] & Lanes<T>::same_place(places, static_cast<uint32_t>(at) * Lanes<T>::EACH);
  }

  Words gradient;
  typename Lanes<T>::Bytes bytes;
};

/// Tiles of STRIDE x STRIDE pixels of dx, from top to bottom: the pixels of a tile lie in the same few
/// windows, of which the upper ones are also those of the tile above.
template <typename T, int KERNEL, int STRIDE>
class TileColumn {
 public:
  __device__ TileColumn(const PoolGeometry& geometry, const T* dy, const uint8_t* place, int place_stride,
                        int column, int channel, int first_row)
      : g_(geometry),
        dy_(dy + channel),
        place_(place + channel),
        place_stride_(place_stride),
        column_(column),
        row_(first_row) {
#pragma unroll
    for (int j = 1; j < REACH; ++j) load(j);
  }

  /// Loads what the next tile lacks.
  __device__ void fetch() { load(0); }
  /// Pixel (r, s) of that tile. Terms come in row order of their windows.
  template <int R, int S>
  __device__ Words pixel() const {
    constexpr int ROWS = (KERNEL - R + STRIDE - 1) / STRIDE, COLUMNS = (KERNEL - S + STRIDE - 1) / STRIDE;
    Words out;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      uint32_t terms[ROWS * COLUMNS];
#pragma unroll
      for (int k = 0; k < ROWS * COLUMNS; ++k) {
        const int j = ROWS - 1 - k / COLUMNS, l = COLUMNS - 1 - k % COLUMNS;
        terms[k] = windows_[j][l].part(i, (j * STRIDE + R) * KERNEL + l * STRIDE + S);
      }
      out.v[i] = Lanes<T>::sum(terms);
    }
    return out;
  }
  __device__ void advance() {
#pragma unroll
    for (int j = REACH - 1; j > 0; --j) {
#pragma unroll
      for (int l = 0; l < REACH; ++l) windows_[j][l] = windows_[j - 1][l];
    }
    ++row_;
  }

 private:
  static constexpr int REACH = (KERNEL + STRIDE - 1) / STRIDE;

  __device__ void load(int j) {
    const int p = row_ - j;
#pragma unroll
    for (int l = 0; l < REACH; ++l) {
      const int q = column_ - l;
      const uint32_t window =
          static_cast<uint32_t>(clamp(p, g_.out_height) * g_.out_width + clamp(q, g_.out_width));
      windows_[j][l].load(dy_ + window * g_.pooled_stride, place_ + window * place_stride_,
                          inside(p, g_.out_height) && inside(q, g_.out_width));
    }
  }

  const PoolGeometry& g_;
  const T* dy_;
  const uint8_t* place_;
  int place_stride_, column_;
  int row_;  // of the next tile
  WindowGradient<T> windows_[REACH]
                            [REACH];  // [j][l]: the window j rows above and l columns left of the tile's
};

/// A thread for 16 bytes of channels of each strip: `strip_rows` tiles of one column.
template <typename T, int KERNEL, int STRIDE>
__global__ void __launch_bounds__(PER_IMAGE_THREADS, 4)
    maxpool_backward_strips(PoolGeometry g, PlaceIndex index, int strip_rows, int tile_rows,
                            const T* __restrict__ dy, const uint8_t* __restrict__ place, int place_stride,
                            T* __restrict__ dx) {
  static_assert(STRIDE == 2);
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place strip = index[item];
  const int first = strip.row * strip_rows, end = min(first + strip_rows, tile_rows);
  const int64_t windows = int64_t{g.out_height} * g.out_width;
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    TileColumn<T, KERNEL, STRIDE> tiles(g, dy + n * windows * g.pooled_stride,
                                        place + n * windows * place_stride, place_stride, strip.column,
                                        strip.channel, first);
    const int w = strip.column * STRIDE - g.padding, line = g.width * g.map_stride;
    int h = first * STRIDE - g.padding;
    int64_t at = ((n * g.height + h) * g.width + w) * g.map_stride + strip.channel;
#pragma unroll 1
    for (int row = first; row < end; ++row) {
      const auto put = [&](int r, int s, const Words& pixel) {
        if (inside(h + r, g.height) && inside(w + s, g.width))
          store_words(dx + (at + r * line + s * g.map_stride), pixel.v);
      };
      tiles.fetch();
      put(0, 0, tiles.template pixel<0, 0>());
      put(0, 1, tiles.template pixel<0, 1>());
      put(1, 0, tiles.template pixel<1, 0>());
      put(1, 1, tiles.template pixel<1, 1>());
      tiles.advance();
      h += STRIDE;
      at += STRIDE * line;
    }
  }
}

/// A thread for each pixel, windows of any size.
template <typename T, int V>
__global__ void __launch_bounds__(PER_IMAGE_THREADS)
    maxpool_backward_pixels(PoolGeometry g, PlaceIndex index, const T* dy, const uint8_t* place,
                            int place_stride, T* dx) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (!index.has(item)) return;
  const Place in = index[item];
  const device::WindowsOf rows(g, in.row, g.out_height), columns(g, in.column, g.out_width);
  for (int64_t n = blockIdx.y; n < g.images; n += gridDim.y) {
    float sum[V] = {};
    for (int p = rows.first; p < rows.end; ++p) {
#pragma unroll 2
      for (int q = columns.first; q < columns.end; ++q) {
        const int64_t window = (n * g.out_height + p) * g.out_width + q;
        const int here =
            (in.row + g.padding - p * g.stride) * g.kernel + in.column + g.padding - q * g.stride;
        const auto gradient = device::load<T, V>(dy + window * g.pooled_stride + in.channel);
        const auto places = device::load<uint8_t, V>(place + window * place_stride + in.channel);
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += places.v[i] == here ? device::to_float(gradient.v[i]) : 0.0f;
      }
    }
    Pack<T, V> out;
#pragma unroll
    for (int i = 0; i < V; ++i) out.v[i] = device::from_float<T>(sum[i]);
    device::store(dx + ((n * g.height + in.row) * g.width + in.column) * g.map_stride + in.channel, out);
  }
}

/// Rows of a strip: as many as leave threads for the whole device, eight at most.
int rows_of_strip(int64_t images, int rows, int64_t threads_per_row) {
  constexpr int64_t THREADS = int64_t{1} << 19, MOST_ROWS = 8;
  const int64_t most = std::clamp<int64_t>(images * rows * threads_per_row / THREADS, 1, MOST_ROWS);
  const int64_t strips = (rows + most - 1) / most;
  return static_cast<int>((rows + strips - 1) / strips);
}

template <typename T, int V>
void forward_windows(const PoolGeometry& g, const T* x, T* y, uint8_t* place, int place_stride,
                     cudaStream_t stream) {
  const bool save = place != nullptr;
  const PlaceIndex index(g.out_height, g.out_width,
                         save ? std::max(g.pooled_stride, place_stride) : g.pooled_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  const auto kernel = save ? maxpool_forward_windows<T, V, true> : maxpool_forward_windows<T, V, false>;
  kernel<<<blocks, threads, 0, stream>>>(g, index, x, y, place, place_stride);
}

template <typename T, int KERNEL, int STRIDE>
void forward_strips(const PoolGeometry& g, const T* x, T* y, uint8_t* place, int place_stride,
                    cudaStream_t stream) {
  constexpr int V = device::VECTOR<T>;
  const int rows = rows_of_strip(g.images, g.out_height, int64_t{g.out_width} * g.pooled_stride / V);
  const PlaceIndex index((g.out_height + rows - 1) / rows, g.out_width, g.pooled_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  const auto kernel = place != nullptr ? maxpool_forward_strips<T, KERNEL, STRIDE, true>
                                       : maxpool_forward_strips<T, KERNEL, STRIDE, false>;
  kernel<<<blocks, threads, 0, stream>>>(g, index, rows, x, y, place, place_stride);
}

template <typename T, int KERNEL, int STRIDE>
void backward_strips(const PoolGeometry& g, const T* dy, const uint8_t* place, int place_stride, T* dx,
                     cudaStream_t stream) {
  constexpr int V = device::VECTOR<T>;
  const auto tiles = [&](int size) { return (size + g.padding + STRIDE - 1) / STRIDE; };
  const int tile_rows = tiles(g.height), tile_columns = tiles(g.width);
  const int rows = rows_of_strip(g.images, tile_rows, int64_t{tile_columns} * g.map_stride / V);
  const PlaceIndex index((tile_rows + rows - 1) / rows, tile_columns, g.map_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  maxpool_backward_strips<T, KERNEL, STRIDE>
      <<<blocks, threads, 0, stream>>>(g, index, rows, tile_rows, dy, place, place_stride, dx);
}

template <typename T, int V>
void backward_pixels(const PoolGeometry& g, const T* dy, const uint8_t* place, int place_stride, T* dx,
                     cudaStream_t stream) {
  const PlaceIndex index(g.height, g.width, g.map_stride, V);
  const auto [blocks, threads] = device::image_grid(g.images, index);
  maxpool_backward_pixels<T, V><<<blocks, threads, 0, stream>>>(g, index, dy, place, place_stride, dx);
}

}  // namespace

void launch_maxpool_forward(DType dtype, const PoolGeometry& g, const void* x, void* y, uint8_t* place,
                            int place_stride, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int V = device::VECTOR<T>;
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (!device::takes_vectors<T>(g.map_stride, g.pooled_stride))
      return forward_windows<T, 1>(g, from, to, place, place_stride, stream);
    if (g.kernel == 2 && g.stride == 2)
      return forward_strips<T, 2, 2>(g, from, to, place, place_stride, stream);
    if (g.kernel == 3 && g.stride == 2)
      return forward_strips<T, 3, 2>(g, from, to, place, place_stride, stream);
    if (g.kernel == 3 && g.stride == 1)
      return forward_strips<T, 3, 1>(g, from, to, place, place_stride, stream);
    forward_windows<T, V>(g, from, to, place, place_stride, stream);
  });
}

void launch_maxpool_backward(DType dtype, const PoolGeometry& g, const void* dy, const uint8_t* place,
                             int place_stride, void* dx, cudaStream_t stream) {
  device::for_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int V = device::VECTOR<T>;
    const T* from = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    if (!device::takes_vectors<T>(g.map_stride, g.pooled_stride))
      return backward_pixels<T, 1>(g, from, place, place_stride, to, stream);
    if (g.kernel == 2 && g.stride == 2)
      return backward_strips<T, 2, 2>(g, from, place, place_stride, to, stream);
    if (g.kernel == 3 && g.stride == 2)
      return backward_strips<T, 3, 2>(g, from, place, place_stride, to, stream);
    backward_pixels<T, V>(g, from, place, place_stride, to, stream);
  });
}

}  // namespace tr
