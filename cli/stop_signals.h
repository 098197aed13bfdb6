/// While one exists, the first SIGINT or SIGTERM asks for an orderly end, and the second ends the program at
/// once. One at a time: signals belong to the process.
#pragma once

#include <csignal>

namespace tr::cli {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked_to_stop() const;

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

}  // namespace tr::cli
