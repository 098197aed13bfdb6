#include "data/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support/expect_error.h"
#include "support/sixteen_bits.h"

namespace tr {
namespace {

using test::expect_error;

constexpr int64_t SAMPLES = 53;
const Transform AUGMENTED{8, 8, {0.4f}, {0.3f}, 2, true};
const Transform PLAIN{8, 8, {}, {}};
const Transform MIXED{8, 8, {0.4f}, {0.3f}, 2, true, {0.5}, {0.5, 1.0}};

Dataset make_dataset() { return make_synthetic(1, 0, SAMPLES, 8, 8, 3, 10); }

/// The buffers of several ranks; every float starts as NaN and every label as −7.
class Batch {
 public:
  Batch(int64_t ranks, int64_t capacity, int64_t elements) : capacity_(capacity), elements_(elements) {
    data_.resize(static_cast<size_t>(ranks * capacity * elements), std::numeric_limits<float>::quiet_NaN());
    labels_.resize(static_cast<size_t>(ranks * capacity), -7);
  }
  BatchRequest request(int64_t rank, int64_t first, int64_t count) {
    return {{reinterpret_cast<std::byte*>(data_.data() + rank * capacity_ * elements_),
             labels_.data() + rank * capacity_},
            first,
            count,
            capacity_};
  }
  const std::vector<float>& data() const { return data_; }
  const std::vector<int32_t>& labels() const { return labels_; }

 private:
  int64_t capacity_, elements_;
  std::vector<float> data_;
  std::vector<int32_t> labels_;
};

/// One epoch in batches of 2 ranks × 8, concatenated.
struct Epoch {
  std::vector<float> data;
  std::vector<int32_t> labels;
  friend bool operator==(const Epoch&, const Epoch&) = default;
};

Epoch load_epoch(BatchLoader& loader, int64_t epoch, const Transform& transform) {
  constexpr int64_t RANKS = 2, CAPACITY = 8;
  Epoch result;
  loader.start_epoch(epoch);
  for (int64_t first = 0; first < SAMPLES; first += RANKS * CAPACITY) {
    Batch batch(RANKS, CAPACITY, transform.height * transform.width * 3);
    std::vector<BatchRequest> requests;
    for (int64_t rank = 0; rank < RANKS; ++rank) {
      const int64_t begin = std::min(SAMPLES, first + rank * CAPACITY);
      requests.push_back(batch.request(rank, begin, std::min(CAPACITY, SAMPLES - begin)));
    }
    loader.submit(requests, transform);
    loader.wait();
    result.data.insert(result.data.end(), batch.data().begin(), batch.data().end());
    result.labels.insert(result.labels.end(), batch.labels().begin(), batch.labels().end());
  }
  return result;
}

TEST(BatchLoader, WorkersDoNotChangeABit) {
  const Dataset dataset = make_dataset();
  const Transform resized{6, 11, {0.4f}, {0.3f}, 1, true};
  const Transform erased{8, 8, {0.4f}, {0.3f}, 2, true, {0.6}};
  for (const Transform* transform : {&AUGMENTED, &resized, &erased}) {
    BatchLoader one(dataset, true, 42, 1, 2);
    const Epoch want = load_epoch(one, 5, *transform);
    EXPECT_TRUE(std::none_of(want.data.begin(), want.data.end(), [](float value) { return value != value; }));
    for (const int64_t workers : {2, 3, 20}) {
      BatchLoader many(dataset, true, 42, workers, 2);
      EXPECT_EQ(load_epoch(many, 5, *transform), want) << workers << " workers";
    }
  }
}

TEST(BatchLoader, AnEpochDoesNotDependOnThoseBefore) {
  const Dataset dataset = make_dataset();
  BatchLoader fresh(dataset, true, 42, 1, 2), used(dataset, true, 42, 1, 2);
  for (int64_t epoch = 0; epoch < 3; ++epoch) load_epoch(used, epoch, AUGMENTED);
  EXPECT_EQ(load_epoch(fresh, 3, AUGMENTED), load_epoch(used, 3, AUGMENTED));
}

TEST(BatchLoader, EpochsAndSeedsDiffer) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, true, 42, 1, 2), other(dataset, true, 43, 1, 2);
  const Epoch first = load_epoch(loader, 0, AUGMENTED);
  EXPECT_NE(first, load_epoch(loader, 1, AUGMENTED));
  EXPECT_NE(first, load_epoch(other, 0, AUGMENTED));
}

