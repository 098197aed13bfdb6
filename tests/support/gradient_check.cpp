#include "support/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tr::test {

namespace {

class Differences {
 public:
  Differences(OpRig& rig, bool is_loss) : rig_(rig), is_loss_(is_loss) {}

  /// d loss / d element by central difference of step h.
  double at(float& element, float h) {
    const float kept = element;
    element = kept + h;
    const float high = element;
    const std::vector<float> above = outputs();
    element = kept - h;
    const float low = element;
    const std::vector<float> below = outputs();
    element = kept;
    double change = 0.0;
    const std::span<const float> dy = rig_.values(Port::DY);
    for (size_t i = 0; i < above.size(); ++i)
      change += (double{above[i]} - double{below[i]}) * (is_loss_ ? 1.0 : double{dy[i]});
    return change / (double{high} - double{low});
  }

 private:
  std::vector<float> outputs() {
    rig_.call(Pass::FORWARD)();
    const std::span<const float> out = is_loss_ ? rig_.values(Port::BASELINE, LOSS) : rig_.values(Port::Y);
    return {out.begin(), out.end()};
  }

  OpRig& rig_;
  bool is_loss_;
};

void check_tensor(Differences& differences, std::span<float> values, const std::vector<float>& gradient,
                  double gradient_scale, const std::string& name, const GradientCheck& how) {
  double scale = 0.0;
  for (const float g : gradient) scale = std::max(scale, std::abs(double{g}) / gradient_scale);
  const double allowed = how.tolerance * scale + 1e-6;
  const int64_t numel = static_cast<int64_t>(values.size());
  const int64_t stride = (numel + how.most_elements - 1) / how.most_elements;
  int64_t tried = 0, counted = 0;
  for (int64_t i = 0; i < numel; i += stride) {
    ++tried;
    float& element = values[static_cast<size_t>(i)];
    const double coarse = differences.at(element, how.step);
    const double fine = differences.at(element, how.step / 2);
    if (std::abs(coarse - fine) > allowed) continue;
    ++counted;
    const double want = (4.0 * fine - coarse) / 3.0;
    EXPECT_NEAR(double{gradient[static_cast<size_t>(i)]} / gradient_scale, want, allowed)
        << name << " element " << i << " of " << numel;
  }
  EXPECT_GE(4 * counted, 3 * tried) << name << ": too few elements are away from kinks";
}

}  // namespace

void check_gradients(const Catalog& catalog, const OpCase& c, const GradientCheck& how) {
  OpRig rig(catalog, c);
  rig.run(Pass::FORWARD);
  rig.run_backward();
  const std::vector<Use> uses = rig.spec().uses(rig.query(), Pass::FORWARD);
  const bool is_loss = std::ranges::any_of(
      uses, [](const Use& use) { return use.port == Port::BASELINE && use.index == LOSS && use.write; });

  Differences differences(rig, is_loss);
  // Forward passes of a loss write DX, so gradients are copied before the first difference.
  const auto check = [&](Port port, Port gradient_port, int i) {
    const std::span<const float> g = rig.values(gradient_port, i);
    const std::vector<float> gradient(g.begin(), g.end());
    check_tensor(differences, rig.values(port, i), gradient, is_loss ? double{c.loss_scale} : 1.0,
                 cat(c.op, ' ', port_name(gradient_port), '[', i, ']'), how);
  };
  for (int i = 0; i < static_cast<int>(rig.query().x.size()); ++i)
    if (rig.has(Port::DX, i)) check(Port::X, Port::DX, i);
  for (int i = 0; i < static_cast<int>(rig.params().size()); ++i) check(Port::PARAM, Port::PARAM_GRAD, i);
}

}  // namespace tr::test
