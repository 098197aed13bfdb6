#include "renaissance/graph/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/text_table.h"
#include "renaissance/core/byte_text.h"
#include "renaissance/graph/outside_memory.h"

namespace tr {
namespace {

using Json = nlohmann::ordered_json;

CompiledModel small_model(Layout layout = Layout::PACKED, BackendKind backend = BackendKind::CUDA) {
  CompileRequest request;
  request.model = seq(conv(6, 3, 1, 1), bn(), relu(), residual(seq(conv(6, 3, 1, 1), bn())), relu(),
                      dropout(), gap(), flatten(), fc(5));
  request.inputs = {Shape(8, 9, 9, 3), Shape(3, 9, 9, 3), Shape(8, 6, 6, 3),
                    Shape(3, 6, 6, 3), Shape(8, 9, 9, 3), Shape(20, 9, 9, 3)};
  request.classes = 5;
  request.config.layout = layout;
  request.config.precision = backend == BackendKind::CUDA ? Precision::FP16 : Precision::FP32;
  request.target = default_target(backend);
  request.target.threads = 1;
  request.plan_only = true;
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

std::vector<CompiledModel> small_models() {
  std::vector<CompiledModel> models;
  for (const Layout layout : {Layout::PACKED, Layout::LINEAR})
    for (const BackendKind backend : {BackendKind::CPU, BackendKind::CUDA})
      models.push_back(small_model(layout, backend));
  return models;
}

int64_t sum_of_slots(const MemoryPlan& plan) {
  int64_t sum = 0;
  for (const DTensor& tensor : plan.tensors()) sum += tensor.slot_bytes;
  return sum;
}

/// The lines of `text` between the line `heading` and the next empty one.
std::vector<std::string> section(const std::string& text, const std::string& heading) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside && line.empty()) break;
    if (inside) lines.push_back(line);
    inside = inside || line.starts_with(heading);
  }
  return lines;
}

/// Columns are two spaces or more apart.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found;
  for (size_t begin = line.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = line.find("  ", begin);
    found.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(' ', end);
  }
  return found;
}

TEST(PlanReport, EveryByteOfASlotIsDataPaddingOrWaste) {
  for (const CompiledModel& model : small_models()) {
    for (int v = 0; v < NUM_VARIANTS; ++v) {
      const auto variant = static_cast<Variant>(v);
      int64_t data = 0;
      for (const DTensor& tensor : model.plan(variant).tensors())
        data += tensor.shape.numel() * dtype_bytes(tensor.dtype);
      EXPECT_EQ(data + alignment_waste_bytes(model, variant) + variant_waste_bytes(model, variant),
                sum_of_slots(model.plan(variant)))
          << variant_name(variant);
    }
    // val_last is the largest, so that train_base wastes too, and less than its smaller kin.
    EXPECT_GT(variant_waste_bytes(model, Variant::TRAIN_BASE), 0);
    EXPECT_GT(variant_waste_bytes(model, Variant::TRAIN_LAST),
              variant_waste_bytes(model, Variant::TRAIN_BASE));
  }
}

TEST(PlanReport, VariantsOfOneShapeShareCaptures) {
  const CompiledModel model = small_model();
  EXPECT_EQ(capture_owner(model, Variant::TRAIN_LOWRES), Variant::TRAIN_LOWRES);
  // Training and validation are different programs, however alike their input.
  EXPECT_EQ(capture_owner(model, Variant::VAL_BASE), Variant::VAL_BASE);
}

TEST(PlanReport, PersistentBytesAreThoseOfTheOtherRegions) {
  for (const CompiledModel& model : small_models()) {
    const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
    int64_t persistent = 0;
    for (const DTensor& tensor : plan.tensors())
      if (!region_traits(tensor.region).transient) persistent += tensor.slot_bytes;
    EXPECT_EQ(persistent_bytes(plan), persistent);
  }
}

