#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "integer_range.h"
#include "output_file.h"
#include "pack_file.h"
#include "verbs.h"

namespace tr::cli {

namespace {

constexpr const char* EXAMPLES = R"(Examples:
  renaissance pack tensors.csv
  renaissance pack tensors.csv --capacity 1048576 --exact --json
  renaissance pack tensors.csv --alignment 256 --output offsets.csv

tensors.csv has a header line with the columns id, lower, upper and size, in any order, and one tensor a line: alive
from time 'lower' until before 'upper', 'size' bytes. The same file gives the same offsets everywhere. Exit code 1 when
the tensors were not made to fit the capacity.)";

struct PackOptions {
  std::string file, output;
  PackingOptions packing;
  int64_t alignment = 1;
  bool json = false;
};

struct Outcome {
  int64_t tensors;
  Packing packing;
  double seconds;
  bool fits;
};

void print_text(const Outcome& outcome, int64_t capacity) {
  const Packing& packing = outcome.packing;
  const auto print = [](const char* name, int64_t value, const char* unit) {
    std::printf("%-12s %20lld%s\n", name, static_cast<long long>(value), unit);
  };
  const double over = packing.lower_bound == 0 ? 0.0
                                               : static_cast<double>(packing.bytes - packing.lower_bound) /
                                                     static_cast<double>(packing.lower_bound);
  print("tensors", outcome.tensors, "");
  print("lower bound", packing.lower_bound, " bytes");
  print("packed", packing.bytes,
        packing.proven && packing.bytes > packing.lower_bound && outcome.fits ? " bytes, the least possible"
                                                                              : " bytes");
  std::printf("%-12s %20.3f %%\n", "overshoot", 100 * over);
  std::printf("%-12s %20.3f\n", "seconds", outcome.seconds);
  if (capacity > 0)
    std::printf("%-12s %20lld bytes: %s\n", "capacity", static_cast<long long>(capacity),
                outcome.fits     ? "fits"
                : packing.proven ? "nothing fits it"
                                 : "not reached");
}

int run_pack(const PackOptions& options) {
  check_output("--output", options.output, options.json);
  PackingProblem problem = read_packing_problem(options.file);
  problem.alignment = options.alignment;
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome{static_cast<int64_t>(problem.items.size()), pack(problem, options.packing), 0, true};
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  validate_packing(problem, outcome.packing.offsets);
  const int64_t capacity = options.packing.capacity;
  outcome.fits = capacity == 0 || outcome.packing.bytes <= capacity;
  if (!options.output.empty()) write_packing(options.output, problem, outcome.packing);
  if (options.json)
    std::cout << nlohmann::ordered_json{{"tensors", outcome.tensors},
                                        {"lower_bound", outcome.packing.lower_bound},
                                        {"bytes", outcome.packing.bytes},
                                        {"seconds", outcome.seconds},
                                        {"fits", outcome.fits},
                                        {"proven", outcome.packing.proven}}
                     .dump()
              << '\n';
  else if (options.output != "-")
    print_text(outcome, capacity);
  return outcome.fits ? EXIT_FINE : EXIT_FAILED;
}

}  // namespace

void add_pack(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("pack", "Pack tensors with lifetimes into as few bytes as can be found");
  const auto options = std::make_shared<PackOptions>();
  verb->add_option("FILE", options->file, "tensors as id,lower,upper,size, or - for standard input")
      ->required();
  verb->add_option("--capacity", options->packing.capacity,
                   "bytes that are enough; exit code 1 when exceeded")
      ->transform(integer_range(1))
      ->option_text("N");
  verb->add_option("--alignment", options->alignment,
                   "offsets are multiples of it and sizes rounded up to it (1)")
      ->transform(integer_range(1, int64_t{1} << 32))
      ->option_text("N");
  verb->add_option("--effort", options->packing.effort, "multiplies the steps of the search (1)")
      ->transform(integer_range(1, 10'000))
      ->option_text("N");
  verb->add_flag("--exact", options->packing.exact,
                 "search until --nodes are used up, for some hundred tensors");
  verb->add_option("--nodes", options->packing.exact_nodes, "choices that --exact may make (2000000)")
      ->transform(integer_range(1))
      ->option_text("N");
  verb->add_option("--output", options->output,
                   "write id,lower,upper,size,offset to this file; -: instead of the summary")
      ->option_text("FILE");
  verb->add_flag("--json", options->json,
                 "print an object: tensors, lower_bound, bytes, seconds, fits, proven");
  verb->footer(EXAMPLES);
  verb->callback([options, &exit_code] { exit_code = run_pack(*options); });
}

}  // namespace tr::cli
