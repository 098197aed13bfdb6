#include "ops/support/algorithm_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tr {

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
  choices_.merge(read_file());
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  std::filesystem::path aside = file_;
  aside += "." + std::to_string(getpid());
  std::ofstream out(aside);
  out << nlohmann::json{{"machine", machine_}, {"choices", choices_}}.dump(1) << '\n';
  out.close();
  if (out.fail()) {
    std::filesystem::remove(aside, ignored);
    return;
  }
  std::filesystem::rename(aside, file_, ignored);
  changed_ = false;
}

std::filesystem::path AlgorithmCache::default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "renaissance";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "renaissance";
  return {};
}

}  // namespace tr
