/// Fills batch buffers from a Dataset on threads of its own, while the step that uses the other buffer runs.
/// Shuffling, crops and flips are keyed by (seed, purpose, epoch, sample): the number of workers changes
/// nothing. After construction nothing is allocated.
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

/// Where one rank's batch goes: dense NHWC [capacity, height, width, channels] and INT32 labels.
struct BatchTarget {
  std::byte* data = nullptr;  ///< normalized FP32, or pixels as UINT8 where `raw_bytes`
  int32_t* labels = nullptr;
  bool raw_bytes = false;
};

/// `count` consecutive samples of the epoch's order, starting at `first`, into targets of `capacity` ≥ count
/// samples; the rest is filled with zeros and label −1, which the loss does not count.
struct BatchRequest {
  BatchTarget target;
  int64_t first = 0, count = 0, capacity = 0;
};

class BatchLoader {
 public:
  /// `dataset` must outlive the loader. `shuffle`: a new Philox permutation each epoch, else file order.
  /// `most_requests`: the largest number of requests in one submit().
  BatchLoader(const Dataset& dataset, bool shuffle, uint64_t seed, int64_t workers, size_t most_requests);
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
  void fill_sample(const BatchRequest& request, int64_t slot) const;
  void stop_workers();

  const Dataset& dataset_;
  const bool shuffle_;
  const uint64_t seed_;
  int64_t epoch_ = 0;
  std::vector<uint32_t> order_;
  std::vector<BatchRequest> requests_;
  size_t num_requests_ = 0;
  const Transform* transform_ = nullptr;
  std::vector<float> table_;  ///< normalized value of every pixel value, per channel

  std::mutex mutex_;
  std::condition_variable start_, done_;
  uint64_t generation_ = 0;
  int64_t busy_workers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tr
