#pragma once
// Python tracebacks out of a stream of lines: all printed forms (CPython 2 to 3.14, IPython, Rich,
// pytest) and the JVM's, indented or not, cut at either end, in chains and groups, and the lone
// "Type: message" line that loggers print. And stacks without an exception (stack_dump.h). One
// parser for each writer of a log; one thread.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::diagnose {

// Whose code a frame is in.
// kNative: of a native stack, where `file` is a library and `function` a symbol.
enum class FrameRole : uint8_t { kUser, kFramework, kStandardLibrary, kLauncher, kNative };

struct Frame {
  std::string file;
  int line = 0;
  std::string function;
  std::string code;  // the source line, "" where the log has none
  FrameRole role = FrameRole::kUser;
};

FrameRole role_of(std::string_view file);

// A line as the scanner hands it out.
struct LogLine {
  std::string_view text;  // clean, without prefixes
  uint64_t number = 0;
  uint64_t offset = 0;
  bool is_stamped = false;  // a time or a level stood before it
};

// How an exception follows from the one printed before it by the same writer.
enum class Link : uint8_t {
  kNone,
  kDuringHandling,  // "During handling of the above exception, another exception occurred"
  kCause,           // "The above exception was the direct cause of the following exception"
  kInner,           // "Original Traceback": the earlier one only carries this one over
};

struct Exception {
  std::string type;           // as printed, with its module: "torch.OutOfMemoryError"
  std::string message;        // may have several lines
  std::vector<Frame> frames;  // outermost first
  Link link = Link::kNone;
  bool is_dump = false;     // a stack without an exception; its innermost line is the message
  bool ignored = false;     // "Exception ignored in": the interpreter went on
  bool in_thread = false;   // "Exception in thread Thread-3"
  int process = -1;         // "-- Process 3 terminated with the following error"
  bool has_header = false;  // the traceback is whole: its first line stands in the log
  uint64_t line = 0;        // of "type: message"
  uint64_t offset = 0;
  std::vector<uint64_t> more_lines;  // of the message's further lines
};

class TracebackParser {
 public:
  // True when the line is part of a traceback.
  bool feed(const LogLine& line);
  // The end of the stream: what is open is finished.
  void finish();
  // Something is open that the next lines belong to.
  [[nodiscard]] bool open() const { return state_ != State::kIdle; }
  // Finished exceptions, in order.
  std::optional<Exception> take();

 private:
  static constexpr size_t kFramesMax = 512;
  static constexpr size_t kMessageMax = 4096;
  static constexpr size_t kJvmFramesMax = 64;
  static constexpr int kStrayMax = 48;

  static constexpr size_t kDumpFramesMax = 64;

  enum class State : uint8_t { kIdle, kFrames, kMessage, kDump };

  bool feed_idle(const LogLine& line);
  bool feed_frames(const LogLine& line);
  bool feed_message(const LogLine& line);
  bool feed_dump(const LogLine& line);
  bool start_dump(const LogLine& line);
  bool feed_between(std::string_view text);
  bool start_exception(const LogLine& line, bool loose);
  bool frame_line(std::string_view text);
  bool jvm_frame(std::string_view text);
  void open_traceback(const LogLine& line);
  void close();

  State state_ = State::kIdle;
  Exception current_;
  Link next_link_ = Link::kNone;
  bool next_ignored_ = false;
  bool next_in_thread_ = false;
  int next_process_ = -1;
  bool native_frame(std::string_view text);
  bool feed_user_code(const LogLine& line);

  std::string header_type_;  // that a notebook's header named
  std::string native_type_;  // that `terminate` named; its message is to come
  bool expect_code_ = false;
  bool has_header_ = false;
  size_t frame_indent_ = 0;
  bool is_stamped_ = false;  // the line with the exception's type was
  int stray_ = 0;            // lines since the last one that belonged here
  uint64_t last_line_ = 0;   // the last line given: empty ones never are
  int pending_ = 0;          // lines for which the next_… marks still hold
  std::deque<Exception> finished_;
};

}  // namespace paramedic::diagnose
