#include "renaissance/train/fit.h"

#include <gtest/gtest.h>

#include <limits>

#include "renaissance/graph/outside_memory.h"
#include "support/expect_error.h"

namespace tr {
namespace {

Recipe small_recipe(const std::vector<std::string>& overrides = {}) {
  return parse_recipe(
      "threads: 1\n"
      "data: {source: synthetic, classes: 4, train_samples: 1000, val_samples: 600, channels: 3, height: 11, "
      "width: 9}\n"
      "model: {layers: [{conv: [5, 3]}, bn, relu, {conv: [7, 3, 2]}, bn, relu, gap, flatten, {fc: 4}]}\n"
      "optimizer: {kind: adamw}\n",
      "test", overrides);
}

/// What a batch needs, planned beside the search.
int64_t needed_bytes(Recipe recipe, int64_t batch) {
  recipe.train.batch_size = batch;
  const CompiledModel model = compile(compile_request(recipe, data_info(recipe, false), true),
                                      std::make_shared<const Catalog>(make_catalog()));
  const bool is_cpu = recipe.device == BackendKind::CPU;
  const auto overhead = measured_overhead(model.request.target);
  return model.plan(Variant::TRAIN_BASE).total_bytes() * (is_cpu ? recipe.ranks : 1) +
         (overhead ? overhead->bytes() : 0);
}

BatchFit fit(const Recipe& recipe, int64_t memory_bytes, int64_t granularity = 1) {
  return fit_batch(recipe, data_info(recipe, false), {memory_bytes, granularity});
}

TEST(FitBatch, FitsAndTheNextDoesNot) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{},
                                             {"ranks=3"},
                                             {"device=cuda", "precision=fp16"},
                                             {"train.val_batch_size=40"},
                                             {"memory.layout=linear"}}) {
    const Recipe recipe = small_recipe(overrides);
    for (const int64_t granularity : {1, 8, 13}) {
      const int64_t memory_bytes = needed_bytes(recipe, 120) + 12345;
      const BatchFit found = fit(recipe, memory_bytes, granularity);
      EXPECT_EQ(found.fits.batch % granularity, 0);
      EXPECT_GE(found.fits.batch, 120 / granularity * granularity);
      EXPECT_EQ(found.fits.bytes(), needed_bytes(recipe, found.fits.batch));
      EXPECT_LE(found.fits.bytes(), memory_bytes);
      ASSERT_TRUE(found.next.has_value());
      EXPECT_EQ(found.next->batch, found.fits.batch + granularity);
      EXPECT_EQ(found.next->bytes(), needed_bytes(recipe, found.next->batch));
      EXPECT_GT(found.next->bytes(), memory_bytes);
      EXPECT_LE(found.plans, 16);
    }
  }
}

TEST(FitBatch, MoreMemoryNeverMeansASmallerBatch) {
  const Recipe recipe = small_recipe();
  int64_t before = 1;
  for (int64_t memory_bytes = needed_bytes(recipe, 1); memory_bytes < needed_bytes(recipe, 200);
       memory_bytes += memory_bytes / 7) {
    const int64_t batch = fit(recipe, memory_bytes).fits.batch;
    EXPECT_GE(batch, before) << memory_bytes;
    before = batch;
  }
  EXPECT_GT(before, 100);
}

TEST(FitBatch, OfExactlyTheBytesItNeeds) {
  const Recipe recipe = small_recipe();
  for (const int64_t batch : {2, 37, 256}) {
    EXPECT_GE(fit(recipe, needed_bytes(recipe, batch)).fits.batch, batch);
    EXPECT_LT(fit(recipe, needed_bytes(recipe, batch) - 1).fits.batch, batch);
  }
}

TEST(FitBatch, TheDataBoundIt) {
  const BatchFit found = fit(small_recipe({"ranks=3"}), int64_t{1} << 50, 10);
  EXPECT_EQ(found.fits.batch, 330);  // 1,000 samples over 3 ranks
  EXPECT_FALSE(found.next.has_value());
}

TEST(FitBatch, ABudgetOfTheRecipeBindsAsWell) {
  Recipe recipe = small_recipe();
  recipe.budget_bytes = needed_bytes(recipe, 50);
  const BatchFit found = fit(recipe, needed_bytes(small_recipe(), 400));
  // Recomputation makes room for more than the budget's own batch.
  EXPECT_GE(found.fits.batch, 50);
  EXPECT_LE(found.fits.bytes(), recipe.budget_bytes);
  EXPECT_EQ(found.fits.bytes(), needed_bytes(recipe, found.fits.batch));
  ASSERT_TRUE(found.next.has_value());
  EXPECT_EQ(found.next->batch, found.fits.batch + 1);
  EXPECT_TRUE(found.next->exceeds_budget);
  test::refuses(ErrorKind::RecipeError, "memory.budget", [&] { needed_bytes(recipe, found.next->batch); });

  recipe.budget_bytes = 1000;
  test::refuses(ErrorKind::RecipeError, "memory.budget",
                [&] { fit(recipe, needed_bytes(small_recipe(), 400)); });
}

