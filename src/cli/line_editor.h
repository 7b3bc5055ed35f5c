#pragma once
// One line of input at a time: with editing, history and completion on a terminal, as it comes
// from anything else. Main thread; the terminal's modes are put back before a line is answered.

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paramedic::cli {

// Where the console's lines come from.
class LineInput {
 public:
  // Words that `line`, which ends at the cursor, may go on with: whole words, in order.
  using Complete = std::function<std::vector<std::string>(std::string_view line)>;

  LineInput() = default;
  LineInput(const LineInput&) = delete;
  LineInput& operator=(const LineInput&) = delete;
  virtual ~LineInput() = default;

  // The next line without its end; nothing at the end of the input. Ctrl-C gives an empty line,
  // or another one that it stands for.
  virtual std::optional<std::string> next(const std::string& prompt, const Complete& complete) = 0;
};

// The line under the cursor and what keys do to it; a pure state, so that keys are tested without
// a terminal. Positions are bytes and never inside a character.
class EditedLine {
 public:
  enum class Result : unsigned char { kGoesOn, kDone, kInterrupted, kEnded };

  EditedLine(const std::deque<std::string>& history, const LineInput::Complete& complete)
      : history_(history), complete_(complete), history_at_(history.size()) {}

  // Takes one byte of what the terminal sends.
  Result take(char byte);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] size_t cursor() const { return cursor_; }
  // Several words fit where Tab was pressed: to be shown once.
  std::vector<std::string> take_choices() { return std::exchange(choices_, {}); }

 private:
  Result control(char byte);
  void escape(char byte);
  void insert(char byte);
  void erase_before();
  void erase_at();
  void erase_word();
  void move(int characters);
  void recall(int entries);
  void complete();
  [[nodiscard]] size_t before(size_t at) const;
  [[nodiscard]] size_t after(size_t at) const;

  const std::deque<std::string>& history_;
  const LineInput::Complete& complete_;
  std::string text_;
  size_t cursor_ = 0;
  size_t history_at_;
  std::string kept_;    // what was typed before the history was looked at
  std::string escape_;  // an escape sequence that is arriving
  std::vector<std::string> choices_;
};

// Standard input: edited where both it and standard output are terminals.
class TerminalInput : public LineInput {
 public:
  // `on_interrupt`: the line that Ctrl-C stands for.
  explicit TerminalInput(std::string on_interrupt = "");
  std::optional<std::string> next(const std::string& prompt, const Complete& complete) override;

 private:
  std::optional<std::string> edit(const std::string& prompt, const Complete& complete);

  const bool is_terminal_;
  const std::string on_interrupt_;
  std::deque<std::string> history_;
};

}  // namespace paramedic::cli
