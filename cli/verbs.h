/// The program's verbs. Each adds its subcommand, and sets `exit_code` when it ran.
#pragma once

#include <CLI/App.hpp>

namespace tr::cli {

inline constexpr int EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 130;

void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_fit(CLI::App& app, int& exit_code);
void add_models(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_pack(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
void add_plots(CLI::App& app, int& exit_code);

}  // namespace tr::cli
