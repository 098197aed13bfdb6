#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "renaissance/core/error.h"
#include "renaissance/train/checkpoint.h"
#include "train/atomic_file.h"

namespace tr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr const char* METADATA = "__metadata__";
constexpr int64_t LENGTH_BYTES = 8;
constexpr int64_t MOST_HEADER_BYTES = 100'000'000;  // the reference implementation's cap
constexpr int64_t HEADER_ALIGNMENT = 8;

/// Bits of one element, nothing for an unknown dtype.
std::optional<int64_t> dtype_bits(std::string_view dtype) {
  struct Entry {
    std::string_view name;
    int64_t bits;
  };
  constexpr std::array ENTRIES{
      Entry{"BOOL", 8},    Entry{"U8", 8},      Entry{"I8", 8},          Entry{"F8_E4M3", 8},
      Entry{"F8_E5M2", 8}, Entry{"F8_E8M0", 8}, Entry{"F8_E4M3FNUZ", 8}, Entry{"F8_E5M2FNUZ", 8},
      Entry{"F4", 4},      Entry{"F6_E2M3", 6}, Entry{"F6_E3M2", 6},     Entry{"U16", 16},
      Entry{"I16", 16},    Entry{"F16", 16},    Entry{"BF16", 16},       Entry{"U32", 32},
      Entry{"I32", 32},    Entry{"F32", 32},    Entry{"U64", 64},        Entry{"I64", 64},
      Entry{"F64", 64},    Entry{"C64", 64},
  };
  const auto* found =
      std::find_if(ENTRIES.begin(), ENTRIES.end(), [&](const Entry& e) { return e.name == dtype; });
  if (found == ENTRIES.end()) return std::nullopt;
  return found->bits;
}

/// Bytes of a tensor; nothing when they overflow or are no whole number.
std::optional<int64_t> tensor_bytes(const std::vector<int64_t>& shape, int64_t bits) {
  // A dim of 0 makes the product 0 whatever the others are, so they are not multiplied.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t product = bits;
  for (const int64_t dim : shape) {
    if (dim < 0 || dim > std::numeric_limits<int64_t>::max() / product) return std::nullopt;
    product *= dim;
  }
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t dim : shape) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  StateTensor tensor;  ///< data still empty
  int64_t begin = 0, end = 0;
};

/// Parses and checks one file's header.
class HeaderReader {
 public:
  HeaderReader(const fs::path& path, int64_t data_bytes) : path_(path), data_bytes_(data_bytes) {}

