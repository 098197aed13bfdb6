#include "zoo.h"

namespace tr {

BluePrint make_mlp(const ModelSettings& settings) {
  return seq(flatten(), named("fc1", fc(1024)), named("relu1", relu()), named("fc2", fc(512)),
             named("relu2", relu()), named("fc3", fc(256)), named("relu3", relu()),
             named("fc4", fc(settings.classes)));
}

}  // namespace tr