/// live_bytes by brute force: distinct bytes of the arena under the tensors that are needed at each node.
TEST(PlanReport, LiveBytesAreDistinctBytesOfNeededTensors) {
  for (const CompiledModel& model : small_models()) {
    const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
    for (const Program program : {Program::TRAIN, Program::EVAL}) {
      const ProgramMemory memory = program_memory(model, program);
      for (size_t n = 0; n < memory.nodes.size(); ++n) {
        std::vector<bool> used(static_cast<size_t>(plan.total_bytes() / ARENA_ALIGNMENT_BYTES));
        int64_t by_tensor = 0;
        for (const DTensor& tensor : plan.tensors()) {
          by_tensor += live_bytes_of(model, tensor.id, program, static_cast<int>(n));
          if (!region_traits(tensor.region).transient) continue;
          const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
          const Lifetime now{static_cast<int32_t>(n), static_cast<int32_t>(n)};
          if (!use.always && !use.in(program).meets(now)) continue;
          for (int64_t b = 0; b < tensor.slot_bytes / ARENA_ALIGNMENT_BYTES; ++b)
            used[static_cast<size_t>(tensor.offset / ARENA_ALIGNMENT_BYTES + b)] = true;
        }
        EXPECT_EQ(std::count(used.begin(), used.end(), true) * ARENA_ALIGNMENT_BYTES, memory.live_bytes[n])
            << memory.nodes[n]->name;
        EXPECT_EQ(by_tensor, memory.live_bytes[n]) << memory.nodes[n]->name;
      }
      EXPECT_EQ(*std::max_element(memory.live_bytes.begin(), memory.live_bytes.end()), memory.peak_bytes());
    }
  }
}

TEST(PlanText, WhatTheBytesAreForAddsUp) {
  for (const CompiledModel& model : small_models()) {
    const std::string text = plan_text(model);
    int64_t sum = 0;
    double share = 0.0;
    std::vector<std::string> lines = section(text, "What the bytes are for");
    const std::vector<std::string> total = cells(lines.back());
    lines.pop_back();
    for (const std::string& line : lines) {
      sum += std::stoll(cells(line).at(1));
      share += std::stod(cells(line).at(3));
    }
    EXPECT_EQ(total.at(0), "arena");
    EXPECT_EQ(std::stoll(total.at(1)), sum);
    EXPECT_EQ(sum, model.plan(Variant::TRAIN_BASE).total_bytes());
    EXPECT_NEAR(share, 100.0, 0.05 * static_cast<double>(lines.size()));  // of one digit each
  }
}

TEST(PlanText, TransientTensorsAddUpToThePeak) {
  for (const CompiledModel& model : small_models()) {
    const std::string text = plan_text(model);
    int64_t slots = 0, alive = 0;
    std::vector<std::string> all;
    for (const std::string& line : section(text, "Transient tensors")) {
      const std::vector<std::string> row = cells(line);
      if (row.size() != 7) continue;  // heading and last line
      if (row[0] == "all") {
        all = row;
        continue;
      }
      slots += std::stoll(row[2]);
      alive += std::stoll(row[4]);
    }
    ASSERT_EQ(all.size(), 7u) << text;
    EXPECT_EQ(std::stoll(all[2]), slots);
    EXPECT_EQ(std::stoll(all[4]), alive);
    EXPECT_EQ(alive, program_memory(model, Program::TRAIN).peak_bytes());
    EXPECT_EQ(slots, sum_of_slots(model.plan(Variant::TRAIN_BASE)) -
                         persistent_bytes(model.plan(Variant::TRAIN_BASE)));
  }
}

TEST(PlanText, PeaksListWhoIsAliveAndSumTheRest) {
  for (const CompiledModel& model : small_models()) {
    const std::string text = plan_text(model);
    for (const Program program : {Program::TRAIN, Program::EVAL}) {
      const ProgramMemory memory = program_memory(model, program);
      const std::string heading = program == Program::TRAIN ? "Peak of training: " : "Peak of evaluation: ";
      int64_t sum = 0;
      const std::vector<std::string> lines = section(text, heading);
      for (size_t i = 1; i < lines.size(); ++i) {
        const std::vector<std::string> row = cells(lines[i]);
        sum += std::stoll(row.at(row[0].ends_with(" more") ? 1 : 3));
      }
      EXPECT_EQ(sum, memory.peak_bytes());
      EXPECT_LE(lines.size(), 22u);
      EXPECT_NE(text.find(heading + memory.nodes[static_cast<size_t>(memory.peak)]->name), std::string::npos);
    }
  }
}

