#include "data/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/sixteen_bits.h"
#include "renaissance/core/error.h"
#include "renaissance/core/philox.h"

namespace tr {
namespace {

/// As many random words as are asked for, of one batch.
class Words {
 public:
  Words(uint64_t seed, int64_t epoch, int64_t batch)
      : random_(seed), epoch_(static_cast<uint32_t>(epoch)), batch_(static_cast<uint64_t>(batch)) {}

  uint32_t next() {
    const uint64_t block = used_ / bits_.size();
    if (used_ % bits_.size() == 0) bits_ = random_.at(RandomPurpose::MIX, epoch_, block << 32 | batch_);
    return bits_[used_++ % bits_.size()];
  }
  /// Above 0 and below 1.
  double uniform() { return (static_cast<double>(next()) + 0.5) * 0x1p-32; }
  bool happens(double probability) { return uniform() < probability; }
  int32_t below(int64_t n) { return static_cast<int32_t>(Philox::below(next(), static_cast<uint32_t>(n))); }

 private:
  Philox random_;
  uint32_t epoch_;
  uint64_t batch_, used_ = 0;
  Philox::Block bits_{};
};

double draw_normal(Words& words) {
  const double radius = std::sqrt(-2.0 * std::log(words.uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * words.uniform());
}

/// log X of X ~ Gamma(alpha, 1): for small alpha X itself would be 0. Source: G. Marsaglia, W. Tsang, "A
/// simple method for generating gamma variables", ACM TOMS 2000, with its section 8 for alpha below 1.
double draw_log_gamma(double alpha, Words& words) {
  if (alpha < 1.0) {
    const double boost = std::log(words.uniform()) / alpha;
    return boost + draw_log_gamma(alpha + 1.0, words);
  }
  const double d = alpha - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = draw_normal(words), root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(words.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

/// X / (X + Y) of two equal gammas.
double draw_beta(double alpha, Words& words) {
  const double x = draw_log_gamma(alpha, words), y = draw_log_gamma(alpha, words);
  return 1.0 / (1.0 + std::exp(y - x));
}

/// timm's rand_bbox(), and its correction of λ.
BatchMix cut_box(double lambda, Words& words, int64_t height, int64_t width) {
  const double side = std::sqrt(1.0 - lambda);
  const auto half = [&](int64_t size) {
    return static_cast<int32_t>(static_cast<int64_t>(static_cast<double>(size) * side) / 2);
  };
  const int32_t rows = static_cast<int32_t>(height), columns = static_cast<int32_t>(width);
  const int32_t y = words.below(height), x = words.below(width);
  BatchMix mix;
  mix.top = std::clamp(y - half(height), 0, rows);
  mix.bottom = std::clamp(y + half(height), 0, rows);
  mix.left = std::clamp(x - half(width), 0, columns);
  mix.right = std::clamp(x + half(width), 0, columns);
  if (!mix.has_box()) return {};
  const double area = static_cast<double>(mix.bottom - mix.top) * static_cast<double>(mix.right - mix.left);
  mix.share = static_cast<float>(area / (static_cast<double>(height) * static_cast<double>(width)));
  return mix;
}

void swap_boxes(const BatchMix& mix, int64_t width, int64_t pixel_bytes, std::byte* a, std::byte* b) {
  const int64_t columns = (mix.right - mix.left) * pixel_bytes;
  for (int64_t row = mix.top; row < mix.bottom; ++row) {
    const int64_t at = (row * width + mix.left) * pixel_bytes;
    std::swap_ranges(a + at, a + at + columns, b + at);
  }
}

void blend(float share, int64_t elements, float* a, float* b) {
  for (int64_t i = 0; i < elements; ++i) {
    const float own = a[i], partner = b[i];
    a[i] = mixed_pixel(own, partner, share);
    b[i] = mixed_pixel(partner, own, share);
  }
}

template <typename Type>
void blend(Type, float share, int64_t elements, uint16_t* a, uint16_t* b) {
  for (int64_t i = 0; i < elements; ++i) {
    const float own = Type::widen(a[i]), partner = Type::widen(b[i]);
    a[i] = Type::narrow(mixed_pixel(own, partner, share));
    b[i] = Type::narrow(mixed_pixel(partner, own, share));
  }
}

}  // namespace

void check_mix(const MixSettings& settings) {
  const auto alpha = [](std::string_view name, double value) {
    TR_CHECK(std::isfinite(value) && value >= 0.0, ValueError,
             cat("mix: alpha of ", name, " is ", value, "; it must be at least 0 and finite"));
  };
  alpha("mixup", settings.mixup_alpha);
  alpha("cutmix", settings.cutmix_alpha);
  for (const double probability : {settings.cutmix_probability, settings.probability})
    TR_CHECK(probability >= 0.0 && probability <= 1.0, ValueError,
             cat("mix: probability ", probability, "; it must be from 0 to 1"));
}

BatchMix draw_mix(const MixSettings& settings, uint64_t seed, int64_t epoch, int64_t batch, int64_t height,
                  int64_t width) {
  if (!settings.mixes()) return {};
  Words words(seed, epoch, batch);
  if (!words.happens(settings.probability)) return {};
  const bool both = settings.mixup_alpha > 0.0 && settings.cutmix_alpha > 0.0;
  const bool cuts = both ? words.happens(settings.cutmix_probability) : settings.cutmix_alpha > 0.0;
  const double lambda = draw_beta(cuts ? settings.cutmix_alpha : settings.mixup_alpha, words);
  if (cuts) return cut_box(lambda, words, height, width);
  BatchMix mix;
  mix.share = static_cast<float>(1.0 - lambda);
  return mix;
}

void mix_pixels(const BatchMix& mix, const PixelBatch& batch, int64_t first, int64_t last) {
  if (!mix.mixes()) return;
  const int64_t elements = batch.height * batch.width * batch.pixel_stride, size = dtype_bytes(batch.dtype);
  for (int64_t pair = first; pair < last; ++pair) {
    std::byte* const own = batch.data + pair * elements * size;
    std::byte* const partner = batch.data + (batch.samples - 1 - pair) * elements * size;
    if (mix.has_box()) {
      if (own != partner) swap_boxes(mix, batch.width, batch.pixel_stride * size, own, partner);
    } else if (batch.dtype == DType::FP32) {
      blend(mix.share, elements, reinterpret_cast<float*>(own), reinterpret_cast<float*>(partner));
    } else {
      with_16bit(batch.dtype, [&](auto type) {
        blend(type, mix.share, elements, reinterpret_cast<uint16_t*>(own),
              reinterpret_cast<uint16_t*>(partner));
      });
    }
  }
}

}  // namespace tr