  /// Entries in file order.
  std::vector<Entry> read(const std::string& text, std::map<std::string, std::string>& metadata) const {
    check(text.starts_with('{'), "the header does not begin with '{'; it is not a safetensors file");
    // The JSON library takes a zero byte for the end and would ignore what follows.
    check(text.find('\0') == std::string::npos, "the header is not JSON: it holds a zero byte");
    const json header = parse(text);
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == METADATA)
        metadata = read_metadata(value);
      else
        entries.push_back(read_entry(name, value));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_cover(entries);
    return entries;
  }

 private:
  void check(bool condition, const std::string& found) const {
    TR_CHECK(condition, DataError, cat(path_.string(), ": ", found));
  }

  json parse(const std::string& text) const {
    constexpr int MOST_DEPTH = 3;  // header, tensor, its shape
    std::vector<std::set<std::string>> keys(MOST_DEPTH + 1);
    const auto callback = [&](int depth, json::parse_event_t event, const json& parsed) {
      using Event = json::parse_event_t;
      check(depth <= MOST_DEPTH, "the header is nested too deeply");
      if (event == Event::object_start && depth < MOST_DEPTH) keys[static_cast<size_t>(depth) + 1].clear();
      // The JSON library keeps the last of two equal names; here they are an error.
      if (event == Event::key)
        check(keys[static_cast<size_t>(depth)].insert(parsed.get<std::string>()).second,
              cat("the name '", parsed.get<std::string>(), "' appears twice in the header"));
      return true;
    };
    try {
      return json::parse(text, callback);
    } catch (const json::exception& error) {
      throw Error(ErrorKind::DataError, cat(path_.string(), ": the header is not JSON: ", error.what()));
    }
  }

  std::map<std::string, std::string> read_metadata(const json& value) const {
    check(value.is_object(), cat(METADATA, " is a JSON ", value.type_name(), ", expected an object"));
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      check(text.is_string(),
            cat(METADATA, " '", key, "' is a JSON ", text.type_name(), ", expected a string"));
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    check(value.is_object(),
          cat("tensor '", name, "' is a JSON ", value.type_name(), ", expected an object"));
    const auto found = value.find(key);
    check(found != value.end(), cat("tensor '", name, "' has no ", key));
    return *found;
  }

  std::vector<int64_t> read_sizes(const std::string& name, const json& value, const char* key) const {
    const json& list = member(name, value, key);
    check(list.is_array(),
          cat("tensor '", name, "': ", key, " is a JSON ", list.type_name(), ", expected an array"));
    std::vector<int64_t> sizes;
    for (const json& item : list) {
      check(item.is_number_unsigned() && item.get<uint64_t>() <= std::numeric_limits<int64_t>::max(),
            cat("tensor '", name, "': ", key, " holds ", item.dump(),
                ", expected whole numbers from 0 to 2^63 - 1"));
      sizes.push_back(item.get<int64_t>());
    }
    return sizes;
  }

  Entry read_entry(const std::string& name, const json& value) const {
    Entry entry{name, {}, 0, 0};
    const json& dtype = member(name, value, "dtype");
    check(dtype.is_string(),
          cat("tensor '", name, "': dtype is a JSON ", dtype.type_name(), ", expected a string"));
    entry.tensor.dtype = dtype.get<std::string>();
    const std::optional<int64_t> bits = dtype_bits(entry.tensor.dtype);
    check(bits.has_value(), cat("tensor '", name, "': dtype '", entry.tensor.dtype, "' is not known"));
    entry.tensor.shape = read_sizes(name, value, "shape");
    const std::optional<int64_t> bytes = tensor_bytes(entry.tensor.shape, *bits);
    check(bytes.has_value(), cat("tensor '", name, "': ", entry.tensor.dtype, " of shape ",
                                 shape_text(entry.tensor.shape), " is no possible number of bytes"));
    const std::vector<int64_t> range = read_sizes(name, value, "data_offsets");
    check(range.size() == 2 && range[0] <= range[1],
          cat("tensor '", name, "': data_offsets ", shape_text(range),
              ", expected a begin and an end after it"));
    entry.begin = range[0];
    entry.end = range[1];
    check(entry.end <= data_bytes_,
          cat("tensor '", name, "': data_offsets end at ", entry.end, " but the data has ", data_bytes_,
              " bytes; the file may be cut short"));
    check(entry.end - entry.begin == *bytes,
          cat("tensor '", name, "': data_offsets span ", entry.end - entry.begin, " bytes but ",
              entry.tensor.dtype, " of shape ", shape_text(entry.tensor.shape), " takes ", *bytes));
    return entry;
  }

  void check_cover(const std::vector<Entry>& entries) const {
    int64_t reached = 0;
    for (const Entry& entry : entries) {
      check(entry.begin >= reached,
            cat("tensor '", entry.name, "' begins at byte ", entry.begin,
                " of the data, inside the tensor before it, which ends at ", reached));
      check(entry.begin == reached,
            cat("bytes ", reached, " to ", entry.begin - 1, " of the data, before tensor '", entry.name,
                "', belong to no tensor"));
      reached = entry.end;
    }
    check(reached == data_bytes_,
          cat("the last ", data_bytes_ - reached, " bytes of the data belong to no tensor"));
  }

  const fs::path& path_;
  const int64_t data_bytes_;
};

void read_bytes(std::ifstream& in, const fs::path& path, char* out, int64_t count) {
  errno = 0;
  in.read(out, count);
  TR_CHECK(in.gcount() == count, IoError,
           cat(path.string(), ": cannot read: ",
               errno != 0 ? std::generic_category().message(errno) : "the file became shorter meanwhile"));
}

/// Where each tensor goes: larger elements first, so that every tensor is aligned to its element, then the
/// caller's order.
std::vector<size_t> write_order(const StateDict& state) {
  std::vector<size_t> order(state.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return *dtype_bits(state.tensors[a].second.dtype) > *dtype_bits(state.tensors[b].second.dtype);
  });
  return order;
}

