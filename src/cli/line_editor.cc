#include "cli/line_editor.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "cli/text.h"

namespace paramedic::cli {
namespace {

constexpr size_t kHistoryMax = 500;
constexpr size_t kLineBytesMax = 16 << 10;
constexpr size_t kEscapeBytesMax = 16;
constexpr int kWidthDefault = 80;

constexpr char key(char letter) { return static_cast<char>(letter & 0x1f); }
constexpr char kEscape = 0x1b;
constexpr char kDelete = 0x7f;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80; }

// The terminal gives single bytes, unechoed, while this lives.
class RawMode {
 public:
  RawMode() : is_set_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  ~RawMode() {
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_{};
  bool is_set_;
};

int terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kWidthDefault;
}

// The prompt and as much of the line as fits around the cursor, on one row.
void draw(const std::string& prompt, const EditedLine& line) {
  const int room = std::max(terminal_width() - display_width(prompt) - 1, 10);
  size_t start = 0;
  const std::string_view text = line.text();
  while (display_width(text.substr(start, line.cursor() - start)) >= room) {
    do {
      start++;
    } while (start < text.size() && is_continuation(text[start]));
  }
  std::string shown(text.substr(start));
  while (display_width(shown) > room) {
    while (!shown.empty() && is_continuation(shown.back())) shown.pop_back();
    if (!shown.empty()) shown.pop_back();
  }
  const int column =
      display_width(prompt) + display_width(text.substr(start, line.cursor() - start));
  std::cout << "\r" << prompt << shown << "\x1b[K\r";
  if (column > 0) std::cout << "\x1b[" << column << "C";
  std::cout << std::flush;
}

void show_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) return;
  std::string text;
  for (const std::string& choice : choices) text += (text.empty() ? "" : "  ") + clean(choice);
  std::cout << "\r\n";
  for (const std::string& row : wrap(text, terminal_width())) std::cout << row << "\r\n";
}

}  // namespace

EditedLine::Result EditedLine::take(char byte) {
  if (!escape_.empty()) {
    escape(byte);
    return Result::kGoesOn;
  }
  if (byte == kEscape) {
    escape_ = byte;
  } else if (static_cast<unsigned char>(byte) < ' ' || byte == kDelete) {
    return control(byte);
  } else {
    insert(byte);
  }
  return Result::kGoesOn;
}

EditedLine::Result EditedLine::control(char byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return Result::kDone;
    case '\t':
      complete();
      break;
    case key('C'):
      return Result::kInterrupted;
    case key('D'):
      if (text_.empty()) return Result::kEnded;
      erase_at();
      break;
    case key('A'):
      cursor_ = 0;
      break;
    case key('E'):
      cursor_ = text_.size();
      break;
    case key('B'):
      move(-1);
      break;
    case key('F'):
      move(1);
      break;
    case key('P'):
      recall(-1);
      break;
    case key('N'):
      recall(1);
      break;
    case key('K'):
      text_.resize(cursor_);
      break;
    case key('U'):
      text_.erase(0, cursor_);
      cursor_ = 0;
      break;
    case key('W'):
      erase_word();
      break;
    case key('H'):
    case kDelete:
      erase_before();
      break;
    default:
      break;
  }
  return Result::kGoesOn;
}

// "\e[A" and "\eOA" are up; "\e[3~" is delete; what is not known is passed over.
void EditedLine::escape(char byte) {
  escape_ += byte;
  const bool is_start = escape_.size() == 2 && (byte == '[' || byte == 'O');
  const bool is_inside = escape_.size() > 2 && ((byte >= '0' && byte <= '9') || byte == ';');
  if ((is_start || is_inside) && escape_.size() < kEscapeBytesMax) return;
  const std::string sequence = std::move(escape_);
  escape_.clear();
  if (sequence == "\x1b[3~") return erase_at();
  const bool is_home = byte == 'H' || sequence == "\x1b[1~" || sequence == "\x1b[7~";
  const bool is_end = byte == 'F' || sequence == "\x1b[4~" || sequence == "\x1b[8~";
  if (is_home) cursor_ = 0;
  if (is_end) cursor_ = text_.size();
  if (byte == 'A') recall(-1);
  if (byte == 'B') recall(1);
  if (byte == 'C') move(1);
  if (byte == 'D') move(-1);
}

