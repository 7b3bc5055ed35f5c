#include "diagnose/traceback.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "diagnose/stack_dump.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

constexpr int kMarksHold = 6;
constexpr size_t kContinuationMax = 24;
constexpr size_t kPartMax = 512;  // bytes of a type, a file, a function, a line of code

void cut(std::string& part) { part.resize(std::min(part.size(), kPartMax)); }

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

int to_int(const std::string& digits) {
  return static_cast<int>(std::min(std::strtol(digits.c_str(), nullptr, 10), 1L << 30));
}

bool any_of_parts(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}

// "ValueError: …" with a type that says by its name that it is one; `rest` is what follows it.
bool named_exception(std::string_view text, std::string& type, std::string& message) {
  static const RE2 kNamed(
      R"(((?:[A-Za-z_]\w*(?:\.|::))*(?:[A-Za-z_]\w*)"
      R"((?:Error|Interrupt|Exit|Iteration|Failure|Fault|Timeout|Abort|Group)|\w*Exception))"
      R"(|(?:[A-Za-z_]\w*\.)+(?:[Ee]rror|timeout|BadZip[Ff]ile|BadGzipFile|DivisionByZero)"
      R"(|DistributionNotFound|VersionConflict|ServiceUnavailable|TooManyRequests|NoSuchKey)"
      R"(|Unsupported|BackendCompilerFailed|NotFound|Forbidden|Unauthorized|ArrowInvalid)"
      R"(|OutOfResources|RemoteDisconnected|NVMLError_\w+)|(?:queue|Queue|_queue)\.(?:Empty|Full))"
      R"(|(?:std::)?bad_alloc|(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:NotMet|NotFound|Exceeded|Mismatch))"
      R"(|(?:Invalid|Unsupported|Unexpected|Illegal|Missing|Duplicate|Incompatible)[A-Z][a-z]\w*)))"
      R"((?:\(\w+\)| \(see above for traceback\))?(?: ?: ?(.*))?)");
  return RE2::FullMatch(piece(text), kNamed, &type, &message) && message.find(" at 0x") != 0;
}

