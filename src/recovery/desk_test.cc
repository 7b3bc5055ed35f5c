// The desk between crashed processes (here connections 1, 2, …) and those who repair them (101, …).

#include "recovery/desk.h"

#include <gtest/gtest.h>

namespace paramedic::recovery {
namespace {

using record::ControlMessage;
using record::ControlType;

constexpr uint64_t kPerson = 101;
constexpr uint64_t kOtherPerson = 102;
constexpr int64_t kSecond = 1'000'000'000;

struct Sent {
  uint64_t connection = 0;
  ControlMessage message;
};

class FakeWorld : public DeskWorld {
 public:
  void send(uint64_t connection, const ControlMessage& message) override {
    sent.push_back({connection, message});
  }
  void on_remedy(const Crash&, const Remedy& remedy) override { remedies.push_back(remedy.policy); }
  void on_pause(const Crash& crash) override { paused.push_back(crash.rank); }
  void on_change() override { changes++; }
  void on_repair(store::RepairRow row, const Repair&) override {
    // Whoever asked must find the row stored.
    EXPECT_TRUE(to(kPerson, ControlType::kResumed) == nullptr || !rows.empty());
    rows.push_back(std::move(row));
  }

  // The newest message of that type to that connection.
  [[nodiscard]] const Json* to(uint64_t connection, ControlType type) const {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it) {
      if (it->connection == connection && it->message.type == type) return &it->message.fields;
    }
    return nullptr;
  }

  std::vector<Sent> sent;
  std::vector<int32_t> paused;
  std::vector<std::string> remedies;
  std::vector<store::RepairRow> rows;
  int changes = 0;
};

class DeskTest : public testing::Test {
 protected:
  explicit DeskTest(bool asks_person = true, const Policies* policies = nullptr)
      : desk_({policies, asks_person, 60 * kSecond}, world_, clock_) {}

  static Json crash_fields(int rank, const std::string& exception = "ValueError", int line = 7) {
    return {{"rank", rank},
            {"pid", 1000 + rank},
            {"exception", exception},
            {"message", "it broke"},
            {"step", 40},
            {"source_hash", "h"},
            {"frames", {{{"file", "train.py"}, {"function", "main"}, {"line", line}}}}};
  }
  bool crash(uint64_t connection, int rank, const std::string& exception = "ValueError") {
    return desk_.take(connection, {ControlType::kCrash, crash_fields(rank, exception)});
  }
  bool resumed(uint64_t connection) {
    return desk_.take(connection,
                      {ControlType::kResumed,
                       {{"took_ms", {{"a", 1.5}, {"b", 2}}},
                        {"options", {{"samples", {"3", "8"}}, {"deep", {{{"x", 1}}}}}}}});
  }
  bool refused(uint64_t connection) {
    return desk_.take(connection, {ControlType::kRefused, {{"reason", "it does not apply"}}});
  }
  void repair(uint64_t connection, const Json& fields) {
    EXPECT_TRUE(desk_.take(connection, {ControlType::kRepair, fields}));
  }
  void retry(uint64_t connection = kPerson) { repair(connection, {{"kind", "retry"}}); }
  std::string reason_to(uint64_t connection) {
    const Json* answer = world_.to(connection, ControlType::kRefused);
    return answer == nullptr ? "not refused" : string_or(*answer, "reason", "");
  }
  [[nodiscard]] bool was_told_to(uint64_t connection, const std::string& kind) const {
    const Json* told = world_.to(connection, ControlType::kRepair);
    return told != nullptr && string_or(*told, "kind", "") == kind;
  }

