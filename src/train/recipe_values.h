/// Scalars of recipes: text to value, whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "renaissance/graph/blueprint.h"
#include "train/yaml_tree.h"

namespace tr {

std::optional<int64_t> read_integer(const std::string& text);
std::optional<uint64_t> read_unsigned(const std::string& text);
/// Decimal, with or without exponent; .inf and .nan as in YAML.
std::optional<double> read_number(const std::string& text);
/// true, false, yes, no, on, off in lower, upper or capital case.
std::optional<bool> read_flag(const std::string& text);
/// Bytes, plain or with B, KiB, MiB, GiB, TiB or kB, MB, GB, TB.
std::optional<int64_t> read_bytes(const std::string& text);
/// With the largest binary unit that leaves a whole number.
std::string write_bytes(int64_t bytes);

/// A scalar by what it looks like; one in quotes is text.
AttrValue read_attribute(const YamlTree& scalar);
YamlTree write_attribute(const AttrValue& value);

}  // namespace tr
