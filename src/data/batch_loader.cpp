#include "data/batch_loader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "core/sixteen_bits.h"
#include "renaissance/core/error.h"
#include "renaissance/core/philox.h"

namespace tr {

BatchLoader::BatchLoader(const Dataset& dataset, bool shuffle, uint64_t seed, int64_t workers,
                         size_t most_requests, int64_t narrowed_elements)
    : dataset_(dataset), shuffle_(shuffle), seed_(seed) {
  TR_CHECK(dataset.count > 0 && dataset.count <= std::numeric_limits<uint32_t>::max(), ValueError,
           cat("loader: dataset of ", dataset.count, " samples; 1 to 2^32 - 1 are possible"));
  TR_CHECK(std::ssize(dataset.images) == std::ssize(dataset.labels) * dataset.image_bytes() &&
               !dataset.labels.empty() && std::ssize(dataset.labels) <= dataset.count,
           ValueError,
           cat("loader: dataset of ", dataset.count, " samples of ", dataset.image_bytes(), " bytes holds ",
               dataset.images.size(), " bytes and ", dataset.labels.size(), " labels"));
  TR_CHECK(workers > 0, ValueError, cat("loader: ", workers, " workers; at least 1 is needed"));
  order_.resize(static_cast<size_t>(dataset.count));
  requests_.resize(most_requests);
  mixes_.resize(most_requests);
  table_.resize(static_cast<size_t>(dataset.channels) * 256);
  wide_.resize(static_cast<size_t>(narrowed_elements * workers));
  start_epoch(0);
  try {
    workers_.reserve(static_cast<size_t>(workers));
    for (int64_t worker = 0; worker < workers; ++worker)
      workers_.emplace_back([this, worker, workers] { work(worker, workers); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size();
    stop_workers();
    throw Error(ErrorKind::ValueError, cat("loader: cannot start ", workers, " workers, ", started,
                                           " started: ", error.what(), "; use fewer"));
  }
}

BatchLoader::~BatchLoader() { stop_workers(); }

void BatchLoader::stop_workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  filled_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void BatchLoader::start_epoch(int64_t epoch) {
  TR_CHECK(epoch >= 0 && epoch <= std::numeric_limits<uint32_t>::max(), ValueError,
           cat("loader: epoch ", epoch, "; 0 to 2^32 - 1 are possible"));
  {
    const std::lock_guard lock(mutex_);
    TR_CHECK(busy_workers_ == 0, StateError, "loader: start_epoch() during a submission; call wait() first");
  }
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0u);
  if (!shuffle_) return;
  // Fisher-Yates from the identity, so that an epoch's order does not depend on the epochs before it.
  const Philox random(seed_);
  Philox::Block bits{};
  for (size_t step = 0, last = order_.size() - 1; last > 0; ++step, --last) {
    if (step % bits.size() == 0)
      bits = random.at(RandomPurpose::SHUFFLE, static_cast<uint32_t>(epoch), step / bits.size());
    std::swap(order_[last], order_[Philox::below(bits[step % bits.size()], static_cast<uint32_t>(last + 1))]);
  }
}

void BatchLoader::submit(std::span<const BatchRequest> requests, const Transform& transform) {
  TR_CHECK(requests.size() <= requests_.size(), ValueError,
           cat("loader: ", requests.size(), " requests in one submission; prepared for ", requests_.size()));
  check_transform(transform, dataset_.channels);
  for (const BatchRequest& request : requests) {
    TR_CHECK(request.target.data != nullptr && request.target.labels != nullptr, ValueError,
             "loader: a request has no target");
    TR_CHECK(request.count >= 0 && request.count <= request.capacity, ValueError,
             cat("loader: ", request.count, " samples for a target of ", request.capacity));
    const int64_t elements = transform.height * transform.width * dataset_.channels;
    TR_CHECK(request.target.raw_bytes || !is_16bit(request.target.dtype) ||
                 (request.target.pixel_stride >= dataset_.channels &&
                  elements * std::ssize(workers_) <= std::ssize(wide_)),
             ValueError,
             cat("loader: a 16-bit target of ", request.target.pixel_stride,
                 " elements a pixel and samples of ", elements, "; prepared for at least ", dataset_.channels,
                 " and at most ", std::ssize(wide_) / std::ssize(workers_)));
    TR_CHECK(!transform.mix.mixes() || (request.target.mix != nullptr && request.count == request.capacity),
             ValueError,
             cat("loader: a batch of ", request.count, " samples for a target of ", request.capacity,
                 request.target.mix == nullptr ? " with no place for its BatchMix" : "",
                 " cannot be mixed; fill the target"));
    TR_CHECK(request.first >= 0 && request.first <= dataset_.count - request.count, IndexError,
             cat("loader: samples ", request.first, " to ", request.first + request.count - 1, " of ",
                 dataset_.count));
  }
  {
    const std::lock_guard lock(mutex_);
    TR_CHECK(busy_workers_ == 0, StateError, "loader: a submission is under way; call wait() first");
    std::copy(requests.begin(), requests.end(), requests_.begin());
    num_requests_ = requests.size();
    transform_ = &transform;
    fill_lookup_table(transform, dataset_.channels, table_);
    draw_mixes();
    busy_workers_ = filling_workers_ = std::ssize(workers_);
    ++generation_;
  }
  start_.notify_all();
}

void BatchLoader::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_workers_ == 0; });
}

