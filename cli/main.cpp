#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"
#include "verbs.h"

namespace tr::cli {

namespace {

int fail(int exit_code, std::string_view text) {
  std::cerr << "renaissance: " << text << std::endl;
  return exit_code;
}

/// What the user can mend by other arguments or another recipe, as opposed to files and machines.
bool is_usage(ErrorKind kind) {
  return kind == ErrorKind::RecipeError || kind == ErrorKind::ValueError || kind == ErrorKind::ShapeError ||
         kind == ErrorKind::NotSupportedError;
}

/// What is wrong with a verb's name; empty for one that exists.
std::string verb_mistake(const CLI::App& app, std::string_view given) {
  std::vector<std::string> known;
  std::string list;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    known.push_back(verb->get_name());
    list += (list.empty() ? "" : ", ") + verb->get_name();
  }
  if (std::find(known.begin(), known.end(), given) != known.end()) return "";
  const std::string near = nearest_name(given, known);
  return cat("unknown verb '", given, "'; ",
             near.empty() ? cat("use one of ", list) : cat("did you mean '", near, "'?"));
}

int run(int argc, char** argv) {
  CLI::App app("Trains image models from one static memory plan.", "renaissance");
  app.set_version_flag("--version", std::string("renaissance ") + TR_VERSION);
  app.require_subcommand(1);
  app.footer("Each verb has a --help of its own, with examples.");
  int exit_code = EXIT_FINE;
  add_train(app, exit_code);
  add_eval(app, exit_code);
  add_predict(app, exit_code);
  add_export(app, exit_code);
  add_plan(app, exit_code);
  add_fit(app, exit_code);
  add_models(app, exit_code);
  add_bench(app, exit_code);
  add_pack(app, exit_code);
  add_inspect(app, exit_code);
  add_plots(app, exit_code);
  if (argc > 1 && argv[1][0] != '-')
    if (const std::string mistake = verb_mistake(app, argv[1]); !mistake.empty())
      return fail(EXIT_USAGE, mistake);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> verbs = app.get_subcommands();
    const std::string verb = verbs.empty() ? "" : ' ' + verbs.front()->get_name();
    return fail(EXIT_USAGE, cat(error.what(), "\nTry 'renaissance", verb, " --help'."));
  }
  std::cout.flush();
  TR_CHECK(std::cout.good(), IoError, "standard output cannot be written; is the disk full?");
  return exit_code;
}

}  // namespace

}  // namespace tr::cli

int main(int argc, char** argv) {
  using namespace tr::cli;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error that names it, as a full disk is
  try {
    return run(argc, argv);
  } catch (const tr::Error& error) {
    return fail(is_usage(error.kind()) ? EXIT_USAGE : EXIT_FAILED, error.what());
  } catch (const std::bad_alloc&) {
    return fail(EXIT_FAILED, "out of host memory; use a smaller batch or fewer samples");
  } catch (const std::exception& error) {
    return fail(EXIT_FAILED, error.what());
  }
}
