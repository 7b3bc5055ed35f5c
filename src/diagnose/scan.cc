#include "diagnose/scan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kTextMax = 600;

Role role_of_exception(const Exception& exception, const Signature* signature) {
  if (exception.ignored) return Role::kTeardown;
  return signature == nullptr ? Role::kRoot : signature->role;
}

}  // namespace

Scanner::Scanner(const Catalog& catalog)
    : catalog_(catalog), gate_(catalog.gate_literals()), progress_(catalog) {}

bool Scanner::any_open() const {
  return std::any_of(writers_.begin(), writers_.end(),
                     [](const auto& entry) { return entry.second.parser.open(); });
}

bool Scanner::has_cause() const {
  return any_open() ||
         std::any_of(timeline_.events.begin(), timeline_.events.end(), [](const Event& event) {
           return event.role == Role::kRoot && !event.went_on;
         });
}

Status Scanner::scan(const std::string& name, int rank, ByteSource& source) {
  timeline_.files.push_back(name);
  splitter_ = {};
  writers_.clear();
  file_rank_ = rank;
  progress_read_to_ = 0;
  LineReader reader(source, gate_);
  RawLine raw;
  const auto read_progress = [&](uint64_t to) {
    const std::string_view history = reader.history();
    const uint64_t from = to - history.size();
    const uint64_t skip = progress_read_to_ > from ? progress_read_to_ - from : 0;
    if (skip < history.size()) progress_.read(history.substr(skip), timeline_);
    progress_read_to_ = to;
  };
  int follow = 0;
  for (;;) {
    PARAMEDIC_ASSIGN(const bool more, follow > 0 ? reader.next(raw) : reader.next_candidate(raw));
    if (!more) break;
    // What stood between the last line looked at and this one is progress text, if anything.
    if (follow == 0) read_progress(raw.offset);
    handle(raw);
    progress_read_to_ = std::max(progress_read_to_, raw.offset + raw.text.size());
    follow = any_open() ? kFollow : std::max(follow - 1, 0);
  }
  read_progress(reader.bytes_read());
  for (auto& [writer_name, writer] : writers_) {
    writer.parser.finish();
    drain(writer_name, writer);
  }
  timeline_.lines += reader.line_number();
  timeline_.bytes += reader.bytes_read();
  return {};
}

void Scanner::handle(const RawLine& raw) {
  const std::string text = clean_line(raw.text);
  if (text.empty()) return;
  const Prefixed prefixed = splitter_.split(text);
  const bool room = writers_.size() < kWritersMax || writers_.contains(prefixed.writer);
  const std::string name(room ? prefixed.writer : std::string_view());
  Writer& writer = writers_[name];
  writer.rank = prefixed.rank >= 0 ? prefixed.rank : writer.rank >= 0 ? writer.rank : file_rank_;
  writer.time_s = prefixed.time_s;
  writer.level = prefixed.level;
  if (prefixed.text.empty()) return;
  const bool is_stamped = prefixed.level != Level::kNone || !std::isnan(prefixed.time_s);
  const LogLine line = {prefixed.text, raw.number, raw.offset, is_stamped};
  const bool taken = writer.parser.feed(line);
  drain(name, writer);
  if (taken) return;
  // A progress bar and a message may share a line.
  progress_.read(raw.text, timeline_);
  const Signature* signature = catalog_.classify(line.text);
  if (signature != nullptr) add_line(*signature, line, prefixed, name, writer);
}

void Scanner::drain(const std::string& name, Writer& writer) {
  while (auto exception = writer.parser.take()) {
    add_exception(std::move(*exception), name, writer);
  }
}

void Scanner::add_exception(Exception exception, const std::string& name, const Writer& writer) {
  // Cut before its last line: nothing is known about it.
  if (exception.type.empty()) return;
  Event event;
  event.signature = catalog_.classify(exception);
  event.role = role_of_exception(exception, event.signature);
  event.text = exception.type;
  if (!exception.message.empty()) {
    event.text += ": " + exception.message.substr(0, exception.message.find('\n'));
  }
  event.text.resize(std::min(event.text.size(), kTextMax));
  event.line = exception.line;
  event.offset = exception.offset;
  event.exception = std::move(exception);
  event.rank = writer.rank >= 0 ? writer.rank : event.exception->process;
  event.writer = name;
  event.time_s = writer.time_s;
  add(std::move(event));
}

void Scanner::add_line(const Signature& signature, const LogLine& line, const Prefixed& prefixed,
                       const std::string& name, const Writer& writer) {
  if (signature.role == Role::kAdvice || signature.role == Role::kProgress) return;
  Event event;
  event.signature = &signature;
  event.role = signature.role;
  event.text = std::string(line.text.substr(0, kTextMax));
  event.line = line.number;
  event.offset = line.offset;
  event.rank = writer.rank;
  event.writer = name;
  event.time_s = prefixed.time_s;
  event.level = prefixed.level;
  add(std::move(event));
}

void Scanner::add(Event event) {
  event.file = timeline_.files.size() - 1;
  event.doing = timeline_.doing;
  event.step = timeline_.last_step;
  // The first ones of a kind tell the most; the rest of a flood is only counted.
  const std::string& kind =
      event.signature != nullptr ? event.signature->id : event.exception->type;
  size_t& known = kinds_[kind];
  if (known == kEventsOfKindMax || timeline_.events.size() == kEventsMax) {
    ++timeline_.events_dropped;
    return;
  }
  ++known;
  timeline_.events.push_back(std::move(event));
}

}  // namespace paramedic::diagnose
