#include "diagnose/scan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "diagnose/sentence.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kTextMax = 600;
// Of so many events the whole stack is kept, of the others its ends.
constexpr size_t kWholeStacksMax = 256;
constexpr size_t kOuterFrames = 8;
constexpr size_t kInnerFrames = 24;

void shorten(std::vector<Frame>& frames) {
  if (frames.size() <= kOuterFrames + kInnerFrames) return;
  frames.erase(frames.begin() + kOuterFrames, frames.end() - kInnerFrames);
}

Role role_of_exception(const Exception& exception, const Signature* signature) {
  if (exception.ignored) return Role::kTeardown;
  return signature == nullptr ? Role::kRoot : signature->role;
}

}  // namespace

Scanner::Scanner(const Catalog& catalog) : catalog_(catalog), progress_(catalog) {}

bool Scanner::has_cause() const {
  return open_ > 0 ||
         std::any_of(timeline_.events.begin(), timeline_.events.end(), [](const Event& event) {
           return event.role == Role::kRoot && !event.went_on;
         });
}

Status Scanner::scan(const std::string& name, int rank, ByteSource& source) {
  timeline_.files.push_back(name);
  splitter_ = {};
  writers_.clear();
  open_ = 0;
  file_rank_ = rank;
  progress_read_to_ = 0;
  LineReader reader(source, catalog_.gate());
  RawLine raw;
  const auto read_progress = [&](uint64_t to) {
    progress_.read(reader.history(progress_read_to_), timeline_);
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
    follow = open_ > 0 ? kFollow : std::max(follow - 1, 0);
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
  if (const std::vector<std::string> lines = unfold(line.text); !lines.empty()) {
    return add_unfolded(lines, line, name, writer);
  }
  const bool taken = feed(writer, line);
  // What a progress bar said before a traceback began on its line.
  if (const size_t at = line.text.find(kTracebackHeader); at != std::string_view::npos && at > 0) {
    progress_.read(line.text.substr(0, at), timeline_);
  }
  drain(name, writer);
  if (taken) return;
  // A progress bar and a message may share a line.
  progress_.read(raw.text, timeline_);
  const Signature* signature = catalog_.classify(line.text);
  if (signature != nullptr) {
    add_line(*signature, line, prefixed, name, writer);
  } else if (prefixed.level == Level::kError && tells_of_progress(line.text)) {
    timeline_.progress_as_error = true;
  } else {
    add_told(line, prefixed, name, writer);
  }
}

bool Scanner::feed(Writer& writer, const LogLine& line) {
  if (writer.parser.open()) --open_;
  const bool taken = writer.parser.feed(line);
  if (writer.parser.open()) ++open_;
  return taken;
}

// A traceback on one line is whole: what stands before and behind it is not of it.
void Scanner::add_unfolded(const std::vector<std::string>& lines, const LogLine& line,
                           const std::string& name, Writer& writer) {
  const auto finish = [&] {
    if (writer.parser.open()) --open_;
    writer.parser.finish();
    drain(name, writer);
  };
  finish();
  for (const std::string& text : lines) {
    feed(writer, {text, line.number, line.offset, line.is_stamped});
  }
  finish();
}

void Scanner::add_told(const LogLine& line, const Prefixed& prefixed, const std::string& name,
                       const Writer& writer) {
  std::optional<Exception> told = exception_in(line.text);
  if (!told) return;
  const Signature* signature = catalog_.classify(*told);
  // A type that nobody knows may be any word.
  if (signature == nullptr || signature->role != Role::kRoot) return;
  Event event;
  event.signature = signature;
  event.is_told = true;
  event.text = (told->type + ": " + told->message).substr(0, kTextMax);
  event.line = told->line = line.number;
  event.offset = told->offset = line.offset;
  event.exception = std::move(told);
  event.rank = writer.rank;
  event.writer = name;
  event.time_s = prefixed.time_s;
  event.level = prefixed.level;
  add(std::move(event));
}

void Scanner::drain(const std::string& name, Writer& writer) {
  while (auto exception = writer.parser.take()) {
    add_exception(std::move(*exception), name, writer);
  }
}

void Scanner::add_exception(Exception exception, const std::string& name, const Writer& writer) {
  if (exception.is_dump) return add_dump(std::move(exception), name);
  // Cut before its last line: nothing is known about it.
  if (exception.type.empty()) return;
  Event event;
  event.signature = catalog_.classify(exception);
  event.role = role_of_exception(exception, event.signature);
  event.text = headline_of(exception);
  event.text.resize(std::min(event.text.size(), kTextMax));
  event.line = exception.line;
  event.offset = exception.offset;
  event.exception = std::move(exception);
  event.rank = writer.rank >= 0 ? writer.rank : event.exception->process;
  event.writer = name;
  event.time_s = writer.time_s;
  add(std::move(event));
}

// A stack belongs to the line that it was printed behind, else to the one in it that tells
// something. Of several (one for each thread) the first does.
void Scanner::add_dump(Exception dump, const std::string& name) {
  constexpr uint64_t kLinesBefore = 64;
  // What was drawn over itself has all its events on one line.
  constexpr size_t kEventsBefore = 256;
  Event* owner = nullptr;
  size_t looked_at = 0;
  for (auto event = timeline_.events.rbegin(); event != timeline_.events.rend(); ++event) {
    const bool is_far = event->file + 1 != timeline_.files.size() ||
                        event->line + kLinesBefore < dump.line || ++looked_at > kEventsBefore;
    if (is_far || (owner != nullptr && owner->line < dump.line)) break;
    if (event->writer == name) owner = &*event;
  }
  const bool is_free = owner != nullptr && !owner->exception && !owner->dump;
  if (is_free) owner->dump = std::move(dump);
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
  event.doing_is_hint = timeline_.doing_is_hint;
  event.step = timeline_.last_step;
  // The first ones of a kind tell the most; the rest of a flood is only counted.
  const std::string& kind =
      event.signature != nullptr ? event.signature->id : event.exception->type;
  // Kinds are only counted while there is room, so that they are not more than events.
  const bool has_room = timeline_.events.size() < kEventsMax && kinds_[kind] < kEventsOfKindMax;
  if (!has_room) {
    ++timeline_.events_dropped;
    return;
  }
  ++kinds_[kind];
  if (event.exception && timeline_.events.size() >= kWholeStacksMax) {
    shorten(event.exception->frames);
  }
  timeline_.events.push_back(std::move(event));
}

}  // namespace paramedic::diagnose