void BatchLoader::work(int64_t worker, int64_t workers) {
  const size_t wide = wide_.size() / static_cast<size_t>(workers);
  const std::span<float> own(wide_.data() + wide * static_cast<size_t>(worker), wide);
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    lock.unlock();
    // Each worker takes its own run of every request's slots.
    for (size_t i = 0; i < num_requests_; ++i) {
      const BatchRequest& request = requests_[i];
      const int64_t end = request.capacity * (worker + 1) / workers;
      for (int64_t slot = request.capacity * worker / workers; slot < end; ++slot)
        fill_sample(request, slot, own);
    }
    lock.lock();
    if (mixes_pixels_) {
      // A pair's samples may be two workers'.
      if (--filling_workers_ == 0) filled_.notify_all();
      filled_.wait(lock, [this] { return filling_workers_ == 0 || stop_; });
      if (stop_) return;
      lock.unlock();
      mix_pairs(worker, workers);
      lock.lock();
    }
    if (--busy_workers_ == 0) done_.notify_all();
  }
}

void BatchLoader::draw_mixes() {
  mixes_pixels_ = false;
  for (size_t i = 0; i < num_requests_; ++i) {
    const BatchRequest& request = requests_[i];
    mixes_[i] =
        draw_mix(transform_->mix, seed_, epoch_, request.first, transform_->height, transform_->width);
    if (request.target.mix != nullptr) *request.target.mix = mixes_[i];
    mixes_pixels_ |= mixes_[i].mixes() && !request.target.raw_bytes;
  }
}

void BatchLoader::mix_pairs(int64_t worker, int64_t workers) const {
  for (size_t i = 0; i < num_requests_; ++i) {
    const auto& [target, first, count, capacity] = requests_[i];
    if (target.raw_bytes) continue;
    const int64_t stride = is_16bit(target.dtype) ? target.pixel_stride : dataset_.channels;
    const PixelBatch batch{target.data, target.dtype, count, transform_->height, transform_->width, stride};
    mix_pixels(mixes_[i], batch, batch.pairs() * worker / workers, batch.pairs() * (worker + 1) / workers);
  }
}

void BatchLoader::fill_sample(const BatchRequest& request, int64_t slot, std::span<float> wide) const {
  const BatchTarget& target = request.target;
  const int64_t pixels = transform_->height * transform_->width, channels = dataset_.channels;
  const bool narrows = !target.raw_bytes && is_16bit(target.dtype);
  const int64_t elements = pixels * (narrows ? target.pixel_stride : channels);
  const int64_t bytes = elements * (target.raw_bytes ? 1 : dtype_bytes(target.dtype));
  std::byte* const out = target.data + slot * bytes;
  if (slot >= request.count) {
    std::fill_n(out, bytes, std::byte{0});
    target.labels[slot] = -1;
    return;
  }
  const auto sample = static_cast<int64_t>(order_[static_cast<size_t>(request.first + slot)]);
  target.labels[slot] = dataset_.label(sample);
  const Placement placement = draw_placement(*transform_, seed_, epoch_, sample);
  if (target.raw_bytes)
    return place_sample(dataset_, sample, *transform_, placement, reinterpret_cast<uint8_t*>(out));
  float* const normalized = narrows ? wide.data() : reinterpret_cast<float*>(out);
  transform_sample(dataset_, sample, *transform_, placement, table_, normalized);
  if (narrows)
    with_16bit(target.dtype, [&](auto type) {
      narrow_pixels(type, normalized, pixels, channels, reinterpret_cast<uint16_t*>(out),
                    target.pixel_stride);
    });
}

}  // namespace tr
