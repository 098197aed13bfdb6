#include <climits>
#include <cmath>

#include "ops/softmax_cross_entropy/softmax_cross_entropy_cuda.h"
#include "ops/support/device.cuh"

namespace tr {
namespace {

constexpr int32_t NOT_COUNTED = -1;
constexpr int WARP = 32;
constexpr int MOST_THREADS = 1024;
constexpr int ROW_THREADS = 128;  // that share one sample
constexpr int FEW_CLASSES = 32;   // so few that a thread takes a whole sample

/// The first maximum of a row, or its first NaN.
struct Best {
  float value;
  int index;

  __device__ bool loses_to(const Best& other) const {
    const bool nan = isnan(value), other_nan = isnan(other.value);
    if (nan != other_nan) return other_nan;
    if (!nan && value != other.value) return other.value > value;
    return other.index < index;
  }
};

/// Sums over a row.
struct RowSums {
  float powers;   ///< of exp(x - largest)
  float offsets;  ///< of x - largest
  int ahead;      ///< logits that rank before the dominant label's
};

struct RowResult {
  Best best;
  float own, other;  ///< logits of the label and of the partner's
  RowSums sums;
};

/// How the threads of a block share work: `size` threads take one row, this one being the `lane`-th.
struct OneThread {
  static constexpr int size = 1;
  __device__ int lane() const { return 0; }
  __device__ Best best(const Best& own) const { return own; }
  __device__ RowSums sum(const RowSums& own) const { return own; }
};

struct WholeBlock {
  static constexpr int size = ROW_THREADS;
  __device__ int lane() const { return static_cast<int>(threadIdx.x); }

  /// Every thread gets the result.
  __device__ Best best(Best own) const {
    __shared__ Best of_warp[ROW_THREADS / WARP];
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
      const Best other{__shfl_xor_sync(0xffffffffu, own.value, distance),
                       __shfl_xor_sync(0xffffffffu, own.index, distance)};
      if (own.loses_to(other)) own = other;
    }
    if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = own;
    __syncthreads();
    own = of_warp[0];
    for (int warp = 1; warp < ROW_THREADS / WARP; ++warp)
      if (own.loses_to(of_warp[warp])) own = of_warp[warp];
    return own;
  }

  __device__ RowSums sum(RowSums own) const {
    __shared__ RowSums of_warp[ROW_THREADS / WARP];
    own.powers = device::warp_sum(own.powers);
    own.offsets = device::warp_sum(own.offsets);
    own.ahead = __reduce_add_sync(0xffffffffu, own.ahead);
    if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = own;
    __syncthreads();
    own = of_warp[0];
    for (int warp = 1; warp < ROW_THREADS / WARP; ++warp) {
      own.powers += of_warp[warp].powers;
      own.offsets += of_warp[warp].offsets;
      own.ahead += of_warp[warp].ahead;
    }
    return own;
  }
};

/// One sample: its logits in packs of V, shared by the threads of a team.
template <typename T, int V, typename Team>
struct Sample {
  __device__ Sample(const LossOperands& loss_operands, int sample, Team its_team)
      : operands(loss_operands),
        team(its_team),
        row(static_cast<const T*>(operands.logits) + int64_t{sample} * operands.logits_stride),
        number(sample),
        label(operands.labels[sample]),
        partner(label),
        share(operands.mix == nullptr ? 0.0f : operands.mix->share) {
    if (share != 0.0f) partner = operands.labels[operands.samples - 1 - sample];
  }

  __device__ bool counts() const { return label != NOT_COUNTED; }
  __device__ bool has_class() const {
    return label >= 0 && label < operands.classes && partner >= 0 && partner < operands.classes;
  }

  /// body(class, logit) for this thread's classes.
  template <typename Body>
  __device__ void each_logit(Body body) const {
    for (int first = team.lane() * V; first < operands.classes; first += Team::size * V) {
      const auto logits = device::load<T, V>(row + first);
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (first + i < operands.classes) body(first + i, device::to_float(logits.v[i]));
    }
  }