void check_writable(const StateDict& state) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : state.tensors) {
    TR_CHECK(name != METADATA, ValueError, cat("safetensors: a tensor cannot be named ", METADATA));
    TR_CHECK(names.insert(name).second, ValueError, cat("safetensors: two tensors are named '", name, "'"));
    const std::optional<int64_t> bits = dtype_bits(tensor.dtype);
    TR_CHECK(bits.has_value(), ValueError,
             cat("safetensors: tensor '", name, "': dtype '", tensor.dtype, "' is not known"));
    const std::optional<int64_t> bytes = tensor_bytes(tensor.shape, *bits);
    TR_CHECK(bytes == std::ssize(tensor.data), ValueError,
             cat("safetensors: tensor '", name, "': ", tensor.dtype, " of shape ", shape_text(tensor.shape),
                 " does not take the ", tensor.data.size(), " bytes it has"));
  }
}

std::string make_header(const StateDict& state, const std::vector<size_t>& order) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!state.metadata.empty()) header[METADATA] = state.metadata;
  int64_t offset = 0;
  for (const size_t i : order) {
    const auto& [name, tensor] = state.tensors[i];
    const int64_t end = offset + std::ssize(tensor.data);
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    std::string text = header.dump();
    text.resize(static_cast<size_t>(round_up(std::ssize(text), HEADER_ALIGNMENT)), ' ');
    return text;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::ValueError, cat("safetensors: a name or metadata is not UTF-8: ", error.what()));
  }
}

}  // namespace

const StateTensor* StateDict::find(std::string_view name) const {
  for (const auto& [key, tensor] : tensors)
    if (key == name) return &tensor;
  return nullptr;
}

void write_safetensors(const fs::path& file, const StateDict& state) {
  check_writable(state);
  const std::vector<size_t> order = write_order(state);
  const std::string header = make_header(state, order);
  TR_CHECK(
      std::ssize(header) <= MOST_HEADER_BYTES, ValueError,
      cat("safetensors: the header takes ", header.size(), " bytes; ", MOST_HEADER_BYTES, " are possible"));
  const uint64_t length = header.size();
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (const size_t i : order) out.write(state.tensors[i].second.data);
  out.commit();
}

StateDict read_safetensors(const fs::path& file) {
  std::error_code code;
  const auto size = static_cast<int64_t>(fs::file_size(file, code));
  TR_CHECK(!code, IoError, cat(file.string(), ": cannot read: ", code.message()));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  TR_CHECK(in.is_open(), IoError,
           cat(file.string(), ": cannot read: ", std::generic_category().message(errno)));

  TR_CHECK(size >= LENGTH_BYTES, DataError,
           cat(file.string(), ": ", size, " bytes, too short for a safetensors file"));
  uint64_t length = 0;
  read_bytes(in, file, reinterpret_cast<char*>(&length), LENGTH_BYTES);
  TR_CHECK(length <= static_cast<uint64_t>(MOST_HEADER_BYTES), DataError,
           cat(file.string(), ": says its header takes ", length, " bytes, more than the ", MOST_HEADER_BYTES,
               " allowed; it is not a safetensors file"));
  const int64_t header_bytes = static_cast<int64_t>(length);
  TR_CHECK(header_bytes <= size - LENGTH_BYTES, DataError,
           cat(file.string(), ": says its header takes ", length, " bytes but only ", size - LENGTH_BYTES,
               " follow; the file is cut short or not a safetensors file"));
  std::string header(length, '\0');
  read_bytes(in, file, header.data(), header_bytes);

  StateDict state;
  std::vector<Entry> entries =
      HeaderReader(file, size - LENGTH_BYTES - header_bytes).read(header, state.metadata);
  for (Entry& entry : entries) {
    entry.tensor.data.resize(static_cast<size_t>(entry.end - entry.begin));
    read_bytes(in, file, reinterpret_cast<char*>(entry.tensor.data.data()), entry.end - entry.begin);
    state.tensors.emplace_back(std::move(entry.name), std::move(entry.tensor));
  }
  return state;
}

}  // namespace tr
