#include "nodes/look.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"

namespace paramedic::nodes {
namespace {

constexpr size_t kProcessesMax = 4096;

Json process_json(const cluster::RankProcess& process) {
  Json json;
  json["rank"] = process.rank;
  json["pid"] = process.pid;
  json["ring_id"] = process.ring_id;
  json["world_size"] = process.world_size;
  json["closed"] = process.closed;
  json["alive"] = process.alive;
  json["state"] = std::string(1, process.state);
  json["wait"] = process.wait;
  json["cpu_ms"] = process.cpu_ms;
  json["tree_cpu_ms"] = process.tree_cpu_ms;
  json["io_bytes"] = process.io_bytes;
  json["last_step"] = process.last_step;
  json["last_step_time_ns"] = process.last_step_time_ns;
  json["exit_code"] = process.exit_code ? Json(*process.exit_code) : Json(nullptr);
  json["exit_signal"] = process.exit_signal ? Json(*process.exit_signal) : Json(nullptr);
  return json;
}

std::optional<int> optional_int(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return static_cast<int>(found->get<int64_t>());
}

cluster::RankProcess process_of(const Json& json) {
  cluster::RankProcess process;
  process.rank = static_cast<int32_t>(integer_or(json, "rank", 0));
  process.pid = static_cast<int32_t>(integer_or(json, "pid", 0));
  process.ring_id = unsigned_or(json, "ring_id", 0);
  process.world_size = static_cast<int32_t>(integer_or(json, "world_size", 1));
  process.closed = bool_or(json, "closed", false);
  process.alive = bool_or(json, "alive", false);
  const std::string state = string_or(json, "state", "?");
  process.state = state.empty() ? '?' : state.front();
  process.wait = string_or(json, "wait", "");
  process.cpu_ms = unsigned_or(json, "cpu_ms", 0);
  process.tree_cpu_ms = unsigned_or(json, "tree_cpu_ms", 0);
  process.io_bytes = unsigned_or(json, "io_bytes", 0);
  process.last_step = integer_or(json, "last_step", -1);
  process.last_step_time_ns = integer_or(json, "last_step_time_ns", 0);
  process.exit_code = optional_int(json, "exit_code");
  process.exit_signal = optional_int(json, "exit_signal");
  return process;
}

Status write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Json Look::to_json() const {
  Json json;
  json["time_ns"] = moment.time_ns;
  json["stored_ns"] = stored_ns;
  json["ended"] = ended;
  if (clock) {
    json["clock"] = {{"offset_ns", clock->offset_ns}, {"error_ns", clock->error_ns}};
  }
  json["processes"] = Json::array();
  for (const auto& process : moment.processes) json["processes"].push_back(process_json(process));
  return json;
}

Result<Look> Look::from_json(const Json& json) {
  if (!json.is_object()) return corruption("a look at a node is no JSON object");
  Look look;
  look.moment.time_ns = integer_or(json, "time_ns", 0);
  look.stored_ns = integer_or(json, "stored_ns", 0);
  look.ended = bool_or(json, "ended", false);
  const auto clock = json.find("clock");
  if (clock != json.end() && clock->is_object()) {
    look.clock = ClockOffset{integer_or(*clock, "offset_ns", 0), integer_or(*clock, "error_ns", 0)};
  }
  const auto processes = json.find("processes");
  if (processes == json.end() || !processes->is_array()) return look;
  for (const Json& process : *processes) {
    if (look.moment.processes.size() >= kProcessesMax) break;
    if (process.is_object()) look.moment.processes.push_back(process_of(process));
  }
  return look;
}

Status write_look(const std::string& run_dir, const std::string& text) {
  const std::string path = run_dir + "/" + kLookFile;
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error("cannot write", temporary, errno);
  const Status written = write_all(fd, temporary, text);
  ::close(fd);
  PARAMEDIC_TRY(written);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return errno_error("cannot replace", path, errno);
  }
  return {};
}

Result<Look> read_look(const std::string& run_dir) {
  const std::string path = run_dir + "/" + kLookFile;
  PARAMEDIC_ASSIGN(const std::string text, posix_file_system().read(path));
  PARAMEDIC_ASSIGN(const Json json, parse_json(text, path));
  return Look::from_json(json);
}

}  // namespace paramedic::nodes