TEST(PlanText, LayoutsNameTheirTransientBytes) {
  const std::string packed = plan_text(small_model()), linear = plan_text(small_model(Layout::LINEAR));
  for (const char* words : {"transient zone", "lower bound of it", "overshoot", "Largest workspace: "}) {
    EXPECT_NE(packed.find(words), std::string::npos) << words;
    EXPECT_EQ(linear.find(words), std::string::npos) << words;
  }
  for (const char* words : {"of them alive at once", "One workspace for all nodes: "})
    EXPECT_NE(linear.find(words), std::string::npos) << words;
  EXPECT_NE(packed.find("0 forward … 1 backward"), std::string::npos) << "lifetimes of the largest tensors";
}

TEST(PlanText, TitleIsShownWhereThereIsOne) {
  const CompiledModel model = small_model();
  EXPECT_EQ(plan_text(model).find("recipe"), std::string::npos);
  const std::string text = plan_text(model, {"tiny", "my recipe"});
  EXPECT_THAT(text, testing::ContainsRegex("recipe +my recipe\n +model +tiny\n"));
}

TEST(OutsideMemory, OfACardThatWasMeasuredAndOneThatWasNot) {
  CompiledModel model = small_model();
  const auto overhead = measured_overhead(model.request.target);
  ASSERT_TRUE(overhead.has_value());
  EXPECT_EQ(overhead->card, "NVIDIA H200");
  EXPECT_EQ(overhead->context_bytes, 567'083'008);
  EXPECT_NE(plan_text(model).find("measured on NVIDIA H200"), std::string::npos);

  // Two slots of the largest batch: 20 labels in 256 bytes, then 20 x 9 x 9 x 3 bytes and 16 spare ones.
  EXPECT_EQ(pinned_host_bytes(model), 2 * round_up(256 + 20 * 9 * 9 * 3 + 16, 256));
  EXPECT_EQ(Json::parse(plan_json(model))["outside"]["pinned_host_bytes"], pinned_host_bytes(model));

  model.request.target.compute_capability = 120;
  EXPECT_FALSE(measured_overhead(model.request.target).has_value());
  EXPECT_NE(plan_text(model).find("context and libraries  unknown"), std::string::npos);
  EXPECT_EQ(Json::parse(plan_json(model))["outside"]["overhead"], nullptr);
}

TEST(OutsideMemory, OfTheCpuIsUnknown) {
  const CompiledModel model = small_model(Layout::PACKED, BackendKind::CPU);
  EXPECT_FALSE(measured_overhead(model.request.target).has_value());
  EXPECT_EQ(pinned_host_bytes(model), 0);
  EXPECT_NE(plan_text(model).find("program and libraries  unknown"), std::string::npos);
}

TEST(PlanJson, TitleMayBeAnyBytes) {
  const CompiledModel model = small_model();
  EXPECT_EQ(Json::parse(plan_json(model))["model"],
            (Json{{"name", nullptr}, {"recipe", nullptr}, {"batch", 8}}));
  const Json report = Json::parse(plan_json(model, {"tiny", "a\"b\xff"}));
  EXPECT_EQ(report["model"]["name"], "tiny");
  EXPECT_EQ(report["model"]["recipe"], "a\"b\uFFFD");
}

TEST(TextTable, ColumnsLineUpByCharactersNotBytes) {
  TextTable table("lr");
  table.row({"a", "1"});
  table.row({"–", "22"});
  table.row({"longer"});
  EXPECT_EQ(table.str(), "  a        1\n  –       22\n  longer\n");
}

TEST(TextTable, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(3ll << 40), "3.00 TiB");
  EXPECT_EQ(human_and_exact(1 << 20), "1.00 MiB (1048576)");
}

}  // namespace
}  // namespace tr
