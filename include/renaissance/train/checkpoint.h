/// Weights in and out as safetensors, with torchvision-style names and shapes ([K,C,R,S], [out,in], [C]).
/// Format: https://github.com/huggingface/safetensors (8-byte little-endian header length, JSON, data).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "renaissance/core/types.h"

namespace tr {

/// One tensor of a state_dict, FP32 or INT64 data as bytes, little-endian, row-major.
struct StateTensor {
  std::string dtype = "F32";      ///< safetensors' name: F32, F16, BF16, I64, …
  std::vector<int64_t> shape;     ///< empty for a scalar
  std::vector<std::byte> data;
};

struct StateDict {
  std::vector<std::pair<std::string, StateTensor>> tensors;  ///< in file order
  std::map<std::string, std::string> metadata;

  const StateTensor* find(std::string_view name) const;
};

/// Written aside, flushed to disk, renamed: `file` is either the old one or the new one, whole. IoError names
/// the path and the system's reason; the old file stays.
void write_safetensors(const std::filesystem::path& file, const StateDict& state);

/// Reads and checks everything before returning: header length, JSON, dtypes, shapes, offsets that cover the
/// data exactly without overlap. DataError with the file and what was found otherwise; IoError when missing.
StateDict read_safetensors(const std::filesystem::path& file);

}  // namespace tr