  __device__ RowResult measure() const {
    Best best{-INFINITY, INT_MAX};
    each_logit([&](int c, float logit) {
      if (const Best here{logit, c}; best.loses_to(here)) best = here;
    });
    best = team.best(best);
    const float own = has_class() ? device::to_float(row[label]) : 0.0f,
                other = has_class() ? device::to_float(row[partner]) : 0.0f;
    const float ranked = share > 0.5f ? other : own;
    const int dominant = share > 0.5f ? partner : label;
    RowSums sums{0.0f, 0.0f, 0};
    each_logit([&](int c, float logit) {
      const float offset = logit - best.value;
      sums.powers += expf(offset);
      sums.offsets += offset;
      sums.ahead += logit > ranked || (logit == ranked && c < dominant);
    });
    return {best, own, other, team.sum(sums)};
  }

  /// Loss and hits; writes the prediction and, times `weight`, the gradient, where they are wanted.
  __device__ SampleLoss finish(const RowResult& result, float smoothing, float weight) const {
    const auto& [best, own, other, sums] = result;
    if (operands.predicted != nullptr && team.lane() == 0) operands.predicted[number] = best.index;
    const float even = smoothing / static_cast<float>(operands.classes);
    if (operands.dx != nullptr) write_gradient(best.value, 1.0f / sums.powers, smoothing, even, weight);

    if (!counts()) return {0.0f, 0.0f, 0.0f, 0.0f};
    if (!has_class()) return {NAN, 0.0f, 0.0f, 0.0f};
    const float log_sum = logf(sums.powers);
    float of_labels = log_sum - (own - best.value);
    if (share != 0.0f) of_labels = (1.0f - share) * of_labels + share * (log_sum - (other - best.value));
    float loss = (1.0f - smoothing) * of_labels;
    if (smoothing != 0.0f) loss += smoothing * log_sum - even * sums.offsets;
    const bool comparable = !isnan(best.value);  // no logit is NaN
    return {loss, comparable && sums.ahead < 1 ? 1.0f : 0.0f, comparable && sums.ahead < 5 ? 1.0f : 0.0f,
            0.0f};
  }

 private:
  __device__ void write_gradient(float largest, float inverse, float smoothing, float even,
                                 float weight) const {
    T* to = static_cast<T*>(operands.dx) + int64_t{number} * operands.dx_stride;
    const float certain = 1.0f - smoothing, second = certain * share;
    const float own = (label == partner ? certain : certain - second) + even, other = second + even;
    for (int first = team.lane() * V; first < operands.dx_stride; first += Team::size * V) {
      device::Pack<T, V> gradient;
#pragma unroll
      for (int i = 0; i < V; ++i) gradient.v[i] = device::from_float<T>(0.0f);
      if (counts() && first < operands.classes) {
        const auto logits = device::load<T, V>(row + first);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const int c = first + i;
          if (c >= operands.classes) continue;
          const float power = expf(device::to_float(logits.v[i]) - largest) * inverse;
          const float wanted = c == label ? own : c == partner ? other : even;
          const float value = (power - wanted) * weight;
          gradient.v[i] = device::from_float<T>(has_class() ? value : NAN);
        }
      }
      device::store(to + first, gradient);
    }
  }

  const LossOperands& operands;
  Team team;
  const T* row;
  int number, label, partner;
  float share;  ///< of the partner's label
};

struct Scalars {
  __device__ explicit Scalars(const LossOperands& operands)
      : smoothing(operands.smoothing == nullptr ? 0.0f : *operands.smoothing),
        loss_scale(operands.loss_scale == nullptr ? 0.0f : *operands.loss_scale) {}
  /// Of a gradient where `counted` samples count.
  __device__ float weight(int counted) const {
    return counted == 0 ? 0.0f : loss_scale / static_cast<float>(counted);
  }

  float smoothing, loss_scale;
};

/// How many samples count; every thread of the block gets it. Once in a kernel.
__device__ int count_samples(const LossOperands& operands) {
  __shared__ int of_warp[WARP];
  int counted = 0;
  for (int n = static_cast<int>(threadIdx.x); n < operands.samples; n += static_cast<int>(blockDim.x))
    counted += operands.labels[n] != NOT_COUNTED;
  counted = __reduce_add_sync(0xffffffffu, counted);
  const unsigned lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
  if (lane == 0) of_warp[threadIdx.x / WARP] = counted;
  __syncthreads();
  return __reduce_add_sync(0xffffffffu, lane < warps ? of_warp[lane] : 0);
}

