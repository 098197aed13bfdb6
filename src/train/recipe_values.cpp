#include "train/recipe_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

namespace tr {

namespace {

template <typename T>
std::optional<T> read_whole(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr std::array<std::pair<std::string_view, int64_t>, 9> UNITS{{{"TiB", 1ll << 40},
                                                                     {"GiB", 1ll << 30},
                                                                     {"MiB", 1ll << 20},
                                                                     {"KiB", 1ll << 10},
                                                                     {"TB", 1'000'000'000'000},
                                                                     {"GB", 1'000'000'000},
                                                                     {"MB", 1'000'000},
                                                                     {"kB", 1'000},
                                                                     {"B", 1}}};
constexpr size_t NUM_BINARY_UNITS = 4;

}  // namespace

std::optional<int64_t> read_integer(const std::string& text) { return read_whole<int64_t>(text); }

std::optional<uint64_t> read_unsigned(const std::string& text) { return read_whole<uint64_t>(text); }

std::optional<double> read_number(const std::string& text) {
  if (text == ".inf" || text == "+.inf") return std::numeric_limits<double>::infinity();
  if (text == "-.inf") return -std::numeric_limits<double>::infinity();
  if (text == ".nan") return std::numeric_limits<double>::quiet_NaN();
  // from_chars also takes the words inf and nan, which are text in YAML.
  const bool word = std::any_of(text.begin(), text.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) && c != 'e' && c != 'E';
  });
  return word ? std::nullopt : read_whole<double>(text);
}

std::optional<bool> read_flag(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, bool>, 6> WORDS{
      {{"true", true}, {"false", false}, {"yes", true}, {"no", false}, {"on", true}, {"off", false}}};
  for (const auto& [word, value] : WORDS) {
    std::string upper(word), capital(word);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    capital[0] = upper[0];
    if (text == word || text == upper || text == capital) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> read_bytes(const std::string& text) {
  for (const auto& [unit, bytes] : UNITS) {
    if (!text.ends_with(unit)) continue;
    std::string digits = text.substr(0, text.size() - unit.size());
    while (!digits.empty() && digits.back() == ' ') digits.pop_back();
    const std::optional<int64_t> count = read_integer(digits);
    constexpr int64_t LARGEST = std::numeric_limits<int64_t>::max();
    if (!count || *count > LARGEST / bytes || *count < -(LARGEST / bytes)) return std::nullopt;
    return *count * bytes;
  }
  return read_integer(text);
}

std::string write_bytes(int64_t bytes) {
  for (size_t i = 0; i < NUM_BINARY_UNITS; ++i) {
    const auto& [unit, size] = UNITS[i];
    if (bytes != 0 && bytes % size == 0) return std::to_string(bytes / size) + std::string(unit);
  }
  return std::to_string(bytes);
}

AttrValue read_attribute(const YamlTree& scalar) {
  if (scalar.is_text) return scalar.scalar;
  if (const auto flag = read_flag(scalar.scalar)) return *flag;
  if (const auto integer = read_integer(scalar.scalar)) return *integer;
  if (const auto number = read_number(scalar.scalar)) return *number;
  return scalar.scalar;
}

YamlTree write_attribute(const AttrValue& value) {
  return std::holds_alternative<std::string>(value) ? yaml_text(str(value)) : yaml_scalar(str(value));
}

}  // namespace tr
