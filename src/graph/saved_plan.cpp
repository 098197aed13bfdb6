#include "graph/saved_plan.h"

#include <unordered_set>
#include <vector>

#include "renaissance/core/error.h"
#include "renaissance/graph/plan_report.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

bool is_count(const Json& value) {
  constexpr int64_t LARGEST_EXACT = (int64_t{1} << 53) - 1;  // of a page's numbers, which are doubles
  return value.is_number_integer() && value >= 0 && value <= LARGEST_EXACT;
}
bool is_text(const Json& value) { return value.is_string(); }
bool is_list(const Json& value) { return value.is_array(); }
bool is_flag(const Json& value) { return value.is_boolean(); }
bool is_object(const Json& value) { return value.is_object(); }
bool is_count_or_null(const Json& value) { return value.is_null() || is_count(value); }
bool is_list_or_null(const Json& value) { return value.is_null() || value.is_array(); }
bool is_object_or_null(const Json& value) { return value.is_null() || value.is_object(); }

struct Field {
  const char* key;
  bool (*is)(const Json&);
};

/// Checks every field that a reader relies on, so that it need not check anything.
class PlanReader {
 public:
  explicit PlanReader(const std::string& title) : title_(title) {}

  Json read(const std::string& text) {
    try {
      plan_ = Json::parse(text, [this](int depth, Json::parse_event_t, const Json&) {
        constexpr int MOST = 64;  // writing it out takes stack for each
        if (depth > MOST) fail(cat("nests more than ", MOST, " deep"));
        return true;
      });
    } catch (const Json::parse_error& error) {
      fail(cat("is not JSON at byte ", error.byte, ", or was cut off"));
    }
    check_schema();
    require(plan_, "the plan",
            {{"total_bytes", is_count},
             {"persistent_bytes", is_count},
             {"outside", is_object},
             {"layout", is_text},
             {"device", is_text},
             {"precision", is_text},
             {"parameters", is_count},
             {"zone", is_object_or_null},
             {"regions", is_list},
             {"tensors", is_list},
             {"programs", is_list}});
    require(plan_["outside"], "outside", {{"pinned_host_bytes", is_count}});
    if (!plan_["zone"].is_null())
      require(plan_["zone"], "zone", {{"base", is_count}, {"bytes", is_count}, {"lower_bound", is_count}});
    for (const Json& region : plan_["regions"])
      require(region, "a region",
              {{"name", is_text}, {"base", is_count}, {"bytes", is_count}, {"tensors", is_count}});
    check_programs();
    check_tensors();
    return std::move(plan_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::ValueError, cat("plan '", title_, "': ", what,
                                           "; save one with 'renaissance plan RECIPE --json > FILE'"));
  }

  void require(const Json& object, const std::string& where, const std::vector<Field>& fields) const {
    if (!object.is_object()) fail(cat("has ", where, " that is not an object"));
    for (const Field& field : fields) {
      const auto found = object.find(field.key);
      if (found == object.end()) fail(cat("has no '", field.key, "' in ", where));
      if (!field.is(*found)) fail(cat("has ", where, " whose '", field.key, "' is ", shown(*found)));
    }
  }

  static std::string shown(const Json& value) {
    const std::string text = value.dump(-1, ' ', true);
    constexpr size_t MOST = 60;
    return text.size() <= MOST ? text : text.substr(0, MOST) + "…";
  }

  /// Before all else: a newer plan is not one that was damaged.
  void check_schema() const {
    if (!plan_.is_object() || !plan_.contains("schema")) fail("has no 'schema', so it is not a plan");
    require(plan_, "the plan", {{"schema", is_count}});
    TR_CHECK(plan_["schema"] <= PLAN_SCHEMA, ValueError,
             cat("plan '", title_, "': has schema ", plan_["schema"], ", this program reads up to ",
                 PLAN_SCHEMA, "; use the program that saved it, or a newer one"));
  }

  void check_programs() const {
    for (const Json& program : plan_["programs"]) {
      require(program, "a program", {{"name", is_text}, {"nodes", is_list}, {"peak", is_object}});
      const Json &nodes = program["nodes"], &peak = program["peak"];
      const std::string where = cat("program ", shown(program["name"]));
      for (const Json& node : nodes)
        require(node, "a node of " + where, {{"name", is_text}, {"part", is_text}, {"live_bytes", is_count}});
      require(peak, "the peak of " + where, {{"node", is_count}});
      if (peak["node"] >= nodes.size())
        fail(cat("has its peak of ", where, " at node ", peak["node"], " of ", nodes.size()));
    }
    if (plan_["programs"].empty()) fail("has no programs");
  }

  void check_tensors() const {
    std::unordered_set<int64_t> ids;
    for (const Json& tensor : plan_["tensors"]) {
      require(tensor, "a tensor",
              {{"id", is_count},
               {"name", is_text},
               {"region", is_text},
               {"dtype", is_text},
               {"shape", is_list},
               {"offset", is_count},
               {"slot_bytes", is_count},
               {"always", is_flag},
               {"in_place_of", is_count_or_null}});
      for (const Json& dim : tensor["shape"])
        if (!is_count(dim)) fail(cat("has a tensor whose 'shape' is ", shown(tensor["shape"])));
      for (const Json& program : plan_["programs"]) check_lifetime(tensor, program);
      if (!ids.insert(tensor["id"].get<int64_t>()).second) fail(cat("has two tensors of id ", tensor["id"]));
    }
    for (const Json& tensor : plan_["tensors"])
      if (const Json& from = tensor["in_place_of"]; !from.is_null() && !ids.contains(from.get<int64_t>()))
        fail(cat("has tensor ", shown(tensor["name"]), " in place of ", from, ", which does not exist"));
  }

  void check_lifetime(const Json& tensor, const Json& program) const {
    const std::string key = program["name"];
    require(tensor, "tensor " + shown(tensor["name"]), {{key.c_str(), is_list_or_null}});
    const Json& life = tensor[key];
    const bool is_within = life.is_null() || (life.size() == 2 && is_count(life[0]) && is_count(life[1]) &&
                                              life[0] <= life[1] && life[1] < program["nodes"].size());
    if (!is_within)
      fail(cat("has tensor ", shown(tensor["name"]), " alive in '", key, "' from ", shown(life), " of ",
               program["nodes"].size(), " nodes"));
  }

  std::string title_;
  Json plan_;
};

}  // namespace

Json read_saved_plan(const std::string& title, const std::string& text) {
  return PlanReader(title).read(text);
}

}  // namespace tr