TEST(BatchLoader, CropsDifferBetweenEpochsInFileOrderToo) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, false, 42, 1, 2);
  const Epoch first = load_epoch(loader, 0, AUGMENTED), second = load_epoch(loader, 1, AUGMENTED);
  EXPECT_EQ(first.labels, second.labels);
  EXPECT_NE(first.data, second.data);
}

TEST(BatchLoader, OrderIsAPermutation) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, true, 42, 1, 1);
  std::vector<uint32_t> previous;
  for (const int64_t epoch : {0, 1, 2}) {
    loader.start_epoch(epoch);
    std::vector<uint32_t> order(loader.order().begin(), loader.order().end());
    EXPECT_NE(order, previous);
    previous = order;
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (uint32_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(BatchLoader, ShufflingIsFair) {
  // Every sample comes first about equally often: 3 samples, 3000 epochs, deviation of a count 26.
  const Dataset dataset = make_synthetic(1, 0, 3, 2, 2, 1, 3);
  BatchLoader loader(dataset, true, 42, 1, 1);
  std::array<int, 3> counts{};
  for (int64_t epoch = 0; epoch < 3000; ++epoch) {
    loader.start_epoch(epoch);
    ++counts.at(loader.order()[0]);
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 110);
}

TEST(BatchLoader, FileOrderWithoutShuffling) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, false, 42, 1, 2);
  for (uint32_t i = 0; i < SAMPLES; ++i) ASSERT_EQ(loader.order()[i], i);
  const Epoch epoch = load_epoch(loader, 0, PLAIN);
  for (size_t i = 0; i < dataset.images.size(); ++i)
    ASSERT_EQ(epoch.data[i], static_cast<float>(dataset.images[i]) / 255.0f);
}

TEST(BatchLoader, UnfilledSlotsAreZerosWithLabelMinusOne) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, true, 42, 3, 2);
  constexpr int64_t CAPACITY = 8, ELEMENTS = 8 * 8 * 3;
  Batch batch(2, CAPACITY, ELEMENTS);
  const std::vector<BatchRequest> requests{batch.request(0, SAMPLES - 3, 3), batch.request(1, SAMPLES, 0)};
  loader.submit(requests, AUGMENTED);
  loader.wait();
  for (size_t slot = 0; slot < 16; ++slot) {
    const bool filled = slot < 3;
    EXPECT_EQ(batch.labels()[slot] == -1, !filled);
    const auto begin = batch.data().begin() + static_cast<int64_t>(slot) * ELEMENTS;
    EXPECT_EQ(std::all_of(begin, begin + ELEMENTS, [](float value) { return value == 0.0f; }), !filled);
  }
}

TEST(BatchLoader, WaitWithoutASubmissionReturns) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, true, 42, 2, 1);
  loader.wait();
  loader.submit({}, PLAIN);
  loader.wait();
}

TEST(BatchLoader, DestructionDuringASubmissionIsSafe) {
  const Dataset dataset = make_dataset();
  Batch batch(1, SAMPLES, 8 * 8 * 3);
  const std::vector<BatchRequest> requests{batch.request(0, 0, SAMPLES)};
  {
    BatchLoader loader(dataset, true, 42, 2, 1);
    loader.submit(requests, AUGMENTED);
  }
}

TEST(BatchLoader, RefusesWhatDoesNotFit) {
  Dataset dataset = make_dataset();
  expect_error(ErrorKind::ValueError, {"0 workers"}, [&] { BatchLoader(dataset, true, 42, 0, 1); });
  expect_error(ErrorKind::ValueError, {"0 samples"}, [] { BatchLoader(Dataset{}, true, 42, 1, 1); });

  BatchLoader loader(dataset, true, 42, 1, 1);
  Batch batch(2, 8, 8 * 8 * 3);
  const auto refuse = [&](ErrorKind kind, const std::string& part,
                          const std::vector<BatchRequest>& requests) {
    expect_error(kind, {part}, [&] { loader.submit(requests, PLAIN); });
  };
  refuse(ErrorKind::ValueError, "2 requests", {batch.request(0, 0, 8), batch.request(1, 8, 8)});
  refuse(ErrorKind::ValueError, "9 samples for a target of 8", {batch.request(0, 0, 9)});
  refuse(ErrorKind::IndexError, "samples 46 to 53 of 53", {batch.request(0, 46, 8)});
  refuse(ErrorKind::IndexError, "samples -1 to 6 of 53", {batch.request(0, -1, 8)});
  refuse(ErrorKind::ValueError, "no target", {BatchRequest{{}, 0, 8, 8}});
  expect_error(ErrorKind::ValueError, {"epoch -1"}, [&] { loader.start_epoch(-1); });

  dataset.labels.pop_back();
  expect_error(ErrorKind::ValueError, {"52 labels"}, [&] { BatchLoader(dataset, true, 42, 1, 1); });
}

