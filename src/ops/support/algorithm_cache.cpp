#include "ops/support/algorithm_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tr {

namespace {

/// Between processes: what one reads, merges and writes, no other does meanwhile.
class FileLock {
 public:
  explicit FileLock(std::filesystem::path file) {
    file += ".lock";
    handle_ = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (handle_ >= 0) flock(handle_, LOCK_EX);
  }
  ~FileLock() {
    if (handle_ >= 0) close(handle_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int handle_;
};

}  // namespace

AlgorithmCache::AlgorithmCache(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)), choices_(read_file()) {}

std::map<std::string, std::string> AlgorithmCache::read_file() const {
  if (file_.empty()) return {};
  std::ifstream in(file_);
  if (!in) return {};
  const nlohmann::json root = nlohmann::json::parse(in, nullptr, false);
  if (!root.is_object() || root.value("machine", nlohmann::json()) != machine_) return {};
  const auto choices = root.find("choices");
  if (choices == root.end() || !choices->is_object()) return {};
  std::map<std::string, std::string> found;
  for (const auto& [work, choice] : choices->items())
    if (choice.is_string()) found.emplace(work, choice.get<std::string>());
  return found;
}

std::optional<std::string> AlgorithmCache::find(const std::string& work) const {
  const auto entry = choices_.find(work);
  if (entry == choices_.end()) return std::nullopt;
  return entry->second;
}

void AlgorithmCache::store(const std::string& work, const std::string& choice) {
  choices_.insert_or_assign(work, choice);
  changed_ = true;
}

void AlgorithmCache::save() {
  if (file_.empty() || !changed_) return;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const FileLock lock(file_);
  choices_.merge(read_file());
  std::filesystem::path aside = file_;
  aside += "." + std::to_string(getpid());
  std::ofstream out(aside);
  out << nlohmann::json{{"machine", machine_}, {"choices", choices_}}.dump(1) << '\n';
  out.close();
  std::error_code failed;
  if (!out.fail()) std::filesystem::rename(aside, file_, failed);
  changed_ = out.fail() || failed;
  if (changed_) std::filesystem::remove(aside, ignored);
}

std::filesystem::path AlgorithmCache::default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "renaissance";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "renaissance";
  return {};
}

}  // namespace tr
