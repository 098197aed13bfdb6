/// A batch as the loader leaves it on the card, [INT32 labels | padding, at its end perhaps a BatchMix |
/// UINT8 pixels, dense NHWC], to the network's input tensors: labels INT32, pixels (value / 255 - mean) / std
/// per channel in FP32, mixed where the batch is, rounded once to the input's type. Nothing is kept.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "renaissance/core/batch_mix.h"
#include "renaissance/core/types.h"

namespace tr {

struct RawBatch {
  const std::byte* data = nullptr;
  int64_t label_bytes = 0;  ///< before the pixels; at least 4 * samples
  int64_t samples = 0;
  int64_t height_width = 0;  ///< pixels of one sample
  int64_t channels = 0;
  const BatchMix* mix = nullptr;  ///< on the card; null: batches are not mixed
  int64_t width = 0;              ///< of an image; only where they are
};

struct InputTensors {
  int32_t* labels = nullptr;
  void* data = nullptr;
  DType dtype = DType::FP32;  ///< FP32, FP16 or BF16
  /// Elements from pixel to pixel: the channels in FP32, rounded up to a multiple of 4 in 16 bits; the
  /// channels between become 0.
  int64_t pixel_stride = 0;
  BatchMix* mix = nullptr;  ///< receives the raw batch's, where there is one
};

/// `mean` and `deviation`: one per channel, or empty for 0 and 1.
void launch_unpack_input(const RawBatch& raw, std::span<const float> mean, std::span<const float> deviation,
                         const InputTensors& input, cudaStream_t stream);

}  // namespace tr
