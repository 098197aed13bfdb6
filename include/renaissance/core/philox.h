/// Philox4x32-10, a counter-based generator: the value at (key, counter) needs no state, so results do
/// not depend on how work is split between threads.
/// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace tr {

/// What a random number is for; part of its counter, so that streams never meet.
enum class RandomPurpose : uint32_t { INIT = 1, SHUFFLE, CROP, FLIP, DROPOUT, SYNTHETIC, ERASE, MIX };

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  explicit constexpr Philox(uint64_t seed)
      : key0_(static_cast<uint32_t>(seed)), key1_(static_cast<uint32_t>(seed >> 32)) {}

  /// Ten rounds over the counter (c0, c1, c2, c3).
  constexpr Block operator()(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) const {
    uint32_t k0 = key0_, k1 = key1_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
  }

  /// Keyed by purpose, a stream (epoch, tensor, step, …) and a 64-bit index (sample, element / 4, …).
  constexpr Block at(RandomPurpose purpose, uint32_t stream, uint64_t index) const {
    return (*this)(static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream,
                   static_cast<uint32_t>(purpose));
  }

  /// Uniform in [0, 1) with 24 bits.
  static constexpr float uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
  /// Uniform integer in [0, n), n ≤ 2^32, by multiplication; bias below n / 2^32.
  static constexpr uint32_t below(uint32_t bits, uint32_t n) {
    return static_cast<uint32_t>((uint64_t{bits} * n) >> 32);
  }

 private:
  uint32_t key0_, key1_;
};

}  // namespace tr
