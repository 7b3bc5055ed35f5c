// Any messages from any connections to the desk: it never fails, tells nobody more than he asked,
// and what it reads of a crash it can write and read again. The first byte of each line is the
// connection and the type, the rest the JSON of the message.

#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "recovery/desk.h"

namespace {

using namespace paramedic;
using namespace paramedic::recovery;

void check(bool condition) {
  if (!condition) std::abort();
}

class Nobody : public DeskWorld {
 public:
  void send(uint64_t connection, const record::ControlMessage& message) override {
    check(met.contains(connection));
    check(message.fields.is_object());
  }
  void on_remedy(const Crash&, const Remedy& remedy) override {
    check(!remedy.repair.kind.empty());
  }
  void on_pause(const Crash& crash) override { check(!crash.exception.empty()); }
  void on_change() override {}
  void on_repair(store::RepairRow row, const Repair& repair) override {
    check(row.kind == repair.kind);
    check(parse_json(row.detail, "the detail").ok());
  }

  std::set<uint64_t> met;
};

void check_round_trip(const Json& fields) {
  const auto crash = Crash::from_json(fields);
  if (!crash.ok()) return;
  // What was cut inside a character is replaced when it is written, and stays so from then on.
  const auto once = Crash::from_json(parse_json(to_text(crash->to_json()), "a crash").value());
  check(once.ok());
  const auto twice = Crash::from_json(parse_json(to_text(once->to_json()), "a crash").value());
  check(twice.ok() && to_text(twice->to_json()) == to_text(once->to_json()));
  (void)to_text(crash->verdict());
  (void)place_text(*crash);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  VirtualClock clock;
  Nobody world;
  Desk desk({&Policies::builtin(), true, 5'000'000'000}, world, clock);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) continue;
    const auto head = static_cast<uint8_t>(line[0]);
    const uint64_t connection = head / 16;
    const auto type = static_cast<record::ControlType>(head % 16);
    world.met.insert(connection);
    clock.advance(1'000'000'000);
    const auto fields = parse_json(line.substr(1), "a message");
    if (!fields.ok() || !fields->is_object()) {
      desk.left(connection);
      continue;
    }
    if (type == record::ControlType::kCrash) check_round_trip(*fields);
    if (!desk.take(connection, {type, *fields})) desk.left(connection);
    desk.tick();
    (void)desk.failure();
    check(desk.waiting().size() <= 256);
  }
  return 0;
}
