// A group of threads has a pixel. Each kernel reads it from memory once; what it reads again is in the cache.
#include "ops/layer_norm/layer_norm_cuda.h"
#include "ops/support/row_kernels.cuh"

namespace tr {
namespace {

using device::load_channels;
using device::load_pack;
using device::store_pack;

/// body(channel) for the thread's packs of a row.
template <int V, typename Body>
__device__ void each_pack(int channels, Body body) {
  for (int channel = static_cast<int>(threadIdx.x) * V; channel < channels;
       channel += static_cast<int>(blockDim.x) * V)
    body(channel);
}

/// body(row, whether there is one) in step for the whole block.
template <typename Body>
__device__ void each_row(int64_t rows, Body body) {
  for (int64_t base = int64_t{blockIdx.x} * blockDim.y; base < rows; base += int64_t{gridDim.x} * blockDim.y)
    body(base + threadIdx.y, base + threadIdx.y < rows);
}

/// Mean and inverse standard deviation of a row, in all threads of its group.
template <typename T, int V>
__device__ void find_statistics(const T* x, bool valid, int channels, float epsilon, float& mean,
                                float& inverse_std) {
  float sum = 0.0f, squares = 0.0f, values[V];
  if (valid)
    each_pack<V>(channels, [&](int channel) {
      load_pack<T, V>(x + channel, values);
#pragma unroll
      for (int i = 0; i < V; ++i) sum += channel + i < channels ? values[i] : 0.0f;
    });
  mean = device::group_sum(sum) / static_cast<float>(channels);
  if (valid)
    each_pack<V>(channels, [&](int channel) {
      load_pack<T, V>(x + channel, values);
#pragma unroll
      for (int i = 0; i < V; ++i)
        squares += channel + i < channels ? (values[i] - mean) * (values[i] - mean) : 0.0f;
    });
  inverse_std = __frsqrt_rn(device::group_sum(squares) / static_cast<float>(channels) + epsilon);
}

template <typename T, int V, bool KNOWN>
__global__ void __launch_bounds__(device::ROW_THREADS) normalize_rows(LayerNormForward f) {
  const int channels = f.shape.channels;
  each_row(f.shape.rows, [&](int64_t row, bool valid) {
    const T* x = static_cast<const T*>(f.x.data) + row * f.x.stride;
    float mean = 0.0f, inverse_std = 0.0f;
    if constexpr (KNOWN) {
      if (valid) mean = f.mean[row], inverse_std = f.inverse_std[row];
    } else {
      find_statistics<T, V>(x, valid, channels, f.epsilon, mean, inverse_std);
      if (valid && threadIdx.x == 0 && f.mean != nullptr) {
        f.mean[row] = mean;
        f.inverse_std[row] = inverse_std;
      }
    }
    if (!valid) return;
    T* y = static_cast<T*>(f.y.data) + row * f.y.stride;
    each_pack<V>(static_cast<int>(f.y.stride), [&](int channel) {
      float values[V] = {}, weight[V], bias[V];
      if (channel < channels) load_pack<T, V>(x + channel, values);
      load_channels<V>(f.weight, channel, channels, weight);
      load_channels<V>(f.bias, channel, channels, bias);
      // Spelled out, so that recomputation rounds alike.
#pragma unroll
      for (int i = 0; i < V; ++i)
        values[i] = __fmaf_rn(__fmul_rn(__fsub_rn(values[i], mean), inverse_std), weight[i], bias[i]);
      store_pack<T, V>(y + channel, values, channel, channels);
    });
  });
}

/// With g = dy weight and n = (x - mean) inverse_std: dx = inverse_std (g - mean(g) - n mean(g n)).
template <typename T, int V>
__global__ void __launch_bounds__(device::ROW_THREADS) input_gradient_rows(LayerNormBackward b) {
  const int channels = b.shape.channels;
  const float inverse_channels = 1.0f / static_cast<float>(channels);
  each_row(b.shape.rows, [&](int64_t row, bool valid) {
    const T* x = static_cast<const T*>(b.x.data) + row * b.x.stride;
    const T* dy = static_cast<const T*>(b.dy.data) + row * b.dy.stride;
    const float mean = valid ? b.mean[row] : 0.0f, inverse_std = valid ? b.inverse_std[row] : 0.0f;
    float xs[V], gs[V], weight[V], sum_g = 0.0f, sum_gn = 0.0f;
    const auto load = [&](int channel) {
      load_pack<T, V>(x + channel, xs);
      load_pack<T, V>(dy + channel, gs);
      load_channels<V>(b.weight, channel, channels, weight);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        xs[i] = (xs[i] - mean) * inverse_std;
        gs[i] *= weight[i];  // zero past the last channel
      }
    };
    if (valid)
      each_pack<V>(channels, [&](int channel) {
        load(channel);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          sum_g += gs[i];
          sum_gn += gs[i] * xs[i];
        }
      });
    const float mean_g = device::group_sum(sum_g) * inverse_channels,
                mean_gn = device::group_sum(sum_gn) * inverse_channels;
    if (!valid) return;
    T* dx = static_cast<T*>(b.dx.data) + row * b.dx.stride;
    each_pack<V>(static_cast<int>(b.dx.stride), [&](int channel) {
      if (channel < channels) load(channel);
#pragma unroll
      for (int i = 0; i < V; ++i) gs[i] = inverse_std * (gs[i] - mean_g - xs[i] * mean_gn);
      store_pack<T, V>(dx + channel, gs, channel, channels);
    });
  });
}

