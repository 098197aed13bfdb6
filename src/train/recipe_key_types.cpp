#include "train/recipe_key_types.h"

#include <cmath>

namespace tr {

namespace {

std::string short_number(double value) {
  const std::string text = str(AttrValue(value));
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string no_mistake(Recipe&) { return ""; }

RecipeKey make_key(std::string key, std::string type, std::string help) {
  RecipeKey entry;
  entry.key = std::move(key);
  entry.type = std::move(type);
  entry.help = std::move(help);
  entry.check = no_mistake;
  return entry;
}

/// The scalar's text when it may be a number or a boolean; null in quotes.
const std::string* bare_scalar(const YamlTree& value) {
  return value.kind == YamlTree::Kind::SCALAR && !value.is_text ? &value.scalar : nullptr;
}

std::optional<double> bare_number(const YamlTree& value) {
  const std::string* text = bare_scalar(value);
  return text == nullptr ? std::nullopt : read_number(*text);
}

std::string range_mistake(const std::string& key, double value, const NumberRange& range) {
  if (range.holds(value)) return "";
  return cat("'", key, "' is ", short_number(value), ", expected a finite number ", range.str());
}

}  // namespace

std::string NumberRange::str() const {
  const bool has_low = low > -std::numeric_limits<double>::max(),
             has_high = high < std::numeric_limits<double>::max();
  if (has_low && has_high)
    return cat(open_low ? "above " : "", short_number(low), " to ", open_high ? "below " : "",
               short_number(high));
  return has_low ? cat(open_low ? "> " : ">= ", short_number(low)) : "";
}

bool NumberRange::holds(double value) const {
  // All of them end up in FP32.
  constexpr double MOST = std::numeric_limits<float>::max(), LEAST = std::numeric_limits<float>::min();
  if (open_low && low == 0.0 && value < LEAST) return false;
  return std::abs(value) <= MOST && (open_low ? value > low : value >= low) &&
         (open_high ? value < high : value <= high);
}

void add_type_mistake(const std::string& key, std::string_view expected, const YamlTree& value,
                      Mistakes& mistakes) {
  const bool quoted = value.kind == YamlTree::Kind::SCALAR && value.is_text;
  mistakes.add(value.place,
               cat("'", key, "' expects ", expected, ", got ", quoted ? "the text " : "", describe(value)));
}

RecipeKey flag_key(std::string key, Member<bool> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "true, false", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    const std::string* text = bare_scalar(value);
    if (const auto flag = text == nullptr ? std::nullopt : read_flag(*text))
      member(recipe) = *flag;
    else
      add_type_mistake(name, "true or false", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_scalar(member(recipe) ? "true" : "false"); };
  return entry;
}

RecipeKey text_key(std::string key, Member<std::string> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "text", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    if (value.kind == YamlTree::Kind::SCALAR)
      member(recipe) = value.scalar;
    else
      add_type_mistake(name, "text", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_text(member(recipe)); };
  return entry;
}

RecipeKey texts_key(std::string key, Member<std::vector<std::string>> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "text or list of texts", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    std::vector<std::string> texts;
    const size_t before = mistakes.count();
    const bool is_list = value.kind == YamlTree::Kind::LIST;
    for (const YamlTree& item : is_list ? value.children : std::vector<YamlTree>{value}) {
      if (item.kind == YamlTree::Kind::SCALAR)
        texts.push_back(item.scalar);
      else
        add_type_mistake(name, is_list ? "a list of texts" : "a text or a list of texts", item, mistakes);
    }
    if (mistakes.count() == before) member(recipe) = texts;
  };
  entry.write = [member](Recipe& recipe) {
    YamlTree list = yaml_list();
    for (const std::string& text : member(recipe)) list.children.push_back(yaml_text(text));
    return list;
  };
  return entry;
}

RecipeKey path_key(std::string key, Member<std::filesystem::path> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "path", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    if (value.kind == YamlTree::Kind::SCALAR)
      member(recipe) = value.scalar;
    else
      add_type_mistake(name, "a path", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_text(member(recipe).string()); };
  return entry;
}

RecipeKey seed_key(std::string key, Member<uint64_t> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "integer, 0 to 2^64-1", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    const std::string* text = bare_scalar(value);
    if (const auto seed = text == nullptr ? std::nullopt : read_unsigned(*text))
      member(recipe) = *seed;
    else
      add_type_mistake(name, "an integer from 0 to 2^64-1", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_scalar(std::to_string(member(recipe))); };
  return entry;
}

RecipeKey number_key(std::string key, Member<double> member, const NumberRange& range, std::string help) {
  const std::string bounds = range.str();
  RecipeKey entry = make_key(std::move(key), bounds.empty() ? "number" : "number " + bounds, std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    if (const auto number = bare_number(value))
      member(recipe) = *number;
    else
      add_type_mistake(name, "a number", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return write_attribute(member(recipe)); };
  entry.check = [name = entry.key, member, range](Recipe& recipe) {
    return range_mistake(name, member(recipe), range);
  };
  return entry;
}

RecipeKey optional_number_key(std::string key, Member<std::optional<double>> member, const NumberRange& range,
                              std::string help) {
  RecipeKey entry = make_key(std::move(key), cat("number ", range.str()), std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    member(recipe) = bare_number(value);
    if (!member(recipe)) add_type_mistake(name, "a number", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) {
    return member(recipe) ? write_attribute(*member(recipe)) : YamlTree{};
  };
  entry.check = [name = entry.key, member, range](Recipe& recipe) {
    return member(recipe) ? range_mistake(name, *member(recipe), range) : std::string();
  };
  return entry;
}

RecipeKey numbers_key(std::string key, Member<std::vector<double>> member, const NumberRange& range,
                      std::string help) {
  const std::string bounds = range.str();
  RecipeKey entry = make_key(std::move(key), cat("number or list", bounds.empty() ? "" : ", each ", bounds),
                             std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    std::vector<double> numbers;
    const size_t before = mistakes.count();
    const bool is_list = value.kind == YamlTree::Kind::LIST;
    for (const YamlTree& item : is_list ? value.children : std::vector<YamlTree>{value}) {
      if (const auto number = bare_number(item))
        numbers.push_back(*number);
      else
        add_type_mistake(name, is_list ? "a list of numbers" : "a number or a list of numbers", item,
                         mistakes);
    }
    if (mistakes.count() == before) member(recipe) = numbers;
  };
  entry.write = [member](Recipe& recipe) {
    YamlTree list = yaml_list();
    for (const double number : member(recipe)) list.children.push_back(write_attribute(number));
    return list;
  };
  entry.check = [name = entry.key, member, range](Recipe& recipe) {
    for (const double number : member(recipe))
      if (const std::string text = range_mistake(name, number, range); !text.empty()) return text;
    return std::string();
  };
  return entry;
}

RecipeKey bytes_key(std::string key, Member<int64_t> member, std::string help) {
  RecipeKey entry = make_key(std::move(key), "bytes, or a size such as 32MiB, 1GiB", std::move(help));
  entry.read = [name = entry.key, member](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    const auto bytes = value.kind == YamlTree::Kind::SCALAR ? read_bytes(value.scalar) : std::nullopt;
    if (bytes)
      member(recipe) = *bytes;
    else
      add_type_mistake(name, "a size such as 32MiB, 1GiB or a number of bytes", value, mistakes);
  };
  entry.write = [member](Recipe& recipe) { return yaml_scalar(write_bytes(member(recipe))); };
  entry.check = [name = entry.key, member](Recipe& recipe) {
    return member(recipe) >= 0 ? std::string()
                               : cat("'", name, "' is ", member(recipe), ", expected at least 0");
  };
  return entry;
}

}  // namespace tr
