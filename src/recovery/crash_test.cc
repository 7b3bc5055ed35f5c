// What a process tells of its crash: kept, bounded, and never trusted.

#include "recovery/crash.h"

#include <gtest/gtest.h>

#include "recovery/repair.h"

namespace paramedic::recovery {
namespace {

Json example() {
  return parse_json(R"json({"rank": 2, "pid": 4242, "host": "node-1", "thread": "MainThread",
      "step": 812, "repeats": 1, "exception": "FileNotFoundError",
      "bases": ["FileNotFoundError", "OSError", "Exception"], "message": "no such folder",
      "errno": 2, "http_status": null, "traceback": "Traceback\n  File\nFileNotFoundError",
      "source_hash": "abc", "frames": [
        {"file": "/job/train.py", "function": "<module>", "line": 40, "source": [],
         "variables": []},
        {"file": "/job/io.py", "function": "save", "line": 7, "is_loop_header": true,
         "source": [{"line": 7, "text": "  torch.save(x, path)"}],
         "variables": [{"name": "path", "type": "str", "value": "'/out/a.pt'"}]}]})json",
                    "the example")
      .value();
}

TEST(Crash, what_is_read_is_written_again) {
  const auto crash = Crash::from_json(example());
  ASSERT_TRUE(crash.ok());
  const auto again = Crash::from_json(crash->to_json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->to_json(), crash->to_json());
  EXPECT_EQ(crash->rank, 2);
  EXPECT_EQ(crash->step, 812);
  EXPECT_EQ(crash->error_number, 2);
  EXPECT_EQ(crash->http_status, std::nullopt);
  ASSERT_NE(crash->place(), nullptr);
  EXPECT_EQ(crash->place()->variables.at(0).name, "path");
  EXPECT_TRUE(crash->place()->is_loop_header);
  EXPECT_EQ(place_text(*crash), "io.py:7 in save");
}

TEST(Crash, verdict_has_every_field_of_the_contract) {
  const Json verdict = Crash::from_json(example())->verdict();
  for (const char* field :
       {"category", "mechanism", "domain", "title", "retry", "confidence", "stage",
        "first_failing_rank", "where", "exception", "fingerprint", "ranks", "evidence", "ruled_out",
        "lost_steps", "fix", "collect_next"}) {
    EXPECT_TRUE(verdict.contains(field)) << field;
  }
  EXPECT_EQ(to_text(verdict["where"]), R"({"file":"/job/io.py","line":7,"function":"save"})");
  EXPECT_EQ(to_text(verdict["exception"]),
            R"({"type":"FileNotFoundError","message":"no such folder"})");
  EXPECT_EQ(verdict["evidence"].size(), 3U);
  EXPECT_EQ(verdict["category"], "path_not_found");
  EXPECT_EQ(verdict["domain"], "environment");
}

TEST(Crash, verdict_of_a_crash_without_a_traceback_goes_by_its_exception) {
  Crash crash;
  crash.exception = "ZeroDivisionError";
  crash.message = "division by zero";
  EXPECT_EQ(crash.verdict()["category"], "division_by_zero");
}

TEST(Crash, stage_is_told_by_the_traceback_else_by_the_frames) {
  const auto stage_of = [](const std::string& code) {
    Crash crash;
    crash.exception = "ValueError";
    crash.frames = {{"/job/main.py", "work", 7, false, {{7, code}}, {}}};
    const diagnose::Stage by_frames = crash.judged().stage;
    crash.traceback =
        "Traceback (most recent call last):\n  File \"/job/main.py\", line 7, in work\n    " +
        code + "\nValueError\n";
    EXPECT_EQ(crash.judged().stage, by_frames) << code;
    return by_frames;
  };
  EXPECT_EQ(stage_of("torch.save(model, path)"), diagnose::Stage::kCheckpoint);
  EXPECT_EQ(stage_of("loss.backward()"), diagnose::Stage::kTrain);
  EXPECT_EQ(stage_of("for batch in loader:"), diagnose::Stage::kData);
  EXPECT_EQ(stage_of("x = 1"), diagnose::Stage::kUnknown);
}

TEST(Crash, fields_of_another_type_and_out_of_range_are_left_at_their_defaults) {
  Json json = example();
  json["rank"] = -3;
  json["pid"] = "many";
  json["step"] = nullptr;
  json["errno"] = 1e300;
  json["frames"] = Json::array({1, nullptr, {{"file", 3}, {"line", int64_t{1} << 40}}});
  json["bases"] = {{"a", 1}};
  const auto crash = Crash::from_json(json);
  ASSERT_TRUE(crash.ok());
  EXPECT_EQ(crash->rank, 0);
  EXPECT_EQ(crash->pid, 0);
  EXPECT_EQ(crash->step, std::nullopt);
  EXPECT_EQ(crash->error_number, std::nullopt);
  EXPECT_EQ(crash->frames.size(), 3U);
  EXPECT_EQ(crash->place()->line, 0);
}

TEST(Crash, long_texts_and_lists_are_cut) {
  Json json = example();
  json["message"] = std::string(1 << 20, 'x');
  for (int i = 0; i < 1000; i++) json["frames"].push_back(Json::object());
  const auto crash = Crash::from_json(json);
  EXPECT_LT(crash->message.size(), size_t{20000});
  EXPECT_LT(crash->frames.size(), size_t{500});
}

TEST(Crash, without_an_exception_it_is_none) {
  EXPECT_FALSE(Crash::from_json(Json::object()).ok());
  EXPECT_FALSE(Crash::from_json(Json::array()).ok());
}

TEST(Repair, what_is_written_is_read_again) {
  Repair repair;
  repair.kind = "action";
  repair.code = "x = 1";
  repair.frame = 3;
  repair.at = {"train.py", 31};
  const auto again = Repair::from_json(repair.to_json());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->to_json(), repair.to_json());
}

TEST(Repair, unknown_kinds_and_missing_parts_are_refused) {
  for (const char* text : {R"({"kind": "magic"})", R"({})", R"([])", R"({"kind": "edit"})",
                           R"({"kind": "action"})", R"({"kind": "return", "value": 3})"}) {
    EXPECT_FALSE(Repair::from_json(parse_json(text, "a repair").value()).ok()) << text;
  }
}

}  // namespace
}  // namespace paramedic::recovery