void EditedLine::insert(char byte) {
  if (text_.size() >= kLineBytesMax) return;
  text_.insert(cursor_++, 1, byte);
}

size_t EditedLine::before(size_t at) const {
  if (at > 0) at--;
  while (at > 0 && is_continuation(text_[at])) at--;
  return at;
}

size_t EditedLine::after(size_t at) const {
  if (at < text_.size()) at++;
  while (at < text_.size() && is_continuation(text_[at])) at++;
  return at;
}

void EditedLine::erase_before() {
  const size_t start = before(cursor_);
  text_.erase(start, cursor_ - start);
  cursor_ = start;
}

void EditedLine::erase_at() { text_.erase(cursor_, after(cursor_) - cursor_); }

void EditedLine::erase_word() {
  size_t start = cursor_;
  while (start > 0 && text_[start - 1] == ' ') start--;
  while (start > 0 && text_[start - 1] != ' ') start--;
  text_.erase(start, cursor_ - start);
  cursor_ = start;
}

void EditedLine::move(int characters) {
  cursor_ = characters < 0 ? before(cursor_) : after(cursor_);
}

void EditedLine::recall(int entries) {
  const bool is_edge = entries < 0 ? history_at_ == 0 : history_at_ == history_.size();
  if (is_edge) return;
  if (history_at_ == history_.size()) kept_ = text_;
  history_at_ += static_cast<size_t>(entries);
  text_ = history_at_ == history_.size() ? kept_ : history_[history_at_];
  cursor_ = text_.size();
}

// What all words that fit have in common is written; when that is nothing more, they are shown.
void EditedLine::complete() {
  const std::string line = text_.substr(0, cursor_);
  const size_t start = line.find_last_of(' ') + 1;
  std::vector<std::string> words = complete_(line);
  if (words.empty()) return;
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto [end, other] = std::mismatch(common.begin(), common.end(), word.begin(), word.end());
    common.erase(end, common.end());
  }
  if (words.size() == 1) common += ' ';
  if (common.size() > cursor_ - start) {
    text_.replace(start, cursor_ - start, common);
    cursor_ = start + common.size();
  } else {
    choices_ = std::move(words);
  }
}

TerminalInput::TerminalInput(std::string on_interrupt)
    : is_terminal_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1),
      on_interrupt_(std::move(on_interrupt)) {}

std::optional<std::string> TerminalInput::next(const std::string& prompt,
                                               const Complete& complete) {
  if (is_terminal_) return edit(prompt, complete);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

std::optional<std::string> TerminalInput::edit(const std::string& prompt,
                                               const Complete& complete) {
  EditedLine line(history_, complete);
  auto result = EditedLine::Result::kGoesOn;
  {
    const RawMode raw;
    draw(prompt, line);
    while (result == EditedLine::Result::kGoesOn) {
      char byte = 0;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      result = got == 1 ? line.take(byte) : EditedLine::Result::kEnded;
      show_choices(line.take_choices());
      draw(prompt, line);
    }
    std::cout << (result == EditedLine::Result::kInterrupted ? "^C\r\n" : "\r\n") << std::flush;
  }
  if (result == EditedLine::Result::kEnded) return std::nullopt;
  if (result == EditedLine::Result::kInterrupted) return on_interrupt_;
  if (!line.text().empty() && (history_.empty() || history_.back() != line.text())) {
    history_.push_back(line.text());
    if (history_.size() > kHistoryMax) history_.pop_front();
  }
  return line.text();
}

}  // namespace paramedic::cli
