// Whole sessions of the repair console, as a person sees them.

#include "cli/repair_console.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/test_folder.h"
#include "cli/golden.h"

namespace paramedic::cli {
namespace {

recovery::Frame frame_at(const std::string& file, const std::string& function, int line,
                         const std::vector<std::string>& source) {
  recovery::Frame frame;
  frame.file = file;
  frame.function = function;
  frame.line = line;
  int number = line - static_cast<int>(source.size()) / 2;
  for (const std::string& text : source) frame.source.push_back({number++, text});
  return frame;
}

recovery::Crash example(int rank) {
  recovery::Crash crash;
  crash.rank = rank;
  crash.pid = 4242 + rank;
  crash.host = "node-1";
  crash.thread = "MainThread";
  crash.step = 812;
  crash.exception = "RuntimeError";
  crash.message =
      "mat1 and mat2 shapes cannot be multiplied (32x64 and 128x10), which is a message that does "
      "not fit on one line";
  crash.frames.push_back(frame_at("train.py", "<module>", 40,
                                  {"for epoch in range(3):", "    fit(model, loader)", "save()"}));
  crash.frames.push_back(frame_at(
      "/home/ada/projects/digits/models/heads/classification/linear_probe.py", "Probe.forward", 31,
      {"def forward(self, x):", "\tx = self.norm(x)", "    return self.head(x)  # \x1b[31mred"}));
  crash.frames.back().line = 32;
  crash.frames.back().variables = {
      {"x", "torch.Tensor", "float32 [32, 64] cpu grad NaN"},
      {"self", "models.heads.classification.Probe", "<models.heads.classification.Probe>"},
      {"a_name_that_is_longer_than_its_column", "list", "[1, 2, 3, 4, 5, 6, … 100 in all]"}};
  return crash;
}

// An agent that notes what it is asked.
class FakeRun : public PausedRun {
 public:
  Result<std::vector<recovery::Crash>> look() override { return crashes; }
  Result<std::string> ask(int rank, int frame, const std::string& expression) override {
    asked.push_back(std::to_string(rank) + " " + std::to_string(frame) + " " + expression);
    return std::string("torch.Size([32, 64])\nsecond line \x1b[2J");
  }
  Result<Json> repair(int rank, const recovery::Repair& repair) override {
    repairs.push_back(repair);
    if (!refusal.empty()) return Json{{"resumed", false}, {"reason", refusal}};
    std::erase_if(crashes, [rank](const recovery::Crash& crash) { return crash.rank == rank; });
    const bool resumed = repair.kind != "abort";
    return Json{{"resumed", resumed},
                {"took_ms", 3.21},
                {"reason", resumed ? Json(nullptr) : Json("the process ends, as asked")}};
  }

  std::vector<recovery::Crash> crashes = {example(0)};
  std::string refusal;
  std::vector<std::string> asked;
  std::vector<recovery::Repair> repairs;
};

class TypedLines : public LineInput {
 public:
  explicit TypedLines(std::vector<std::string> lines, std::ostream& out)
      : lines_(std::move(lines)), out_(out) {}
  std::optional<std::string> next(const std::string& prompt, const Complete& complete) override {
    completions = complete(completed);
    if (at_ == lines_.size()) return std::nullopt;
    out_ << prompt << lines_[at_] << "\n";
    return lines_[at_++];
  }
  std::string completed;
  std::vector<std::string> completions;