/// `capacity` samples from `first` on, mixed by the loader.
struct MixedBatch {
  std::vector<float> data;
  std::vector<int32_t> labels;
  BatchMix mix;
  friend bool operator==(const MixedBatch&, const MixedBatch&) = default;
};

MixedBatch load_mixed(BatchLoader& loader, int64_t first, int64_t capacity, const Transform& transform) {
  MixedBatch batch;
  batch.data.resize(static_cast<size_t>(capacity * 8 * 8 * 3));
  batch.labels.resize(static_cast<size_t>(capacity));
  batch.mix.share = -1.0f;
  BatchRequest request{
      {reinterpret_cast<std::byte*>(batch.data.data()), batch.labels.data()}, first, capacity, capacity};
  request.target.mix = &batch.mix;
  loader.submit({&request, 1}, transform);
  loader.wait();
  return batch;
}

TEST(BatchLoader, MixesPairsWhateverTheNumberOfWorkers) {
  const Dataset dataset = make_dataset();
  BatchLoader one(dataset, true, 42, 1, 1);
  Transform apart = MIXED;
  apart.mix = {};
  for (const int64_t workers : {1, 2, 4, 20}) {
    BatchLoader many(dataset, true, 42, workers, 1);
    int boxes = 0, blends = 0;
    for (const int64_t epoch : {1, 2, 3, 4})
      for (const int64_t capacity : {1, 8, 9}) {
        one.start_epoch(epoch);
        many.start_epoch(epoch);
        const int64_t first = 8 * epoch + capacity;
        const MixedBatch got = load_mixed(many, first, capacity, MIXED);
        EXPECT_EQ(got, load_mixed(one, first, capacity, MIXED)) << workers;
        EXPECT_EQ(got.mix, draw_mix(MIXED.mix, 42, epoch, first, 8, 8));
        MixedBatch want = load_mixed(one, first, capacity, apart);
        EXPECT_EQ(want.mix, BatchMix{});
        EXPECT_EQ(got.labels, want.labels);
        const PixelBatch pixels{
            reinterpret_cast<std::byte*>(want.data.data()), DType::FP32, capacity, 8, 8, 3};
        mix_pixels(got.mix, pixels, 0, pixels.pairs());
        EXPECT_EQ(got.data, want.data) << workers << " workers, " << capacity << " samples";
        boxes += got.mix.has_box();
        blends += got.mix.mixes() && !got.mix.has_box();
      }
    EXPECT_GT(boxes, 0);
    EXPECT_GT(blends, 0);
  }
}

TEST(BatchLoader, RawBytesAreLeftForTheDeviceToMix) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, false, 42, 2, 1);
  std::vector<std::byte> bytes(8 * 8 * 8 * 3);
  std::vector<int32_t> labels(8);
  Transform transform = PLAIN;
  transform.mix.mixup_alpha = 1.0;
  BatchMix mix;
  BatchRequest request{{bytes.data(), labels.data(), true}, 3, 8, 8};
  request.target.mix = &mix;
  loader.submit({&request, 1}, transform);
  loader.wait();
  EXPECT_TRUE(mix.mixes());
  for (size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(std::to_integer<uint8_t>(bytes[i]), dataset.image(3)[i]) << i;
}

