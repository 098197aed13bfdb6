#include "renaissance/graph/plan_report.h"

#include <gtest/gtest.h>

#include "graph/text_table.h"

namespace tr {
namespace {

CompiledModel small_model() {
  CompileRequest request;
  request.model = seq(conv(6, 3, 1, 1), relu(), gap(), flatten(), fc(5));
  request.inputs = {Shape(8, 9, 9, 3), Shape(3, 9, 9, 3), Shape(8, 6, 6, 3),
                    Shape(3, 6, 6, 3), Shape(8, 9, 9, 3), Shape(20, 9, 9, 3)};
  request.classes = 5;
  request.target = default_target(BackendKind::CUDA);
  request.plan_only = true;
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

TEST(PlanReport, EveryByteOfAVariantIsDataPaddingOrWaste) {
  const CompiledModel model = small_model();
  for (int v = 0; v < NUM_VARIANTS; ++v) {
    const auto variant = static_cast<Variant>(v);
    int64_t data = 0;
    for (const DTensor& tensor : model.plan(variant).tensors())
      data += tensor.shape.numel() * dtype_bytes(tensor.dtype);
    EXPECT_EQ(data + alignment_waste_bytes(model, variant) + variant_waste_bytes(model, variant),
              model.plan(variant).total_bytes())
        << variant_name(variant);
  }
  // val_last is the largest, so that train_base wastes too, and less than its smaller kin.
  EXPECT_GT(variant_waste_bytes(model, Variant::TRAIN_BASE), 0);
  EXPECT_GT(variant_waste_bytes(model, Variant::TRAIN_LAST), variant_waste_bytes(model, Variant::TRAIN_BASE));
}

TEST(PlanReport, VariantsOfOneShapeShareCaptures) {
  const CompiledModel model = small_model();
  EXPECT_EQ(capture_owner(model, Variant::TRAIN_LOWRES), Variant::TRAIN_LOWRES);
  // Training and validation are different programs, however alike their input.
  EXPECT_EQ(capture_owner(model, Variant::VAL_BASE), Variant::VAL_BASE);
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
