#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "renaissance/core/error.h"
#include "renaissance/models.h"
#include "train/recipe_keys.h"

namespace tr {

namespace {

class Parser {
 public:
  Parser(std::string source, Mistakes& mistakes) : source_(std::move(source)), mistakes_(mistakes) {
    for (RecipeKey& key : recipe_keys()) keys_.emplace(key.key, std::move(key));
    for (RecipeSection& section : recipe_sections()) sections_.emplace(section.name, std::move(section));
  }

  Recipe parse(const YamlTree& document) {
    Recipe recipe;
    for (const YamlTree& child : document.children) {
      if (sections_.contains(child.key))
        read_section(child, recipe);
      else
        read_key(child.key, child, recipe);
    }
    return recipe;
  }

  /// Mistakes of the recipe as a whole, at the place of the key they concern; none about what is broken.
  void check(const Recipe& recipe) {
    for (const KeyMistake& mistake : find_mistakes(recipe)) {
      if (broken_.contains(mistake.key)) continue;
      const std::string section = mistake.key.substr(0, mistake.key.find('.'));
      const auto place = places_.contains(mistake.key) ? places_.find(mistake.key) : places_.find(section);
      mistakes_.add(place == places_.end() ? source_ : place->second, mistake.text);
    }
  }

 private:
  void read_section(const YamlTree& section, Recipe& recipe) {
    places_[section.key] = section.key_place;
    if (section.kind == YamlTree::Kind::NONE) return;
    if (section.kind != YamlTree::Kind::MAP) {
      mistakes_.add(section.place, cat("'", section.key, "' expects a map of keys, got ", describe(section)));
      broken_.insert(section.key);
      return;
    }
    const size_t before = mistakes_.count();
    for (const YamlTree& child : section.children) read_key(cat(section.key, '.', child.key), child, recipe);
    if (mistakes_.count() > before) broken_.insert(section.key);
  }

  void read_key(const std::string& name, const YamlTree& value, Recipe& recipe) {
    const size_t before = mistakes_.count();
    const auto key = keys_.find(name);
    places_[name] = value.place;
    if (key == keys_.end())
      mistakes_.add(value.key_place, cat("unknown key '", name, "'", suggest_key(name)));
    else if (value.kind == YamlTree::Kind::NONE)
      mistakes_.add(value.key_place, cat("'", name, "' has no value; give one or leave the key out"));
    else
      key->second.read(value, recipe, mistakes_);
    if (mistakes_.count() > before) broken_.insert(name);
  }

  const std::string source_;
  Mistakes& mistakes_;
  std::map<std::string, RecipeKey> keys_;
  std::map<std::string, RecipeSection> sections_;
  std::map<std::string, std::string> places_;
  std::set<std::string> broken_;
};

/// Made-up images need sizes: those not stated are what the network was designed for.
void complete_synthetic_data(Recipe& recipe) {
  constexpr int64_t TRAIN_SAMPLES = 1024, VAL_SAMPLES = 256;
  constexpr ModelInput SMALL{1, 28, 28, 10};
  DataRecipe& data = recipe.data;
  if (data.source != DataSource::SYNTHETIC) return;
  ModelInput input = SMALL;
  for (const std::string& name : model_names())
    if (name == recipe.model.name) input = model_input(name);
  const auto complete = [](int64_t& value, int64_t otherwise) {
    if (value == 0) value = otherwise;
  };
  const int64_t resolution = recipe.train.resolution;
  complete(data.classes, input.classes);
  complete(data.channels, input.channels);
  complete(data.height, resolution > 0 ? resolution : input.height);
  complete(data.width, resolution > 0 ? resolution : input.width);
  complete(data.train_samples, TRAIN_SAMPLES);
  complete(data.val_samples, VAL_SAMPLES);
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  TR_CHECK(!std::filesystem::is_directory(file, error), IoError,
           cat("cannot read recipe '", file.string(), "': it is a folder, expected a YAML file"));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  TR_CHECK(
      in.is_open() && !in.bad(), IoError,
      cat("cannot read recipe '", file.string(), "': ", errno != 0 ? std::strerror(errno) : "read failed"));
  return text;
}

}  // namespace

Recipe parse_recipe(const std::string& yaml, const std::string& source,
                    const std::vector<std::string>& overrides) {
  Mistakes mistakes;
  YamlTree document = parse_yaml(
      yaml, [&](int line) { return cat(source, ':', line); }, mistakes);
  if (document.kind == YamlTree::Kind::NONE) {
    mistakes.raise();
    document.kind = YamlTree::Kind::MAP;  // an empty file states nothing, and overrides may state it all
  }
  if (document.kind != YamlTree::Kind::MAP)
    mistakes.add(document.place,
                 cat("expected a map of sections (data, model, train, ...), got ", describe(document)));
  if (document.kind != YamlTree::Kind::MAP) mistakes.raise();

  for (const RecipeSection& section : recipe_sections())
    if (YamlTree* value = document.find(section.name)) expand_shorthand(section, *value);
  for (const std::string& text : overrides) apply_override(text, document, mistakes);

  Parser parser(source, mistakes);
  Recipe recipe = parser.parse(document);
  complete_synthetic_data(recipe);
  parser.check(recipe);
  mistakes.raise();
  return recipe;
}

Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return parse_recipe(read_text(file), file.string(), overrides);
}

}  // namespace tr
