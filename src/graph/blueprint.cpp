#include "renaissance/graph/blueprint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "renaissance/core/error.h"

namespace tr {

namespace {

std::string_view type_name(const AttrValue& value) {
  constexpr std::array<std::string_view, 4> NAMES{"a boolean", "an integer", "a number", "text"};
  return NAMES.at(value.index());
}

/// Shortest text that reads back to the same value, and always as a number with a fraction.
std::string number_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <typename T>
const T& get(const AttrValue* value, std::string_view name, std::string_view expected) {
  TR_CHECK(value != nullptr, ValueError, cat("attribute '", name, "' is missing; expected ", expected));
  const T* typed = std::get_if<T>(value);
  TR_CHECK(typed != nullptr, ValueError,
           cat("attribute '", name, "' is ", type_name(*value), " (", str(*value), "), expected ", expected));
  return *typed;
}

/// A lone layer without a name is a sequence of one, so that its name does not depend on being alone.
BluePrint as_sequence(BluePrint child) {
  if (child.kind == BluePrint::Kind::SEQ || !child.name.empty()) return child;
  return seq(std::vector<BluePrint>{std::move(child)});
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttrValue>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

const AttrValue* Attributes::find(std::string_view name) const {
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
  return found == items_.end() ? nullptr : &found->second;
}

void Attributes::set(std::string_view name, AttrValue value) {
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
  if (found == items_.end())
    items_.emplace_back(std::string(name), std::move(value));
  else
    found->second = std::move(value);
}

bool Attributes::flag(std::string_view name) const { return get<bool>(find(name), name, "a boolean"); }

int64_t Attributes::integer(std::string_view name) const {
  return get<int64_t>(find(name), name, "an integer");
}

double Attributes::number(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value != nullptr && std::holds_alternative<int64_t>(*value))
    return static_cast<double>(std::get<int64_t>(*value));
  return get<double>(value, name, "a number");
}

const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(find(name), name, "text");
}

std::string str(const AttrValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  return std::get<std::string>(value);
}

bool operator==(const BluePrint& a, const BluePrint& b) {
  return a.kind == b.kind && a.name == b.name && a.op == b.op && a.attrs == b.attrs &&
         a.children == b.children;
}

BluePrint op(std::string_view name, Attributes attrs) {
  BluePrint print;
  print.kind = BluePrint::Kind::OP;
  print.op = name;
  print.attrs = std::move(attrs);
  return print;
}

BluePrint conv(int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding,
               const ConvOptions& options) {
  BluePrint layer = op("conv", {{"out_channels", out_channels},
                                {"kernel", kernel},
                                {"stride", stride},
                                {"padding", padding},
                                {"dilation", options.dilation},
                                {"groups", options.groups},
                                {"bias", options.bias}});
  if (options.linear) layer.attrs.set("linear", true);
  return layer;
}

BluePrint bn(double momentum, double epsilon) {
  return op("bn", {{"momentum", momentum}, {"epsilon", epsilon}});
}

BluePrint relu() { return op("relu"); }

BluePrint leaky_relu(double negative_slope) { return op("leaky_relu", {{"negative_slope", negative_slope}}); }

BluePrint sigmoid() { return op("sigmoid"); }
BluePrint tanh() { return op("tanh"); }
BluePrint silu() { return op("silu"); }
BluePrint hardswish() { return op("hardswish"); }
BluePrint hardsigmoid() { return op("hardsigmoid"); }
BluePrint relu6() { return op("relu6"); }
BluePrint elu(double alpha) { return op("elu", {{"alpha", alpha}}); }
BluePrint gelu(std::string approximate) { return op("gelu", {{"approximate", std::move(approximate)}}); }

BluePrint layer_norm(double epsilon) { return op("layer_norm", {{"epsilon", epsilon}}); }
BluePrint layer_scale(double init) { return op("layer_scale", {{"init", init}}); }
BluePrint stochastic_depth(double probability, std::string mode) {
  return op("stochastic_depth", {{"probability", probability}, {"mode", std::move(mode)}});
}

BluePrint maxpool(int64_t kernel, int64_t stride, int64_t padding, bool ceil) {
  BluePrint pool = op("maxpool", {{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
  if (ceil) pool.attrs.set("ceil", true);
  return pool;
}

BluePrint adaptive_avgpool(int64_t size) { return op("adaptive_avgpool", {{"size", size}}); }

BluePrint avgpool(int64_t kernel, int64_t stride, int64_t padding) {
  return op("avgpool", {{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
}

BluePrint gap() { return op("gap"); }

BluePrint flatten() { return op("flatten"); }

BluePrint fc(int64_t out_features, bool bias) {
  return op("fc", {{"out_features", out_features}, {"bias", bias}});
}

BluePrint dropout(double probability) { return op("dropout", {{"probability", probability}}); }

BluePrint identity() { return op("identity"); }

BluePrint seq(std::vector<BluePrint> children) {
  BluePrint print;
  print.children = std::move(children);
  return print;
}

BluePrint repeat(int64_t times, const BluePrint& child) {
  TR_CHECK(times >= 1, ValueError, cat("repeat: got ", times, " times, expected at least 1"));
  BluePrint copy = child;
  copy.name.clear();  // named by its index among the copies
  return seq(std::vector<BluePrint>(static_cast<size_t>(times), copy));
}

BluePrint residual(BluePrint body, std::optional<BluePrint> projection) {
  BluePrint print;
  print.kind = BluePrint::Kind::RESIDUAL;
  print.children.push_back(as_sequence(std::move(body)));
  if (projection) print.children.push_back(as_sequence(std::move(*projection)));
  return print;
}

BluePrint branches(std::string_view join, std::vector<BluePrint> children) {
  TR_CHECK(!children.empty(), ValueError, "branches: got none, expected at least one");
  BluePrint print;
  print.kind = BluePrint::Kind::BRANCHES;
  print.op = join;
  print.children = std::move(children);
  return print;
}

BluePrint without_level(BluePrint child) { return named(std::string(NO_LEVEL), std::move(child)); }

BluePrint named(std::string name, BluePrint child) {
  TR_CHECK(!name.empty(), ValueError,
           "named: got an empty name; leave named() out to name a child by its index");
  child.name = std::move(name);
  return child;
}

}  // namespace tr