 private:
  std::vector<std::string> lines_;
  std::ostream& out_;
  size_t at_ = 0;
};

class RepairConsoleTest : public testing::Test {
 protected:
  std::string session(std::vector<std::string> lines, int width = 80) {
    std::ostringstream out;
    std::ostringstream err;
    Console console{out, err, [this](const char* name) {
                      return std::string_view(name) == "EDITOR" ? editor_.c_str() : nullptr;
                    }};
    console.width = width;
    TypedLines input(std::move(lines), out);
    input.completed = completed_;
    const auto code = RepairConsole(run_, input, console, folder_.path()).serve();
    EXPECT_TRUE(code.ok());
    completions_ = input.completions;
    return out.str();
  }
  [[nodiscard]] static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  FakeRun run_;
  const TemporaryFolder folder_;
  std::string editor_ = "true";
  std::string completed_;
  std::vector<std::string> completions_;
};

TEST_F(RepairConsoleTest, golden_session) {
  const std::string text = session({"", "help", "locals", "stack", "up", "up", "p x.shape", "rety",
                                    "exec", "frame 9", "rank 3", "retry"});
  expect_golden("attach.txt", text);
  run_.crashes = {example(0), example(1)};
  expect_golden("attach-narrow.txt", session({"locals x", "skip", "quit"}, 44));
}

TEST_F(RepairConsoleTest, every_repair_reaches_the_run) {
  const std::string patch = folder_.path() + "/fix.patch";
  ASSERT_TRUE(posix_file_system().write_atomically(patch, as_bytes("--- a\n+++ b\n")).ok());
  run_.refusal = "not now";
  session({"retry", "retry train.py:31", "exec x = 1; y = 2", "apply " + patch, "skip", "rewind",
           "rollback", "up", "return None", "abort"});
  std::string kinds;
  for (const auto& repair : run_.repairs) kinds += repair.kind + " ";
  EXPECT_EQ(kinds, "retry retry action edit skip rewind rollback return abort ");
  EXPECT_EQ(run_.repairs[1].at, (std::pair<std::string, int32_t>("train.py", 31)));
  EXPECT_EQ(run_.repairs[2].code, "x = 1; y = 2");
  EXPECT_EQ(run_.repairs[2].frame, -1);
  EXPECT_EQ(run_.repairs[3].patch, "--- a\n+++ b\n");
  EXPECT_EQ(run_.repairs[7].frame, -2);
}

TEST_F(RepairConsoleTest, a_refused_repair_stays_in_the_console_and_leaving_repairs_nothing) {
  run_.refusal = "it does not apply";
  EXPECT_TRUE(has(session({"skip"}), "it does not apply\nthe job stays paused"));
}

TEST_F(RepairConsoleTest, after_one_rank_the_next_that_waits_is_shown) {
  run_.crashes = {example(0), example(5)};
  const std::string text = session({"retry", "abort"});
  EXPECT_TRUE(has(text, "2 ranks wait: 0 5"));
  EXPECT_TRUE(has(text, "(rank 5) abort\nthe process ends, as asked\n"));
  EXPECT_FALSE(has(text, "stays paused"));
}

TEST_F(RepairConsoleTest, edit_opens_the_editor_and_sends_what_was_changed) {
  const std::string file = folder_.path() + "/train.py";
  ASSERT_TRUE(posix_file_system().write_atomically(file, as_bytes("x = 1\n")).ok());
  run_.crashes[0].frames.pop_back();
  EXPECT_TRUE(has(session({"edit"}), "nothing was changed"));
  EXPECT_TRUE(run_.repairs.empty());
  editor_ = "f() { echo 'y = 2' >> \"$2\"; }; f";
  EXPECT_TRUE(has(session({"edit"}), "rank 0 goes on (3.2 ms)"));
  ASSERT_EQ(run_.repairs.size(), 1U);
  EXPECT_TRUE(has(run_.repairs[0].patch, "\n+y = 2\n"));
}

TEST_F(RepairConsoleTest, commands_and_names_are_completed) {
  completed_ = "re";
  session({});
  EXPECT_EQ(completions_, (std::vector<std::string>{"retry", "return", "rewind"}));
  completed_ = "p (a_";
  session({});
  EXPECT_EQ(completions_, std::vector<std::string>{"a_name_that_is_longer_than_its_column"});
}

TEST_F(RepairConsoleTest, a_crash_without_frames_can_still_be_repaired) {
  run_.crashes[0].frames.clear();
  const std::string text = session({"where", "up", "down", "locals", "edit", "stack", "retry"});
  EXPECT_TRUE(has(text, "no frame of the job's own files"));
  EXPECT_TRUE(has(text, "goes on"));
}

}  // namespace
}  // namespace paramedic::cli