  FakeWorld world_;
  VirtualClock clock_;
  Desk desk_;
};

class UnattendedDeskTest : public DeskTest {
 protected:
  UnattendedDeskTest() : DeskTest(false) {}
};

TEST_F(DeskTest, what_a_process_asks_for_is_tried_in_its_order_and_nobody_else_is_asked) {
  Json fields = crash_fields(0, "NotFinite");
  fields["asks"] = {"abort", "rollback", "skip"};  // nobody ends a job in this way
  EXPECT_TRUE(desk_.take(1, {ControlType::kCrash, fields}));
  EXPECT_TRUE(was_told_to(1, "rollback"));
  EXPECT_TRUE(refused(1));
  EXPECT_TRUE(was_told_to(1, "skip"));
  EXPECT_TRUE(world_.paused.empty());
  EXPECT_TRUE(resumed(1));
  ASSERT_EQ(world_.rows.size(), 1U);
  EXPECT_EQ(world_.rows[0].kind, "skip");
  EXPECT_EQ(world_.rows[0].by, "policy");
}

TEST_F(DeskTest, where_nothing_that_was_asked_for_can_be_done_the_process_is_let_go) {
  Json fields = crash_fields(0, "NotFinite");
  fields["asks"] = {"rollback"};
  EXPECT_TRUE(desk_.take(1, {ControlType::kCrash, fields}));
  EXPECT_TRUE(refused(1));
  EXPECT_NE(world_.to(1, ControlType::kGone), nullptr);
}

TEST_F(DeskTest, a_crash_pauses_until_it_is_repaired) {
  EXPECT_TRUE(crash(1, 0));
  EXPECT_EQ(world_.paused, std::vector<int32_t>{0});
  ASSERT_EQ(desk_.waiting().size(), 1U);
  EXPECT_EQ(desk_.failure()["exception"]["type"], "ValueError");
  EXPECT_TRUE(desk_.is_patient(1));
  retry();
  EXPECT_TRUE(was_told_to(1, "retry"));
  EXPECT_TRUE(desk_.is_patient(kPerson));
  EXPECT_EQ(world_.to(kPerson, ControlType::kResumed), nullptr);
  EXPECT_TRUE(resumed(1));
  const Json* answer = world_.to(kPerson, ControlType::kResumed);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(to_text(*answer), R"({"schema":1,"resumed":true,"kind":"retry","rank":0,"step":40,)"
                              R"("took_ms":3.5,"reason":null})");
  EXPECT_TRUE(desk_.waiting().empty());
  EXPECT_TRUE(desk_.failure().is_null());
  EXPECT_FALSE(desk_.is_patient(1));
  ASSERT_EQ(world_.rows.size(), 1U);
  EXPECT_EQ(world_.rows[0].kind, "retry");
  EXPECT_EQ(world_.rows[0].by, "person");
  EXPECT_EQ(world_.rows[0].line, 7);
  EXPECT_EQ(world_.rows[0].took_ms, 3.5);
  const Json detail = parse_json(world_.rows[0].detail, "the detail").value();
  EXPECT_EQ(to_text(detail["options"]), R"({"samples":["3","8"]})");
  EXPECT_EQ(to_text(detail["parts_ms"]), R"({"a":1.5,"b":2.0})");
}

TEST_F(DeskTest, who_asked_is_told_what_of_an_edit_could_not_count_any_more) {
  ASSERT_TRUE(crash(1, 0));
  repair(kPerson, {{"kind", "edit"}, {"patch", "--- a"}});
  const Json fields = {{"took_ms", {{"a", 1}}}, {"options", {{"note", "line 3 was not"}}}};
  EXPECT_TRUE(desk_.take(1, {ControlType::kResumed, fields}));
  const Json* answer = world_.to(kPerson, ControlType::kResumed);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ((*answer)["resumed"], true);
  EXPECT_EQ((*answer)["reason"], "line 3 was not");
}

TEST_F(DeskTest, a_refused_repair_returns_to_the_pause) {
  crash(1, 0);
  repair(kPerson, {{"kind", "edit"}, {"patch", "--- a"}});
  EXPECT_TRUE(refused(1));
  EXPECT_EQ(reason_to(kPerson), "it does not apply");
  EXPECT_EQ(desk_.waiting().size(), 1U);
  EXPECT_TRUE(world_.rows.empty());
  retry();
  EXPECT_TRUE(resumed(1));
  EXPECT_EQ(world_.rows.size(), 1U);
}

TEST_F(DeskTest, a_repair_of_a_run_that_is_not_paused_is_refused) {
  retry();
  EXPECT_EQ(reason_to(kPerson), "the run is not paused");
}

TEST_F(DeskTest, an_unknown_rank_is_refused_with_those_that_wait) {
  crash(1, 0);
  crash(2, 3, "KeyError");
  repair(kPerson, {{"kind", "retry"}, {"rank", 1}});
  EXPECT_EQ(reason_to(kPerson), "rank 1 is not paused (paused: 0, 3)");
}

TEST_F(DeskTest, what_is_no_repair_is_refused) {
  crash(1, 0);
  repair(kPerson, {{"kind", "magic"}});
  EXPECT_EQ(reason_to(kPerson), "there is no repair 'magic'");
  EXPECT_EQ(desk_.waiting().size(), 1U);
}

TEST_F(DeskTest, the_second_of_two_consoles_is_told_so) {
  crash(1, 0);
  retry(kPerson);
  retry(kOtherPerson);
  EXPECT_EQ(reason_to(kOtherPerson), "rank 0 is being repaired by somebody else");
  EXPECT_TRUE(resumed(1));
  EXPECT_NE(world_.to(kPerson, ControlType::kResumed), nullptr);
  EXPECT_EQ(world_.to(kOtherPerson, ControlType::kResumed), nullptr);
}

TEST_F(DeskTest, without_a_rank_the_one_that_waits_longest_is_repaired) {
  crash(1, 5);
  crash(2, 0, "KeyError");
  retry();
  EXPECT_TRUE(was_told_to(1, "retry"));
  EXPECT_FALSE(was_told_to(2, "retry"));
}

TEST_F(DeskTest, one_repair_serves_all_ranks_with_the_same_fault) {
  // GIVEN two ranks that wait for the same fault and one for another
  crash(1, 0);
  crash(2, 1);
  crash(3, 2, "KeyError");
  // WHEN one of them is repaired
  retry();
  resumed(1);
  // THEN the same is done for the other, and for one that comes later, each once
  EXPECT_TRUE(was_told_to(2, "retry"));
  EXPECT_FALSE(was_told_to(3, "retry"));
  resumed(2);
  crash(4, 3);
  EXPECT_TRUE(was_told_to(4, "retry"));
  resumed(4);
  EXPECT_EQ(world_.rows.size(), 3U);
  crash(5, 3);
  EXPECT_FALSE(was_told_to(5, "retry"));
  EXPECT_EQ(desk_.waiting().size(), 2U);
}

TEST_F(DeskTest, the_same_fault_in_a_repaired_process_is_asked_again) {
  crash(1, 0);
  retry();
  resumed(1);
  crash(2, 0);
  EXPECT_FALSE(was_told_to(2, "retry"));
  EXPECT_EQ(desk_.waiting().size(), 1U);
}

TEST_F(DeskTest, a_repair_of_one_rank_by_its_number_is_not_spread) {
  crash(1, 0);
  crash(2, 1);
  repair(kPerson, {{"kind", "retry"}, {"rank", 0}});
  resumed(1);
  EXPECT_FALSE(was_told_to(2, "retry"));
}

TEST_F(DeskTest, abort_lets_the_process_end_and_says_so_at_once) {
  crash(1, 0);
  repair(kPerson, {{"kind", "abort"}});
  EXPECT_TRUE(was_told_to(1, "abort"));
  const Json* answer = world_.to(kPerson, ControlType::kGone);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ((*answer)["resumed"], false);
  EXPECT_TRUE(desk_.waiting().empty());
  EXPECT_EQ(desk_.failure()["exception"]["type"], "ValueError");
}

TEST_F(DeskTest, after_the_limit_the_process_is_let_go) {
  crash(1, 0);
  clock_.advance(59 * kSecond);
  desk_.tick();
  EXPECT_EQ(world_.to(1, ControlType::kGone), nullptr);
  clock_.advance(2 * kSecond);
  desk_.tick();
  ASSERT_NE(world_.to(1, ControlType::kGone), nullptr);
  EXPECT_TRUE(desk_.waiting().empty());
}

TEST_F(DeskTest, a_process_that_dies_while_it_is_repaired_is_told_to_who_asked) {
  crash(1, 0);
  retry();
  desk_.left(1);
  EXPECT_EQ(reason_to(kPerson), "the process ended while it was being repaired");
  EXPECT_TRUE(desk_.waiting().empty());
}

TEST_F(DeskTest, a_person_who_leaves_changes_nothing) {
  crash(1, 0);
  retry();
  desk_.left(kPerson);
  EXPECT_TRUE(resumed(1));
  EXPECT_EQ(world_.rows.size(), 1U);
}

TEST_F(DeskTest, a_look_shows_all_that_wait_and_a_question_reaches_the_frame) {
  crash(1, 0);
  crash(2, 1, "KeyError");
  EXPECT_TRUE(desk_.take(kPerson, {ControlType::kLook, Json::object()}));
  EXPECT_EQ((*world_.to(kPerson, ControlType::kCrash))["exception"], "KeyError");
  EXPECT_NE(world_.to(kPerson, ControlType::kDone), nullptr);
  desk_.take(kPerson, {ControlType::kLook, {{"rank", 1}, {"question", "x"}, {"frame", 0}}});
  ASSERT_NE(world_.to(2, ControlType::kLook), nullptr);
  EXPECT_EQ((*world_.to(2, ControlType::kLook))["question"], "x");
  EXPECT_TRUE(desk_.take(2, {ControlType::kView, {{"text", "42"}}}));
  EXPECT_EQ((*world_.to(kPerson, ControlType::kView))["text"], "42");
}

TEST_F(DeskTest, messages_out_of_turn_are_refused) {
  EXPECT_FALSE(resumed(1));
  EXPECT_FALSE(refused(1));
  EXPECT_FALSE(desk_.take(1, {ControlType::kView, Json::object()}));
  EXPECT_FALSE(desk_.take(1, {ControlType::kCrash, Json::object()}));
  EXPECT_FALSE(desk_.take(1, {ControlType::kGone, Json::object()}));
  crash(1, 0);
  EXPECT_FALSE(crash(1, 0));
  EXPECT_FALSE(resumed(1));
}

TEST_F(DeskTest, more_crashes_than_the_desk_holds_fail_as_they_would_have) {
  for (uint64_t i = 1; i <= 256; i++) crash(i, static_cast<int>(i), "E" + std::to_string(i));
  EXPECT_TRUE(crash(999, 999));
  EXPECT_NE(world_.to(999, ControlType::kGone), nullptr);
  EXPECT_EQ(desk_.waiting().size(), 256U);
}

TEST_F(UnattendedDeskTest, a_crash_that_nothing_helps_ends_the_job_at_once) {
  crash(1, 0);
  EXPECT_NE(world_.to(1, ControlType::kGone), nullptr);
  EXPECT_TRUE(world_.paused.empty());
  EXPECT_TRUE(desk_.waiting().empty());
  EXPECT_EQ(desk_.failure()["exception"]["type"], "ValueError");
}

// A table of its own: E is retried at once and after two seconds, F is rolled back or skipped.
const Policies& table() {
  static const Policies kTable = [] {
    const std::vector<EmbeddedFile> files = {
        {"again.toml",
         "title = 'again'\n[[match]]\nexception = 'E'\n[[remedy]]\nkind = 'retry'\n"
         "pauses_s = [0, 2]\n"},
        {"back.toml",
         "title = 'back'\n[[match]]\nexception = 'F'\n[[remedy]]\nkind = 'rollback'\n"
         "[[remedy]]\nkind = 'skip'\n"}};
    return Policies::parse(files).value();
  }();
  return kTable;
}

class PolicyDeskTest : public DeskTest {
 protected:
  PolicyDeskTest() : DeskTest(false, &table()) {}
};

class AttendedPolicyDeskTest : public DeskTest {
 protected:
  AttendedPolicyDeskTest() : DeskTest(true, &table()) {}
};

TEST_F(PolicyDeskTest, a_policy_repairs_without_a_pause) {
  crash(1, 0, "E");
  EXPECT_TRUE(was_told_to(1, "retry"));
  EXPECT_TRUE(desk_.waiting().empty());
  EXPECT_EQ(world_.changes, 0);
  EXPECT_TRUE(resumed(1));
  ASSERT_EQ(world_.rows.size(), 1U);
  EXPECT_EQ(world_.rows[0].by, "policy");
  EXPECT_TRUE(desk_.failure().is_null());
}

TEST_F(PolicyDeskTest, a_crash_without_progress_is_tried_again_after_a_pause_and_then_not) {
  Json again = crash_fields(0, "E");
  again["repeats"] = 1;
  desk_.take(1, {ControlType::kCrash, again});
  clock_.advance(kSecond);
  desk_.tick();
  EXPECT_FALSE(was_told_to(1, "retry"));
  EXPECT_TRUE(desk_.is_patient(1));
  clock_.advance(kSecond);
  desk_.tick();
  EXPECT_TRUE(was_told_to(1, "retry"));
  resumed(1);
  again["repeats"] = 2;
  desk_.take(2, {ControlType::kCrash, again});
  EXPECT_FALSE(was_told_to(2, "retry"));
  EXPECT_NE(world_.to(2, ControlType::kGone), nullptr);
}

TEST_F(PolicyDeskTest, a_remedy_that_is_refused_gives_way_to_the_next_kind) {
  crash(1, 0, "F");
  EXPECT_TRUE(was_told_to(1, "rollback"));
  EXPECT_TRUE(refused(1));
  EXPECT_TRUE(was_told_to(1, "skip"));
  EXPECT_TRUE(refused(1));
  EXPECT_NE(world_.to(1, ControlType::kGone), nullptr);
  EXPECT_TRUE(world_.rows.empty());
  EXPECT_EQ(world_.remedies, (std::vector<std::string>{"back", "back"}));
}

TEST_F(PolicyDeskTest, a_process_that_dies_during_the_pause_is_forgotten) {
  Json again = crash_fields(0, "E");
  again["repeats"] = 1;
  desk_.take(1, {ControlType::kCrash, again});
  desk_.left(1);
  clock_.advance(5 * kSecond);
  desk_.tick();
  EXPECT_FALSE(was_told_to(1, "retry"));
}

TEST_F(AttendedPolicyDeskTest, where_the_policy_has_tried_all_a_person_is_asked) {
  crash(1, 0, "F");
  refused(1);
  refused(1);
  EXPECT_EQ(desk_.waiting().size(), 1U);
  EXPECT_EQ(world_.paused.size(), 1U);
  retry();
  EXPECT_TRUE(resumed(1));
}

TEST_F(AttendedPolicyDeskTest, a_person_need_not_wait_for_the_pause_of_a_policy) {
  Json again = crash_fields(0, "E");
  again["repeats"] = 1;
  desk_.take(1, {ControlType::kCrash, again});
  repair(kPerson, {{"kind", "skip"}});
  EXPECT_TRUE(was_told_to(1, "skip"));
}

}  // namespace
}  // namespace paramedic::recovery