TEST(BatchLoader, DestructionWhileMixingIsSafe) {
  const Dataset dataset = make_dataset();
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::vector<float> data(SAMPLES * 8 * 8 * 3);
    std::vector<int32_t> labels(SAMPLES);
    BatchMix mix;
    BatchRequest request{{reinterpret_cast<std::byte*>(data.data()), labels.data()}, 0, SAMPLES, SAMPLES};
    request.target.mix = &mix;
    BatchLoader loader(dataset, true, 42, 3, 1);
    loader.submit({&request, 1}, MIXED);
  }
}

TEST(BatchLoader, RefusesToMixWhatIsNotWhole) {
  const Dataset dataset = make_dataset();
  BatchLoader loader(dataset, true, 42, 1, 1);
  Batch batch(1, 8, 8 * 8 * 3);
  BatchRequest request = batch.request(0, 0, 8);
  expect_error(ErrorKind::ValueError, {"no place for its BatchMix"}, [&] {
    loader.submit({&request, 1}, MIXED);
  });
  BatchMix mix;
  request.target.mix = &mix;
  request.count = 7;
  expect_error(ErrorKind::ValueError, {"a batch of 7 samples for a target of 8 cannot be mixed"}, [&] {
    loader.submit({&request, 1}, MIXED);
  });
}

TEST(BatchLoader, RawBytesAndPaddingSamples) {
  const Dataset dataset = make_dataset();
  constexpr int64_t CAPACITY = 8, COUNT = 5, ELEMENTS = 8 * 8 * 3;
  BatchLoader loader(dataset, false, 42, 2, 1);
  std::vector<std::byte> bytes(CAPACITY * ELEMENTS, std::byte{0xA5});
  std::vector<int32_t> labels(CAPACITY, -7);
  const BatchRequest request{{bytes.data(), labels.data(), true}, 3, COUNT, CAPACITY};
  loader.submit({&request, 1}, PLAIN);
  loader.wait();
  for (int64_t slot = 0; slot < CAPACITY; ++slot) {
    const bool counts = slot < COUNT;
    EXPECT_EQ(labels[static_cast<size_t>(slot)], counts ? dataset.label(3 + slot) : -1);
    for (int64_t i = 0; i < ELEMENTS; ++i)
      ASSERT_EQ(std::to_integer<uint8_t>(bytes[static_cast<size_t>(slot * ELEMENTS + i)]),
                counts ? dataset.image(3 + slot)[i] : 0)
          << slot << ' ' << i;
  }
}

/// The FP32 batch rounded once, channels padded with zeros, whatever the number of workers.
TEST(BatchLoader, SixteenBitTargetsHoldTheRoundedPixels) {
  const Dataset dataset = make_dataset();
  constexpr int64_t CAPACITY = 8, COUNT = 5, PIXELS = 8 * 8, CHANNELS = 3, STRIDE = 4;
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const int64_t workers : {1, 3}) {
      BatchLoader loader(dataset, false, 42, workers, 1, PIXELS * CHANNELS);
      Batch exact(1, CAPACITY, PIXELS * CHANNELS);
      const BatchRequest wide = exact.request(0, 3, COUNT);
      loader.submit({&wide, 1}, AUGMENTED);
      loader.wait();
      std::vector<uint16_t> bits(CAPACITY * PIXELS * STRIDE, 0xA5A5);
      std::vector<int32_t> labels(CAPACITY, -7);
      const BatchTarget target{.data = reinterpret_cast<std::byte*>(bits.data()),
                               .labels = labels.data(),
                               .dtype = dtype,
                               .pixel_stride = STRIDE};
      const BatchRequest narrow{target, 3, COUNT, CAPACITY};
      loader.submit({&narrow, 1}, AUGMENTED);
      loader.wait();
      EXPECT_EQ(labels, exact.labels());
      for (size_t i = 0; i < bits.size(); ++i) {
        const size_t pixel = i / STRIDE, c = i % STRIDE;
        const float want = c < CHANNELS ? exact.data()[pixel * CHANNELS + c] : 0.0f;
        ASSERT_EQ(bits[i], test::to_16bit(want, dtype)) << i;
      }
      expect_error(ErrorKind::ValueError,
                   {"a 16-bit target of 2 elements a pixel", "at least 3 and at most 192"}, [&] {
                     BatchRequest refused = narrow;
                     refused.target.pixel_stride = 2;
                     loader.submit({&refused, 1}, AUGMENTED);
                   });
    }
  }
}

}  // namespace
}  // namespace tr
