#include "renaissance/graph/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "renaissance/train/trainer.h"
#include "support/reference.h"

namespace tr {
namespace {

/// The recipe's own way from keys to a spec.
ScheduleSpec spec_of(const nlohmann::json& run) {
  std::string yaml = "data: synthetic\nmodel: mlp\nschedule:\n";
  for (const auto& [key, value] : run.items())
    if (key != "learning_rate" && key != "steps_per_epoch" && key != "epochs" && key != "rates")
      yaml += cat("  ", key, ": ", value.is_string() ? value.get<std::string>() : value.dump(), '\n');
  Recipe recipe = parse_recipe(yaml, "schedules.json");
  recipe.optimizer.learning_rate = run["learning_rate"];
  recipe.train.epochs = run["epochs"];
  recipe.train.batch_size = 1;
  DataInfo info = data_info(recipe, false);
  info.train_samples = run["steps_per_epoch"];
  return compile_request(recipe, info, true).schedule;
}

TEST(Schedule, MatchesTorchAtEveryStep) {
  for (const auto& run : test::load_reference("schedules.json")) {
    const ScheduleSpec spec = spec_of(run);
    for (size_t step = 0; step < run["rates"].size(); ++step)
      EXPECT_NEAR(spec.at(static_cast<int64_t>(step)), run["rates"][step].get<double>(), 1e-12 * spec.base)
          << run["kind"] << " step " << step << " of " << run.dump().substr(0, 200);
  }
}

TEST(Schedule, CountsStepsAndEpochsAlike) {
  // Every kind, held for an epoch, has at each step the value of the epoch's first.
  for (const std::string kind : {"constant", "step", "multi_step", "exponential", "polynomial", "linear",
                                 "cosine", "cosine_restarts", "one_cycle"}) {
    nlohmann::json run{{"learning_rate", 0.5}, {"steps_per_epoch", 7}, {"epochs", 9}, {"kind", kind}};
    if (kind == "multi_step") run["milestones"] = {2.5, 4.0};
    const ScheduleSpec every_step = spec_of(run);
    run["interval"] = "epoch";
    const ScheduleSpec held = spec_of(run);
    for (int64_t step = 0; step < 63; ++step)
      EXPECT_EQ(held.at(step), every_step.at(step / 7 * 7)) << kind << ' ' << step;
  }
}

TEST(Schedule, DropsKeepTheirPlacesUnderAWarmup) {
  const ScheduleSpec spec = spec_of({{"learning_rate", 1.0},
                                     {"steps_per_epoch", 10},
                                     {"epochs", 10},
                                     {"kind", "multi_step"},
                                     {"milestones", {4.5, 6}},
                                     {"gamma", 0.5},
                                     {"warmup_epochs", 2}});
  EXPECT_EQ(spec.at(10), 0.5);
  EXPECT_EQ(spec.at(44), 1.0);
  EXPECT_EQ(spec.at(45), 0.5);
  EXPECT_EQ(spec.at(59), 0.5);
  EXPECT_EQ(spec.at(60), 0.25);
  EXPECT_EQ(spec.at(99), 0.25);
}

TEST(Schedule, OneCycleOfOneStepIsAtItsPeak) {
  for (const double pct_start : {0.0, 0.5, 1.0}) {
    const ScheduleSpec spec = spec_of({{"learning_rate", 0.5},
                                       {"steps_per_epoch", 1},
                                       {"epochs", 1},
                                       {"kind", "one_cycle"},
                                       {"pct_start", pct_start}});
    for (const int64_t step : {0, 1, 100}) EXPECT_TRUE(std::isfinite(spec.at(step))) << pct_start;
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
