/// The parts of the page that plan_html() writes: files of src/graph/plan_page/, embedded by the build.
#pragma once

#include <string_view>

namespace tr {

extern const std::string_view PLAN_PAGE_HTML, PLAN_PAGE_CSS;
/// One script in three files: what a plan means, how it is drawn, what the page does.
extern const std::string_view PLAN_PAGE_PLAN_JS, PLAN_PAGE_MAP_JS, PLAN_PAGE_PAGE_JS;

}  // namespace tr
