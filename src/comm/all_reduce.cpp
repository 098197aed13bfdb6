#include "comm/all_reduce.h"

#include "core/parallel.h"

namespace tr {

void all_reduce_sum(const std::vector<float*>& arrays, int64_t elements, float scale) {
  parallel_pieces(elements, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      float sum = 0.0f;
      for (const float* array : arrays) sum += array[i];
      sum *= scale;
      for (float* array : arrays) array[i] = sum;
    }
  });
}

void all_reduce_statistics(const std::vector<float*>& means, const std::vector<float*>& variances,
                           int64_t elements, float momentum) {
  // Running means differ by momentum times what the batches\' means differ by, and count momentum times.
  const float spread = momentum > 0.0f ? 1.0f / momentum : 0.0f;
  const float scale = 1.0f / static_cast<float>(means.size());
  for (int64_t i = 0; i < elements; ++i) {
    float mean = 0.0f, variance = 0.0f;
    for (const float* rank : means) mean += rank[i] * scale;
    for (size_t rank = 0; rank < means.size(); ++rank) {
      const float distance = means[rank][i] - mean;
      variance += (variances[rank][i] + distance * distance * spread) * scale;
    }
    for (size_t rank = 0; rank < means.size(); ++rank) {
      means[rank][i] = mean;
      variances[rank][i] = variance;
    }
  }
}

}  // namespace tr
