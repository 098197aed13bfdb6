#include "targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "data/dataset.h"
#include "renaissance/core/error.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/recipe.h"

namespace tr::fuzz {

namespace {

/// Bytes as a file that needs no disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : descriptor_(memfd_create("fuzz", 0)) {
    size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t now = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
      if (now <= 0) std::abort();
      written += static_cast<size_t>(now);
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void promise(bool kept, const char* what) {
  if (kept) return;
  std::cerr << "broken: " << what << std::endl;
  std::abort();
}

/// In any order: the writer puts wide types first, for alignment.
bool same_tensors(const StateDict& a, const StateDict& b) {
  return a.metadata == b.metadata && a.tensors.size() == b.tensors.size() &&
         std::ranges::all_of(a.tensors, [&](const auto& named) {
           const StateTensor& x = named.second;
           const StateTensor* y = b.find(named.first);
           return y != nullptr && x.dtype == y->dtype && x.shape == y->shape && x.data == y->data;
         });
}

}  // namespace

void recipe(std::span<const uint8_t> bytes) {
  Recipe accepted;
  try {
    accepted = parse_recipe(std::string(bytes.begin(), bytes.end()), "fuzz.yaml");
  } catch (const Error&) {
    return;
  }
  const Recipe again = parse_recipe(recipe_to_yaml(accepted), "again.yaml");
  promise(again == accepted, "a recipe reads back as it was written");
}

void safetensors(std::span<const uint8_t> bytes) {
  StateDict accepted;
  try {
    accepted = read_safetensors(MemoryFile(bytes).path());
  } catch (const Error&) {
    return;
  }
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("renaissance_fuzz_" + std::to_string(::getpid()));
  write_safetensors(file, accepted);
  const StateDict again = read_safetensors(file);
  std::filesystem::remove(file);
  promise(same_tensors(accepted, again), "tensors read back as they were written");
}

void idx(std::span<const uint8_t> bytes) {
  constexpr size_t HEADER = 2;
  constexpr int64_t CLASSES = 10;
  if (bytes.size() < HEADER) return;
  const auto rest = bytes.subspan(HEADER);
  const size_t split = std::min<size_t>(bytes[0] | static_cast<size_t>(bytes[1]) << 8, rest.size());
  const MemoryFile images(rest.first(split)), labels(rest.subspan(split));
  Dataset data;
  try {
    data = read_idx(images.path(), labels.path(), CLASSES);
  } catch (const Error&) {
    return;
  }
  promise(data.count > 0 && std::ssize(data.labels) == data.count &&
              std::ssize(data.images) == data.count * data.image_bytes(),
          "as many labels and pixels as the count says");
  promise(std::ranges::all_of(data.labels, [](int32_t label) { return label >= 0 && label < CLASSES; }),
          "labels are classes");
}

}  // namespace tr::fuzz