/// The sum over the block's threads, in a fixed order; valid in the first warp. Once in a kernel.
__device__ float block_sum(float value) {
  __shared__ float of_warp[WARP];
  const unsigned lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
  value = device::warp_sum(value);
  if (lane == 0) of_warp[threadIdx.x / WARP] = value;
  __syncthreads();
  return device::warp_sum(threadIdx.x < warps ? of_warp[lane] : 0.0f);
}

__device__ void write_means(const LossOperands& operands, float loss, int top1, int top5, int counted) {
  const auto mean = [&](float sum) { return counted == 0 ? 0.0f : sum / static_cast<float>(counted); };
  *operands.loss = mean(loss);
  *operands.top1 = mean(static_cast<float>(top1));
  *operands.top5 = mean(static_cast<float>(top5));
}

/// Everything in one block, a thread for each sample.
template <typename T, int V>
__global__ void __launch_bounds__(MOST_THREADS) loss_of_few(const LossOperands operands) {
  const int n = static_cast<int>(threadIdx.x);
  const Scalars scalars(operands);
  // Threads without a sample measure the last one again.
  const Sample<T, V, OneThread> sample(operands, min(n, operands.samples - 1), {});
  const RowResult row = sample.measure();
  const int counted = count_samples(operands);
  SampleLoss result{0.0f, 0.0f, 0.0f, 0.0f};
  if (n < operands.samples) result = sample.finish(row, scalars.smoothing, scalars.weight(counted));
  const int top1 = __syncthreads_count(result.top1 != 0.0f), top5 = __syncthreads_count(result.top5 != 0.0f);
  const float loss = block_sum(result.loss);
  if (n == 0) write_means(operands, loss, top1, top5, counted);
}

/// A block for each sample; loss_means() follows.
template <typename T, int V>
__global__ void __launch_bounds__(ROW_THREADS) loss_of_rows(const LossOperands operands) {
  const int n = static_cast<int>(blockIdx.x);
  const Scalars scalars(operands);
  const Sample<T, V, WholeBlock> sample(operands, n, {});
  const RowResult row = sample.measure();
  const int counted = operands.dx == nullptr ? 0 : count_samples(operands);
  const SampleLoss result = sample.finish(row, scalars.smoothing, scalars.weight(counted));
  if (threadIdx.x == 0) operands.results[n] = result;
}

__global__ void __launch_bounds__(MOST_THREADS) loss_means(const LossOperands operands) {
  float loss = 0.0f;
  int top1 = 0, top5 = 0;
  for (int first = 0; first < operands.samples; first += MOST_THREADS) {
    const int n = first + static_cast<int>(threadIdx.x);
    const SampleLoss result = n < operands.samples ? operands.results[n] : SampleLoss{0.0f, 0.0f, 0.0f, 0.0f};
    loss += result.loss;
    top1 += __syncthreads_count(result.top1 != 0.0f);
    top5 += __syncthreads_count(result.top5 != 0.0f);
  }
  const int counted = count_samples(operands);
  loss = block_sum(loss);
  if (threadIdx.x == 0) write_means(operands, loss, top1, top5, counted);
}

template <typename T, int V>
void launch(const LossOperands& operands, cudaStream_t stream) {
  if (operands.samples <= MOST_THREADS && operands.classes <= FEW_CLASSES) {
    const int threads = (operands.samples + WARP - 1) / WARP * WARP;
    loss_of_few<T, V><<<1, threads, 0, stream>>>(operands);
    return;
  }
  loss_of_rows<T, V><<<operands.samples, ROW_THREADS, 0, stream>>>(operands);
  loss_means<<<1, MOST_THREADS, 0, stream>>>(operands);
}

}  // namespace

void launch_softmax_cross_entropy(const LossOperands& operands, cudaStream_t stream) {
  device::for_dtype(operands.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int V = device::VECTOR<T>;
    const bool vectors =
        operands.logits_stride % V == 0 && (operands.dx == nullptr || operands.dx_stride % V == 0);
    if (vectors)
      launch<T, V>(operands, stream);
    else
      launch<T, 1>(operands, stream);
  });
}

}  // namespace tr
