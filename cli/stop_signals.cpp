#include "stop_signals.h"

namespace tr::cli {

namespace {

// A handler reaches nothing but static storage.
volatile std::sig_atomic_t stop_asked = 0;

extern "C" void on_stop_signal(int number) {
  if (stop_asked == 0) {
    stop_asked = 1;
    return;
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

StopSignals::StopSignals() {
  stop_asked = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

bool StopSignals::asked_to_stop() const { return stop_asked != 0; }

}  // namespace tr::cli
