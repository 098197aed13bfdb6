#include "renaissance/graph/op_spec.h"

#include <algorithm>
#include <charconv>

#include "renaissance/core/error.h"

namespace tr {

std::string_view pass_name(Pass pass) {
  constexpr std::array<std::string_view, 6> NAMES{"forward",         "inference",     "backward",
                                                  "backward_weight", "backward_data", "recompute"};
  return NAMES.at(static_cast<size_t>(pass));
}

std::string_view port_name(Port port) {
  constexpr std::array<std::string_view, 13> NAMES{
      "x",          "y",          "dx",    "dy",         "param",     "param_grad", "state_prev",
      "state_next", "equivalent", "saved", "statistics", "workspace", "baseline"};
  return NAMES.at(static_cast<size_t>(port));
}

const Operand* Binding::find(Port port, int index) const {
  for (const Operand& operand : operands)
    if (operand.port == port && operand.index == index) return &operand;
  return nullptr;
}

const Operand& Binding::require(Port port, int index) const {
  const Operand* operand = find(port, index);
  TR_CHECK(operand != nullptr, IndexError,
           cat("'", query.layer, "' ", pass_name(pass), ": no operand ", port_name(port), '[', index, ']'));
  return *operand;
}

const DTensor& Binding::tensor(Port port, int index) const { return require(port, index).tensor; }

void Catalog::add(CatalogEntry entry) {
  TR_CHECK(!has(entry.spec->name()), ValueError,
           cat("operator '", entry.spec->name(), "' is in the catalogue twice"));
  entries_.push_back(std::make_unique<CatalogEntry>(std::move(entry)));
}

bool Catalog::has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry->spec->name() == name; });
}

const CatalogEntry& Catalog::find(std::string_view name) const {
  for (const auto& entry : entries_)
    if (entry->spec->name() == name) return *entry;
  const std::string near = nearest_name(name, names());
  throw Error(ErrorKind::RecipeError,
              cat("unknown operator '", name, "'", near.empty() ? "" : cat("; did you mean '", near, "'?")));
}

std::vector<std::string> Catalog::names() const {
  std::vector<std::string> list;
  for (const auto& entry : entries_) list.emplace_back(entry->spec->name());
  return list;
}

Offer Catalog::offer(const CatalogEntry& entry, const OpQuery& query, Pass pass) const {
  if (query.target.backend == BackendKind::CUDA) return entry.spec->offer_cuda(query, pass);
  const auto& kernels = entry.kernels[static_cast<size_t>(query.target.backend)];
  if (kernels == nullptr)
    return {cat("this build has no ", backend_name(query.target.backend), " kernels for '",
                entry.spec->name(), "'"),
            0};
  return kernels->offer(query, pass);
}

namespace {

/// `given` as the type of `example`, or nothing. Integers pass as numbers.
std::optional<AttrValue> convert(const AttrValue& given, const AttrValue& example) {
  if (given.index() == example.index()) return given;
  if (std::holds_alternative<double>(example) && std::holds_alternative<int64_t>(given))
    return static_cast<double>(std::get<int64_t>(given));
  return std::nullopt;
}

std::string_view type_name(const AttrValue& value) {
  constexpr std::array<std::string_view, 4> NAMES{"true or false", "an integer", "a number", "a word"};
  return NAMES.at(value.index());
}

}  // namespace

Attributes complete_attributes(const OpSpec& spec, const Attributes& given, const std::string& who) {
  const std::vector<AttrSpec> schema = spec.schema();
  const auto place_of = [&](const std::string& name) -> size_t {
    if (!name.empty() && name[0] == '#') {
      size_t place = schema.size();
      std::from_chars(name.data() + 1, name.data() + name.size(), place);
      TR_CHECK(place < schema.size(), RecipeError,
               cat(who, ": ", spec.name(), " takes at most ", schema.size(), " values"));
      return place;
    }
    for (size_t i = 0; i < schema.size(); ++i)
      if (schema[i].name == name) return i;
    std::vector<std::string> known;
    for (const AttrSpec& attr : schema) known.push_back(attr.name);
    const std::string near = nearest_name(name, known);
    throw Error(ErrorKind::RecipeError, cat(who, ": ", spec.name(), " has no attribute '", name, "'",
                                            near.empty() ? "" : cat("; did you mean '", near, "'?")));
  };

  std::vector<std::optional<AttrValue>> values(schema.size());
  for (const auto& [name, value] : given.items()) {
    const size_t place = place_of(name);
    TR_CHECK(!values[place].has_value(), RecipeError, cat(who, ": ", schema[place].name, " is given twice"));
    values[place] = convert(value, schema[place].type_example);
    TR_CHECK(values[place].has_value(), RecipeError,
             cat(who, ": ", schema[place].name, " is '", str(value), "', expected ",
                 type_name(schema[place].type_example)));
  }
  Attributes complete;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!values[i].has_value()) values[i] = schema[i].default_value;
    TR_CHECK(values[i].has_value(), RecipeError,
             cat(who, ": ", spec.name(), " needs ", schema[i].name, " (", schema[i].help, ")"));
    complete.set(schema[i].name, *values[i]);
  }
  spec.check(complete, who);
  return complete;
}

}  // namespace tr
