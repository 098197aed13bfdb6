/// A memory plan as a page to look into: addresses over the schedule, live bytes, regions.
///
///   const std::vector<std::string> plans{plan_json(model)}, titles{"resnet50"};
///   std::ofstream("plan.html") << plan_html(plans, titles);
#pragma once

#include <span>
#include <string>

namespace tr {

/// One self-contained page of HTML (UTF-8; it loads nothing) that shows one plan, or two side by side with
/// what differs between them. `plan_jsons` are what plan_json() returns, `titles` names for people, one a
/// plan. Fields of a plan that the page does not know are kept and not shown. Throws ValueError for other
/// than one or two plans, for titles that are not as many, for a plan that is
/// not one, and for one of a newer schema.
std::string plan_html(std::span<const std::string> plan_jsons, std::span<const std::string> titles);

}  // namespace tr
