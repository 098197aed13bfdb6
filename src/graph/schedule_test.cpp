#include "renaissance/graph/schedule.h"

#include <gtest/gtest.h>

#include "support/reference.h"

namespace tr {
namespace {

ScheduleKind kind_of(const std::string& name) {
  if (name == "step") return ScheduleKind::STEP;
  if (name == "cosine") return ScheduleKind::COSINE;
  return name == "linear" ? ScheduleKind::LINEAR : ScheduleKind::CONSTANT;
}

TEST(Schedule, MatchesTorchAtEveryStep) {
  for (const auto& run : test::load_reference("schedules.json")) {
    const int64_t steps_per_epoch = run["steps_per_epoch"];
    ScheduleSpec spec;
    spec.kind = kind_of(run["kind"]);
    spec.base = run["learning_rate"];
    spec.warmup_steps =
        static_cast<int64_t>(run.value("warmup_epochs", 0.0) * static_cast<double>(steps_per_epoch));
    spec.warmup_start = run.value("warmup_start", 0.0);
    spec.final_fraction = run.value("final_fraction", 0.0);
    spec.gamma = run.value("gamma", 1.0);
    spec.decay_steps = run.value("step_epochs", int64_t{1}) * steps_per_epoch;
    spec.total_steps = run["epochs"].get<int64_t>() * steps_per_epoch;
    for (size_t step = 0; step < run["rates"].size(); ++step)
      EXPECT_NEAR(spec.at(static_cast<int64_t>(step)), run["rates"][step].get<double>(), 1e-12 * spec.base)
          << run["kind"] << " step " << step << " of " << run.dump().substr(0, 200);
  }
}

TEST(Schedule, StaysAtItsLastValue) {
  ScheduleSpec spec;
  spec.kind = ScheduleKind::COSINE;
  spec.total_steps = 10;
  spec.final_fraction = 0.25;
  EXPECT_DOUBLE_EQ(spec.at(10), spec.base * 0.25);
  EXPECT_DOUBLE_EQ(spec.at(1000), spec.base * 0.25);
}

}  // namespace
}  // namespace tr