/// Batch norm with one value a sample: no batch of 1 can run, and none that leaves one sample over.
Recipe one_value_recipe(int64_t train_samples) {
  return parse_recipe(
      cat("threads: 1\ndata: {source: synthetic, classes: 4, train_samples: ", train_samples,
          ", val_samples: 64, channels: 1, height: 4, width: 4}\n"
          "model: {layers: [flatten, {fc: 64}, bn, relu, {fc: 4}]}\ntrain: {val_batch_size: 8}\n"),
      "test");
}

TEST(FitBatch, PassesOverBatchesThatCannotRun) {
  constexpr int64_t SAMPLES = 1001;
  const Recipe recipe = one_value_recipe(SAMPLES);
  const auto runs = [](int64_t batch) { return batch > 1 && SAMPLES % batch != 1; };
  std::vector<int64_t> needs(SAMPLES + 1);
  for (int64_t batch = 1; batch <= SAMPLES; ++batch)
    needs[static_cast<size_t>(batch)] = runs(batch) ? needed_bytes(recipe, batch) : 0;

  for (const int64_t granularity : {1, 2, 4, 8})
    for (const int64_t enough_for : {21, 42, 126, 202, 260, 504, 1001}) {
      const int64_t memory_bytes = needs[static_cast<size_t>(enough_for)];
      const std::string where = cat("memory for ", enough_for, ", granularity ", granularity);
      int64_t largest = 0;
      for (int64_t batch = granularity; batch <= SAMPLES; batch += granularity)
        if (runs(batch) && needs[static_cast<size_t>(batch)] <= memory_bytes) largest = batch;
      const BatchFit found = fit(recipe, memory_bytes, granularity);
      EXPECT_EQ(found.fits.batch, largest) << where;
      const int64_t next = largest + granularity;
      ASSERT_EQ(found.next.has_value(), next <= SAMPLES) << where;
      if (next > SAMPLES) continue;
      EXPECT_EQ(found.next->batch, next) << where;
      EXPECT_EQ(found.next->is_planned(), runs(next)) << where;
      const bool is_named =
          found.next->refusal.find("batch norm over 1 value per channel") != std::string::npos;
      EXPECT_EQ(is_named, !runs(next)) << where << ": " << found.next->refusal;
    }
}

TEST(FitBatch, PassesOverManyInARow) {
  const Recipe recipe = one_value_recipe(720'721);  // 2 to 16 all divide 720,720
  const BatchFit found = fit(recipe, needed_bytes(recipe, 17));
  EXPECT_GE(found.fits.batch, 17);
  EXPECT_TRUE(found.next.has_value());
}

TEST(FitBatch, WhereNoneCanRunTheReasonIsTheSmallestsOwn) {
  test::refuses(ErrorKind::NotSupportedError, "batch norm over 1 value per channel",
                [&] { fit(one_value_recipe(1), int64_t{1} << 40); });
  Recipe recipe = small_recipe();
  recipe.model.layers = seq(flatten(), fc(3));  // of 4 classes
  test::refuses(ErrorKind::ShapeError, "[1,1,1,3]", [&] { fit(recipe, int64_t{1} << 40); });
}

TEST(FitBatch, RefusesWhatCannotBe) {
  const Recipe recipe = small_recipe();
  const int64_t least = needed_bytes(recipe, 1);
  EXPECT_EQ(fit(recipe, least).fits.batch, 1);
  test::refuses(ErrorKind::ValueError, cat("a batch of 1 needs ", least, " bytes, there are ", least - 1),
                [&] { fit(recipe, least - 1); });
  test::refuses(ErrorKind::ValueError, cat("a batch of 8 needs ", needed_bytes(recipe, 8)),
                [&] { fit(recipe, least, 8); });
  test::refuses(
      ErrorKind::ValueError,
      "granularity 1001 on 1 ranks needs more samples a step than the 1000 of the data; use at most 1000",
      [&] { fit(recipe, least, 1001); });
  constexpr int64_t HUGE_GRANULARITY = std::numeric_limits<int64_t>::max();
  test::refuses(ErrorKind::ValueError, "granularity 9223372036854775807 on 4 ranks needs more samples",
                [&] { fit(small_recipe({"ranks=4"}), least, HUGE_GRANULARITY); });
  test::refuses(ErrorKind::ValueError, "granularity 0; give at least 1", [&] { fit(recipe, least, 0); });
  test::refuses(ErrorKind::ValueError, "memory of 0 bytes", [&] { fit(recipe, 0); });
}

TEST(ParseBytes, DecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("24GiB", "--memory"), 24ll << 30);
  EXPECT_EQ(parse_bytes("24GB", "--memory"), 24'000'000'000);
  EXPECT_EQ(parse_bytes("12345", "--memory"), 12345);
  for (const char* nonsense : {"", "24G", "many", "-1GiB", "0", "1.5GiB", "99999999TiB", "GiB"})
    test::refuses(ErrorKind::ValueError, cat("--memory: '", nonsense, "' is not a size"),
                  [&] { parse_bytes(nonsense, "--memory"); });
}

}  // namespace
}  // namespace tr
