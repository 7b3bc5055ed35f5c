#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace paramedic::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("paramedic",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("paramedic: %v");
    const char* level = std::getenv("PARAMEDIC_LOG");
    made->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

void debug(std::string_view text) { logger().debug(text); }
void info(std::string_view text) { logger().info(text); }
void warn(std::string_view text) { logger().warn(text); }
void error(std::string_view text) { logger().error(text); }

}  // namespace paramedic::log
