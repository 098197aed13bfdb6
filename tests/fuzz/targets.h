/// What the fuzzers feed bytes to. Each returns for any bytes: what is refused is refused with tr::Error,
/// everything else that is thrown, and every broken promise, ends the process.
#pragma once

#include <cstdint>
#include <span>

namespace tr::fuzz {

/// As YAML of a recipe. One that is accepted says the same when it is written and read again.
void recipe(std::span<const uint8_t> bytes);
/// As a safetensors file. One that is accepted says the same when it is written and read again.
void safetensors(std::span<const uint8_t> bytes);
/// As a pair of IDX files: two bytes, little-endian, say how many of the rest are images; what follows,
/// labels.
void idx(std::span<const uint8_t> bytes);

}  // namespace tr::fuzz
