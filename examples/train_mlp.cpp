/// Trains a fully connected network that is written in C++, without a recipe file.
///
///   train_mlp                                       on made-up images
///   train_mlp /usr/share/datasets/fashion-mnist     on a folder of the MNIST family
#include <cstdio>

#include "renaissance/core/error.h"
#include "renaissance/train/trainer.h"

class EpochPrinter : public tr::Observer {
  void on_epoch(const tr::EpochReport& report) override {
    std::printf("epoch %d  train loss %.4f  val loss %.4f\n", static_cast<int>(report.epoch),
                report.train.loss, report.val.loss);
  }
};

int main(int argc, char** argv) try {
  tr::Recipe recipe;
  recipe.name = "train_mlp";
  recipe.model.layers = tr::seq(tr::flatten(), tr::fc(256), tr::relu(), tr::fc(10));
  recipe.data = {.source = tr::DataSource::SYNTHETIC,
                 .classes = 10,
                 .train_samples = 2000,
                 .val_samples = 500,
                 .channels = 1,
                 .height = 28,
                 .width = 28,
                 .mean = {0.5},
                 .std = {0.25}};
  if (argc > 1) recipe.data = {.path = argv[1], .classes = 10, .mean = {0.2860}, .std = {0.3530}};
  recipe.optimizer = {.kind = tr::OptimizerKind::ADAMW, .learning_rate = 1e-3, .weight_decay = 0.01};
  recipe.train.epochs = 3;
  recipe.train.batch_size = 100;
  tr::check_recipe(recipe);

  tr::Trainer trainer(recipe);
  EpochPrinter printer;
  const tr::TrainResult result = trainer.run(printer);
  std::printf("val accuracy %.4f\n", result.val.top1);
} catch (const tr::Error& error) {
  std::fprintf(stderr, "train_mlp: %s\n", error.what());
  return 1;
}
