#include "graph/freeze.h"

#include <gtest/gtest.h>

namespace tr {
namespace {

TEST(Glob, StarsStandForAnyCharactersOrNone) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"*", ""},
                                                        {"*", "fc.weight"},
                                                        {"fc.weight", "fc.weight"},
                                                        {"layer1.*", "layer1.0.conv1.weight"},
                                                        {"*.bias", "a.b.bias"},
                                                        {"*.bn*.*", "layer1.0.bn2.bias"},
                                                        {"l*1*t", "layer1.weight"},
                                                        {"**a", "a"},
                                                        {"a*a*a", "aaa"},
                                                        {"*ab", "aab"}})
    EXPECT_TRUE(matches_glob(pattern, name)) << pattern << ' ' << name;
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"", "a"},
                                                        {"fc", "fc.weight"},
                                                        {"layer1.*", "layer10.0.weight"},
                                                        {"*.bias", "bias"},
                                                        {"a*a*a", "aa"},
                                                        {"*b", "ba"},
                                                        {"fc.*.x", "fc.x"},
                                                        {"FC*", "fc"}})
    EXPECT_FALSE(matches_glob(pattern, name)) << pattern << ' ' << name;
}

}  // namespace
}  // namespace tr
