/// Fills batch buffers from a Dataset on threads of its own, while the step that uses the other buffer runs.
/// Shuffling, crops, flips and erased boxes are keyed by (seed, purpose, epoch, sample), mixing by (seed,
/// purpose, epoch, first sample of the batch): the number of workers changes nothing. After construction
/// nothing is allocated.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"
#include "renaissance/core/types.h"

namespace tr {

/// Where one rank's batch goes: NHWC [capacity, height, width, channels] and INT32 labels.
struct BatchTarget {
  std::byte* data = nullptr;  ///< normalized, of `dtype`; or dense pixels as UINT8 where `raw_bytes`
  int32_t* labels = nullptr;
  bool raw_bytes = false;
  DType dtype = DType::FP32;  ///< FP32, or FP16 or BF16, to which pixels are rounded once
  int64_t pixel_stride = 0;   ///< of 16-bit pixels, in elements; what is beyond the channels becomes 0
  BatchMix* mix = nullptr;    ///< receives how the batch is mixed; null only where none is
};

/// `count` consecutive samples of the epoch's order, starting at `first`, into targets of `capacity` ≥ count
/// samples; the rest is filled with zeros and label −1, which the loss does not count. Where samples are
/// mixed, `count` must be `capacity`. Into raw bytes nothing is mixed here: the device does it.
struct BatchRequest {
  BatchTarget target;
  int64_t first = 0, count = 0, capacity = 0;
};

class BatchLoader {
 public:
  /// `dataset` must outlive the loader. `shuffle`: a new Philox permutation each epoch, else file order.
  /// `most_requests`: the largest number of requests in one submit(); `narrowed_elements`: those of the
  /// largest sample that goes to a 16-bit target, 0 where none does.
  BatchLoader(const Dataset& dataset, bool shuffle, uint64_t seed, int64_t workers, size_t most_requests,
              int64_t narrowed_elements = 0);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Draws the order of `epoch`. Only between wait() and the next submit().
  void start_epoch(int64_t epoch);
  /// Sample indices in this epoch's order.
  std::span<const uint32_t> order() const { return order_; }
  /// Starts filling; at most one submission is under way. `transform` is copied by reference: keep it alive
  /// until wait() returns.
  void submit(std::span<const BatchRequest> requests, const Transform& transform);
  /// Returns when the submission is filled; rethrows nothing: filling cannot fail.
  void wait();

 private:
  void work(int64_t worker, int64_t workers);
  /// `wide`: room for a sample in FP32, where it goes to a 16-bit target.
  void fill_sample(const BatchRequest& request, int64_t slot, std::span<float> wide) const;
  void draw_mixes();
  /// This worker's pairs of every request.
  void mix_pairs(int64_t worker, int64_t workers) const;
  void stop_workers();

  const Dataset& dataset_;
  const bool shuffle_;
  const uint64_t seed_;
  int64_t epoch_ = 0;
  std::vector<uint32_t> order_;
  std::vector<BatchRequest> requests_;
  std::vector<BatchMix> mixes_;  ///< by request
  size_t num_requests_ = 0;
  bool mixes_pixels_ = false;  ///< in any request of the submission
  const Transform* transform_ = nullptr;
  std::vector<float> table_;  ///< normalized value of every pixel value, per channel
  std::vector<float> wide_;   ///< a sample for each worker

  std::mutex mutex_;
  std::condition_variable start_, filled_, done_;
  uint64_t generation_ = 0;
  int64_t busy_workers_ = 0, filling_workers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tr