// The marks that set a line off in a report: **bold**, `code`.
std::string_view without_marks(std::string_view text) {
  constexpr std::string_view kMarks = "*`";
  while (!text.empty() && kMarks.find(text.front()) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  while (text.ends_with('`') || text.ends_with("**")) text.remove_suffix(1);
  return text;
}

// Any dotted name: only right behind frames, where nothing else can stand.
bool loose_exception(std::string_view text, std::string& type, std::string& message) {
  static const RE2 kLoose(R"(((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\(\w+\))?)(?::\s(.*)|:)?)");
  static const RE2 kKeyword(R"((?:else|try|finally|pass|return|raise|break|continue)\b.*)");
  return !RE2::FullMatch(piece(text), kKeyword) &&
         RE2::FullMatch(piece(text), kLoose, &type, &message);
}

// "Exception in thread "main" java.lang.RuntimeException: …": Python names no type on that line.
const RE2& jvm_thread() {
  static const RE2 kThread(R"re((?:.*\s)?Exception in thread "[^"]*" (.*))re");
  return kThread;
}

bool is_jvm_thread(std::string_view text) { return RE2::FullMatch(piece(text), jvm_thread()); }

// "file.cc:77: Check failed: a == b (3 vs. 4)": glog, dmlc and LightGBM print no type.
constexpr std::string_view kCheckType = "CheckFailed";
bool is_check(std::string_view text) {
  static const RE2 kCheck(R"((?:[^"']{0,400}[\s\]:])?(?:Check failed|Non-OK-status): .*)");
  return (contains(text, "Check failed: ") || contains(text, "Non-OK-status: ")) &&
         RE2::FullMatch(piece(text), kCheck);
}

// What a shell says of a process that a signal ended: no part of what the process said.
bool is_shell_report(std::string_view text) {
  static const RE2 kReport(R"((?:Aborted|Segmentation fault|Bus error|Illegal instruction|Killed))"
                           R"((?: \(core dumped\))?)");
  return RE2::FullMatch(piece(text), kReport);
}

// Notebooks name the type above the frames: it stays when the last line is cut off.
std::string type_of_header(std::string_view text) {
  static const RE2 kHeader(R"((?:.*\s)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt))\s+)"
                           R"(Traceback \(most recent call last\):?)");
  std::string type;
  RE2::FullMatch(piece(trim(text)), kHeader, &type);
  return type;
}

constexpr std::string_view kCausedBy = "Caused by: ";

FrameRole role_of_class(std::string_view name) {
  for (const std::string_view package : {"java.", "javax.", "jdk.", "sun.", "scala.", "kotlin."}) {
    if (name.starts_with(package)) return FrameRole::kStandardLibrary;
  }
  for (const std::string_view package :
       {"org.apache.", "ml.dmlc.", "org.tensorflow.", "org.deeplearning4j.", "io.netty."}) {
    if (name.starts_with(package)) return FrameRole::kFramework;
  }
  return FrameRole::kUser;
}

}  // namespace

FrameRole role_of(std::string_view file) {
  if (any_of_parts(file, {"torch/distributed/run.py", "torch/distributed/launch",
                          "torch/distributed/elastic", "runpy.py", "/bin/torchrun",
                          "deepspeed/launcher", "accelerate/commands", "horovod/runner",
                          "absl/app.py", "click/core.py", "hydra/_internal", "fire/core.py",
                          "multiprocessing/spawn.py", "<frozen runpy>"})) {
    return FrameRole::kLauncher;
  }
  // Compiled Python is nobody's script.
  const bool is_cython = file.ends_with(".pyx") || file.ends_with(".pxi") || file.ends_with(".pxd");
  if (is_cython ||
      any_of_parts(file, {"site-packages", "dist-packages", "/torch/", "/tensorflow/"})) {
    return FrameRole::kFramework;
  }
  static const RE2 kStandard(
      R"((?:.*[/\\])?(?:[Ll]ib(?:64)?[/\\](?:python[\d.]+[/\\])?|python[\d.]+[/\\])[\w/\\]+\.py)"
      R"(|<frozen .*)");
  if (RE2::FullMatch(piece(file), kStandard)) return FrameRole::kStandardLibrary;
  return FrameRole::kUser;
}

std::optional<Exception> TracebackParser::take() {
  if (finished_.empty()) return std::nullopt;
  Exception exception = std::move(finished_.front());
  finished_.pop_front();
  return exception;
}

void TracebackParser::finish() {
  if (state_ != State::kIdle) close();
}

void TracebackParser::close() {
  if (current_.type.empty() && !current_.frames.empty()) current_.type = header_type_;
  const bool is_cut = current_.type.empty() && !current_.is_dump && !current_.frames.empty();
  if (is_cut && current_.frames.back().role != FrameRole::kNative) {
    // The last line is missing: what the frames tell belongs to whoever spoke before.
    const Frame& inner = current_.frames.back();
    current_.is_dump = true;
    current_.message = "File \"" + inner.file + "\", in " + inner.function;
  }
  if (state_ == State::kMessage || !current_.frames.empty()) {
    // C++ spells the scope otherwise; the rest of the library knows one spelling.
    const size_t nested = current_.type.rfind('(');
    if (nested != std::string::npos && current_.type.starts_with("RayTaskError")) {
      current_.type.resize(nested);
    }
    current_.has_header = has_header_;
    finished_.push_back(std::move(current_));
  }
  current_ = {};
  state_ = State::kIdle;
  expect_code_ = false;
  has_header_ = false;
  stray_ = 0;
}

void TracebackParser::open_traceback(const LogLine& line) {
  const std::string_view text = line.text;
  header_type_ = type_of_header(text);
  cut(header_type_);
  current_.line = line.number;
  current_.offset = line.offset;
  if (contains(text, "Original Traceback")) next_link_ = Link::kInner;
  state_ = State::kFrames;
  current_.link = std::exchange(next_link_, Link::kNone);
  current_.ignored = std::exchange(next_ignored_, false);
  current_.in_thread = std::exchange(next_in_thread_, false);
  current_.process = std::exchange(next_process_, -1);
  has_header_ = true;
  frame_indent_ = 0;
}

// The lines between two tracebacks that say how they belong together.
bool TracebackParser::feed_between(std::string_view text) {
  bool known = true;
  if (contains(text, "During handling of the above exception")) {
    next_link_ = Link::kDuringHandling;
  } else if (contains(text, "was the direct cause of the following")) {
    next_link_ = Link::kCause;
  } else if (contains(text, "terminated with the following error")) {
    next_link_ = Link::kInner;
    static const RE2 kProcess(R"(-- Process (\d{1,6}) terminated)");
    RE2::PartialMatch(piece(text), kProcess, &next_process_);
  } else if (text.starts_with("Exception ignored in")) {
    next_ignored_ = true;
  } else if (text.starts_with("Exception in thread") && !is_jvm_thread(text)) {
    next_in_thread_ = true;
  } else {
    known = false;
  }
  if (known) {
    pending_ = kMarksHold;
  } else if (pending_ > 0) {
    --pending_;
    if (pending_ == 0) {
      next_link_ = Link::kNone;
      next_ignored_ = next_in_thread_ = false;
      next_process_ = -1;
    }
  }
  return known;
}

bool TracebackParser::frame_line(std::string_view text) {
  static const RE2 kFrame(R"re(\s*(?:[|+]\s*)?File "([^"]+)", line (\d+)(?:, in ?(.*))?)re");
  static const RE2 kNewIpython(R"((?:File )?([~/\w][^\s:]*):(\d+), in ([\w.<>]+)\(.*)");
  static const RE2 kOldIpython(R"((~?[\w./\\:<>-]*(?:\.pyx?|<ipython[^>]*>)|<ipython-input[^>]*>))"
                               R"( in ([\w.<>]*)(?:\(.*\))?)");
  static const RE2 kCell(R"(Cell In\s?\[\d+\], line (\d+).*)");
  static const RE2 kRich(R"(([/~][^\s:]*\.py):(\d+) in (\S+))");
  Frame frame;
  std::string line = "0";
  const re2::StringPiece whole = piece(text);
  if (!RE2::FullMatch(whole, kFrame, &frame.file, &line, &frame.function) &&
      !RE2::FullMatch(whole, kNewIpython, &frame.file, &line, &frame.function) &&
      !RE2::FullMatch(whole, kRich, &frame.file, &line, &frame.function) &&
      !RE2::FullMatch(whole, kOldIpython, &frame.file, &frame.function)) {
    if (!RE2::FullMatch(whole, kCell, &line)) return false;
    frame.file = "<cell>";
  }
  frame.line = to_int(line);
  cut(frame.file);
  cut(frame.function);
  frame.role = role_of(frame.file);
  frame_indent_ = indent_of(text);
  if (current_.frames.size() < kFramesMax) {
    current_.frames.push_back(std::move(frame));
  } else {
    // Of a recursion the outermost and the innermost frames are of interest.
    current_.frames.back() = std::move(frame);
  }
  expect_code_ = true;
  return true;
}

// The JVM prints frames behind the message, the innermost first.
bool TracebackParser::jvm_frame(std::string_view text) {
  const std::string_view bare = trim(text);
  if (!bare.starts_with("at ") && !bare.starts_with("... ")) return false;
  static const RE2 kFrame(R"(at (?:[\w.@]+/)?([\w.$]+)\.([\w$<>]+)\(([^():]+)(?::(\d+))?\))");
  static const RE2 kMore(R"(\.\.\. \d+ (?:more|common frames omitted))");
  Frame frame;
  std::string name, line;
  if (!RE2::FullMatch(piece(bare), kFrame, &name, &frame.function, &frame.file, &line)) {
    return RE2::FullMatch(piece(bare), kMore);
  }
  if (current_.frames.size() == kJvmFramesMax) return true;
  frame.line = to_int(line);
  cut(frame.file);
  cut(frame.function);
  frame.role = role_of_class(name);
  current_.frames.insert(current_.frames.begin(), std::move(frame));
  return true;
}

// The stack of native code behind its message, the innermost first. Where Python frames tell more
// it is left out.
bool TracebackParser::native_frame(std::string_view text) {
  if (text.starts_with("*** Check failure stack trace")) return true;
  DumpLine found = dump_line(text);
  if (found.kind != DumpLine::Kind::kFrame || found.frame.role != FrameRole::kNative) return false;
  const bool has_python =
      !current_.frames.empty() && current_.frames.back().role != FrameRole::kNative;
  if (has_python || current_.frames.size() == kDumpFramesMax) return true;
  cut(found.frame.file);
  cut(found.frame.function);
  current_.frames.insert(current_.frames.begin(), std::move(found.frame));
  return true;
}

bool TracebackParser::start_exception(const LogLine& line, bool loose) {
  std::string_view text = trim_left(line.text);
  if (text.starts_with("| ")) text = trim_left(text.substr(1));   // in an exception group
  if (text.starts_with("E  ")) text = trim_left(text.substr(1));  // pytest
  if (text.starts_with("*** ")) text = text.substr(4);            // pdb
  text = without_marks(text);
  // JAX tells twice what was raised.
  constexpr std::string_view kFiltered = "ilteredStackTrace: ";
  if (const size_t at = text.substr(0, kPartMax).find(kFiltered); at != std::string_view::npos) {
    text = text.substr(at + kFiltered.size());
  }
  std::string type, message;
  if (!named_exception(text, type, message) && !(loose && loose_exception(text, type, message))) {
    return false;
  }
  // Ray names the type that it carries over; most often the task's own traceback follows.
  static const RE2 kCarried(R"((?:[\w.]*\.)?RayTaskError\((\w+)\): .*)");
  std::string carried;
  if (!contains(text, " (pid=") && RE2::FullMatch(piece(text), kCarried, &carried)) type = carried;
  cut(type);
  current_.type = std::move(type);
  current_.message = message.substr(0, kMessageMax);
  current_.line = line.number;
  current_.offset = line.offset;
  is_stamped_ = line.is_stamped;
  state_ = State::kMessage;
  expect_code_ = false;
  stray_ = 0;
  return true;
}

bool TracebackParser::start_dump(const LogLine& line) {
  const DumpLine found = dump_line(line.text);
  if (found.kind == DumpLine::Kind::kNone) return false;
  state_ = State::kDump;
  current_ = {};
  current_.is_dump = true;
  if (found.kind == DumpLine::Kind::kFrame) feed_dump(line);
  return true;
}

// Frames of a dump stand the innermost first.
bool TracebackParser::feed_dump(const LogLine& line) {
  DumpLine found = dump_line(line.text);
  if (found.kind != DumpLine::Kind::kFrame) {
    close();
    return feed_idle(line);
  }
  if (current_.frames.empty()) {
    current_.line = line.number;
    current_.offset = line.offset;
    current_.message = std::string(trim(line.text)).substr(0, kMessageMax);
  }
  cut(found.frame.file);
  cut(found.frame.function);
  if (current_.frames.size() < kDumpFramesMax) {
    current_.frames.insert(current_.frames.begin(), std::move(found.frame));
  }
  return false;
}

bool TracebackParser::feed_idle(const LogLine& line) {
  if (contains(line.text, kTracebackHeader)) {
    open_traceback(line);
    return true;
  }
  // Header and frames of a dump may be all that tells of a failure: the scanner sees them too.
  if (start_dump(line)) return false;
  if (feed_between(line.text)) return true;
  if (std::string jvm; RE2::FullMatch(piece(line.text), jvm_thread(), &jvm)) {
    return start_exception({jvm, line.number, line.offset, line.is_stamped}, true);
  }
  if (const std::string_view bare = trim_left(line.text); bare.starts_with(kCausedBy)) {
    const std::string_view cause = bare.substr(kCausedBy.size());
    if (!start_exception({cause, line.number, line.offset, line.is_stamped}, false)) return false;
    current_.link = std::exchange(next_link_, Link::kNone);
    return true;
  }
  // C++ prints the type, and the message on the next line.
  static const RE2 kTerminate(R"(.*terminate called after throwing an instance of '([\w:]+)')");
  static const RE2 kWhat(R"(\s*what\(\):\s*(.*))");
  if (RE2::FullMatch(piece(line.text), kTerminate, &native_type_)) return false;
  std::string what;
  if (!native_type_.empty() && RE2::FullMatch(piece(line.text), kWhat, &what)) {
    current_.type = std::exchange(native_type_, {});
    cut(current_.type);
    current_.message = what.substr(0, kMessageMax);
    current_.line = line.number;
    current_.offset = line.offset;
    is_stamped_ = line.is_stamped;
    state_ = State::kMessage;
    return true;
  }
  static const RE2 kDebugger(R"(Exception has occurred: ([A-Za-z_][\w.]*).*)");
  if (std::string type; RE2::FullMatch(piece(line.text), kDebugger, &type)) {
    return start_exception({type, line.number, line.offset, line.is_stamped}, true);
  }
  if (contains(line.text, "File \"") && frame_line(line.text)) {
    current_.line = line.number;
    current_.offset = line.offset;
    state_ = State::kFrames;
    current_.link = std::exchange(next_link_, Link::kNone);
    return true;
  }
  // A lone "Type: message": whoever caught the exception printed no more than that.
  if (start_exception(line, false)) {
    current_.link = std::exchange(next_link_, Link::kNone);
    return true;
  }
  if (is_check(line.text)) {
    current_.type = kCheckType;
    current_.message = std::string(trim(line.text)).substr(0, kMessageMax);
    current_.line = line.number;
    current_.offset = line.offset;
    is_stamped_ = line.is_stamped;
    state_ = State::kMessage;
    return true;
  }
  return false;
}

bool TracebackParser::feed_frames(const LogLine& line) {
  const std::string_view text = line.text;
  const std::string_view bare = trim(text);
  if (contains(text, kTracebackHeader)) {
    // Two writers without prefixes: their frames are taken as one stack.
    open_traceback(line);
    return true;
  }
  if (frame_line(text)) {
    stray_ = 0;
    return true;
  }
  static const RE2 kArrow(R"(-+> ?(\d+)\s?(.*))");
  static const RE2 kSkipped(R"([~^\s]+|\[Previous line repeated.*|\.\.\.|\d+(?:\s.*)?|[|+=-]+)");
  std::string number, code;
  if (RE2::FullMatch(piece(bare), kArrow, &number, &code)) {
    if (!current_.frames.empty()) {
      current_.frames.back().code = std::string(trim(code).substr(0, kPartMax));
      if (current_.frames.back().line == 0) current_.frames.back().line = to_int(number);
    }
    stray_ = 0;
    expect_code_ = false;
    return true;
  }
  std::string type, message;
  const bool at_frame = indent_of(text) <= frame_indent_;
  if (expect_code_ && !(at_frame && named_exception(without_marks(bare), type, message))) {
    if (!current_.frames.empty()) current_.frames.back().code = bare.substr(0, kPartMax);
    expect_code_ = false;
    return true;
  }
  if (bare.empty() || RE2::FullMatch(piece(bare), kSkipped)) return true;
  if (!current_.frames.empty() || has_header_) {
    if (at_frame && start_exception(line, true)) return true;
    if (start_exception(line, false)) return true;
  }
  if (++stray_ > kStrayMax) close();
  return indent_of(text) > frame_indent_;
}

// Keras and AutoGraph print "TypeError: in user code:", the frames behind it and the error itself,
// indented, at the end.
bool TracebackParser::feed_user_code(const LogLine& line) {
  static const RE2 kPlace(R"(\s+([~/<\w][^\s:]*):(\d+) ([\w.<>]+)(?:\s+\*+)?)");
  const std::string_view text = line.text;
  if (indent_of(text) == 0) return false;
  std::string type, message;
  if (named_exception(trim(text), type, message)) {
    current_.message = message.substr(0, kMessageMax);
    current_.line = line.number;
    current_.offset = line.offset;
    return true;
  }
  Frame frame;
  std::string number;
  if (RE2::FullMatch(piece(text), kPlace, &frame.file, &number, &frame.function)) {
    frame.line = to_int(number);
    cut(frame.file);
    cut(frame.function);
    frame.role = role_of(frame.file);
    if (current_.frames.size() < kFramesMax) current_.frames.push_back(std::move(frame));
    expect_code_ = false;
  } else if (!frame_line(text) && !current_.frames.empty()) {
    current_.frames.back().code = std::string(trim(text).substr(0, kPartMax));
  }
  return true;
}

bool TracebackParser::feed_message(const LogLine& line) {
  const std::string_view text = line.text;
  if (current_.message.starts_with("in user code:") && feed_user_code(line)) return true;
  if (contains(text, kTracebackHeader)) {
    close();
    open_traceback(line);
    return true;
  }
  if (feed_between(text)) {
    close();
    return true;
  }
  if (jvm_frame(text) || native_frame(text)) return true;
  if (trim_left(text).starts_with(kCausedBy)) {
    close();
    next_link_ = Link::kInner;
    return feed_idle(line);
  }
  if (contains(text, "File \"") && indent_of(text) > 0) {
    // ray::f() (pid=…) prints its frames behind the type; SyntaxError its place before it.
    const bool wrapped = current_.frames.empty();
    close();
    if (wrapped) next_link_ = Link::kInner;
    return feed_idle(line);
  }
  std::string type, message;
  const bool other = (named_exception(trim_left(text), type, message) && indent_of(text) == 0) ||
                     is_jvm_thread(text) || is_shell_report(trim(text));
  // An empty line is never given: it shows as a gap in the numbers.
  // Keras alone puts one inside the message.
  const bool keras = current_.message.starts_with("Exception encountered when calling");
  const bool gap = line.number > last_line_ + 1 && !keras;
  // What a logger says after a traceback that no logger printed is not of its message.
  const bool logged = line.is_stamped && !is_stamped_;
  const bool over = text.empty() || gap || other || logged ||
                    current_.more_lines.size() >= kContinuationMax ||
                    current_.message.size() + text.size() > kMessageMax;
  if (over) {
    close();
    return !text.empty() && feed_idle(line);
  }
  current_.message += '\n';
  current_.message += trim(text);
  current_.more_lines.push_back(line.number);
  // It may be somebody else's line: the scanner looks at it too.
  return false;
}

bool TracebackParser::feed(const LogLine& line) {
  bool taken = false;
  switch (state_) {
    case State::kIdle:
      taken = feed_idle(line);
      break;
    case State::kFrames:
      taken = feed_frames(line);
      break;
    case State::kMessage:
      taken = feed_message(line);
      break;
    case State::kDump:
      taken = feed_dump(line);
      break;
  }
  last_line_ = line.number;
  return taken;
}

}  // namespace paramedic::diagnose