/// Terms of the gradients of weight and bias.
struct ParameterTerms {
  template <int V>
  __device__ void add(int64_t row, const float (&x)[V], const float (&dy)[V], float (&sums)[2][V]) const {
    const float center = mean[row], inverse = inverse_std[row];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      sums[0][i] += dy[i] * ((x[i] - center) * inverse);
      sums[1][i] += dy[i];
    }
  }
  const float *mean, *inverse_std;
};

template <typename T, int V>
void forward(const LayerNormForward& f, bool known, cudaStream_t stream) {
  const dim3 block = device::row_block((f.shape.channels + V - 1) / V);
  const unsigned grid = device::row_grid(f.shape.rows, block);
  if (known)
    normalize_rows<T, V, true><<<grid, block, 0, stream>>>(f);
  else
    normalize_rows<T, V, false><<<grid, block, 0, stream>>>(f);
}

template <typename T, int V>
void input_gradient(const LayerNormBackward& b, cudaStream_t stream) {
  const dim3 block = device::row_block((b.shape.channels + V - 1) / V);
  input_gradient_rows<T, V><<<device::row_grid(b.shape.rows, block), block, 0, stream>>>(b);
}

}  // namespace

void launch_layer_norm_forward(const LayerNormForward& f, bool known, cudaStream_t stream) {
  device::for_dtype(f.shape.dtype, [&](auto type) {
    using T = decltype(type);
    if (device::pack_width<T>({f.x, f.y}) == 1)
      forward<T, 1>(f, known, stream);
    else
      forward<T, device::VECTOR<T>>(f, known, stream);
  });
}

void launch_layer_norm_backward(const LayerNormBackward& b, cudaStream_t stream) {
  const ChannelSlices slices(b.shape.rows, b.shape.channels, 2);
  device::for_dtype(b.shape.dtype, [&](auto type) {
    using T = decltype(type);
    // First, since dx may be dy.
    device::launch_channel_sums<T, 2>(b.x, b.dy, slices, ParameterTerms{b.mean, b.inverse_std}, b.workspace,
                                      {{b.weight_grad, b.bias_grad}}, stream);
    if (b.dx.data == nullptr) return;
    if (device::pack_width<T>({b.x, b.dy, b.dx}) == 1)
      input_gradient<T, 1>(b, stream);
    else
      input_gradient<T, device::VECTOR<T>>(b, stream);
  });
}

}  // namespace tr
