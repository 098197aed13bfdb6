#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tr::test {

namespace {

std::string idx_header(uint8_t dims, const std::vector<uint32_t>& sizes) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims)};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xffu);
  return bytes;
}

void write_split(const std::filesystem::path& folder, const std::string& stem, uint32_t count) {
  constexpr uint32_t SIDE = 6;
  std::string images = idx_header(3, {count, SIDE, SIDE}), labels = idx_header(1, {count});
  for (uint32_t i = 0; i < count; ++i) {
    images += std::string(size_t{SIDE} * SIDE, static_cast<char>(i * 20 % 256));
    labels += static_cast<char>(i % 10);
  }
  write_file(folder / (stem + "-images-idx3-ubyte"), images);
  write_file(folder / (stem + "-labels-idx1-ubyte"), labels);
}

}  // namespace

Program::Program(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TR_PROGRAM);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string out = (output_ / "out").string(), err = (output_ / "err").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  const int code = posix_spawn(&process_, TR_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  TR_CHECK(code == 0, IoError, cat("cannot start ", TR_PROGRAM));
}

Program::~Program() {
  if (process_ < 0) return;
  send(SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Program::send(int signal_number) const { kill(process_, signal_number); }

Outcome Program::wait() {
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {code, read_file(output_ / "out"), read_file(output_ / "err")};
}

Outcome run_program(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  return Program(folder, std::move(arguments)).wait();
}

std::string small_recipe(std::string_view more) {
  return cat(
      "name: small\n"
      "threads: 1\n"
      "data: {source: synthetic, classes: 4, train_samples: 70, val_samples: 30, channels: 1, height: 8, "
      "width: 8}\n"
      "model: {layers: [flatten, {fc: 16}, relu, {fc: 4}]}\n"
      "train: {epochs: 2, batch_size: 16}\n",
      more);
}

void write_small_idx(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_split(folder, "train", 12);
  write_split(folder, "t10k", 8);
}

std::string idx_recipe(const std::filesystem::path& folder, int classes) {
  return cat("threads: 1\ndata: {path: \"", folder.string(), "\", classes: ", classes,
             "}\nmodel: {layers: [flatten, {fc: ", classes, "}]}\ntrain: {epochs: 1, batch_size: 4}\n");
}

}  // namespace tr::test
