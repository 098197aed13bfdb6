#include "renaissance/graph/plan_html.h"

#include <vector>

#include "graph/plan_page.h"
#include "graph/saved_plan.h"
#include "renaissance/core/error.h"

namespace tr {

namespace {

using Json = nlohmann::ordered_json;

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string html_escaped(const std::string& text) {
  return replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
}

/// JSON that may stand inside <script>: ASCII, and nothing in it can end the element.
std::string script_json(const Json& json) {
  return replaced(json.dump(-1, ' ', true, Json::error_handler_t::replace), "<", "\\u003c");
}

struct Part {
  std::string_view marker, text;
};

/// The page with each `{{marker}}` replaced; what is put in is not searched again.
std::string filled(std::string_view page, const std::vector<Part>& parts) {
  std::string out;
  for (size_t begin; (begin = page.find("{{")) != std::string_view::npos;) {
    const size_t end = page.find("}}", begin);
    const std::string_view marker = page.substr(begin + 2, end - begin - 2);
    out += page.substr(0, begin);
    for (const Part& part : parts)
      if (part.marker == marker) out += part.text;
    page.remove_prefix(end + 2);
  }
  return out += page;
}

}  // namespace

std::string plan_html(std::span<const std::string> plan_jsons, std::span<const std::string> titles) {
  TR_CHECK(plan_jsons.size() == 1 || plan_jsons.size() == 2, ValueError,
           cat("plan_html: got ", plan_jsons.size(), " plans; expected one, or two to compare"));
  TR_CHECK(titles.size() == plan_jsons.size(), ValueError,
           cat("plan_html: got ", titles.size(), " titles for ", plan_jsons.size(),
               " plans; expected one title a plan"));
  Json plans = Json::array();
  std::string title;
  for (size_t p = 0; p < plan_jsons.size(); ++p) {
    plans.push_back({{"title", titles[p]}, {"plan", read_saved_plan(titles[p], plan_jsons[p])}});
    title += (p == 0 ? "" : " and ") + titles[p];
  }
  // Through JSON once more: a title with bytes that are not UTF-8 has them replaced.
  const std::string clean = Json::parse(Json(title).dump(-1, ' ', true, Json::error_handler_t::replace));
  return filled(PLAN_PAGE_HTML, {{"title", html_escaped(clean)},
                                 {"style", PLAN_PAGE_CSS},
                                 {"plans", script_json(plans)},
                                 {"plan.js", PLAN_PAGE_PLAN_JS},
                                 {"map.js", PLAN_PAGE_MAP_JS},
                                 {"page.js", PLAN_PAGE_PAGE_JS}});
}

}  // namespace tr
