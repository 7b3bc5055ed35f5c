#include "cli/ranks_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "base/test_folder.h"
#include "cli/golden.h"
#include "cli/render_html.h"
#include "cli/render_json.h"
#include "cli/render_ranks.h"
#include "cli/render_text.h"
#include "cli/sample_report.h"

namespace paramedic::cli {
namespace {

constexpr double kStarted = 1'796'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;

// A stored run of 60 s, whose ranks are told what they do.
class StoredRanks {
 public:
  explicit StoredRanks(int32_t ranks) {
    info_.id = "ranks-4f2a";
    info_.dir = folder_.path() + "/ranks";
    info_.started = kStarted;
    info_.ended = kStarted + 60;
    info_.status = "finished";
    std::vector<int32_t> all;
    for (int32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
    group_ = {"0", "default_pg", "gloo", store::Members(all), 1800};
    writer_ = store::RunWriter::create(posix_file_system(), info_, {}, real_clock()).value();
  }

  void event(int32_t rank, double at_s, const std::string& kind, const Json& json) {
    store::EventRow row;
    row.origin = origin(rank, at_s);
    row.kind = kind;
    row.json = to_text(json);
    writer_->on_event(row);
  }

  // A report of pace, second by second: its own time and its waiting in each of five beats.
  void pace(int32_t rank, int from_s, int to_s, double self_ms, double data_share = 0) {
    for (int at = from_s + 1; at <= to_s; ++at) {
      Json self = Json::array();
      Json wait = Json::array();
      for (int beat = 0; beat < 5; ++beat) {
        self.push_back(self_ms * 1000);
        wait.push_back((200 - self_ms) * 1000);
      }
      const double data_looks = 11 * self_ms / 200 * data_share;
      event(rank, at, "pace",
            {{"first", at * 5},
             {"self_us", self},
             {"wait_us", wait},
             {"wall_ms", 1000},
             {"looks", 11},
             {"lines", {{{"kind", "data"}, {"looks", data_looks}, {"file", "train.py"}}}}});
    }
  }

  void inside(int32_t rank, double from_s, double to_s, const std::string& operation) {
    sites_.push_back({"/home/me/train.py", 61, "train"});
    store::CollectiveRow row;
    row.origin = origin(rank, from_s);
    row.group = &group_;
    row.sequence = sequences_[rank]++;
    row.operation = operation;
    row.sizes = {4};
    row.where = &sites_.back();
    row.entered_ns = row.origin.time_ns;
    writer_->on_collective(row);
    if (to_s <= 0) return;
    row.origin = origin(rank, to_s);
    row.left_ns = row.origin.time_ns;
    writer_->on_collective(row);
  }

  void stalled(int32_t rank, double since_s, double at_s, const std::string& phase) {
    event(rank, at_s, "stalled",
          {{"since_ns", static_cast<int64_t>((kStarted + since_s) * 1e9)},
           {"waiting", nullptr},
           {"phase", phase},
           {"torch_calls_since", 0},
           {"stack", {{{"file", "/home/me/helper.py"}, {"line", 7}, {"function", "upload"}}}}});
  }

  RanksView view(const std::vector<rules::Finding>& findings = {}) {
    EXPECT_TRUE(writer_->seal().ok());
    const auto reader = store::RunReader::open(info_.dir).value();
    return build_ranks_view(*reader, findings, kStarted + 60).value();
  }

 private:
  store::Origin origin(int32_t rank, double at_s) {
    store::Origin origin;
    origin.rank = rank;
    origin.pid = 100 + rank;
    origin.ring_id = 1000 + static_cast<uint64_t>(rank);
    origin.sequence = ++written_;
    origin.time_ns = static_cast<int64_t>(kStarted) * kSecondNs +
                     static_cast<int64_t>(at_s * static_cast<double>(kSecondNs));
    return origin;
  }

  TemporaryFolder folder_;
  store::RunInfo info_;
  store::GroupInfo group_;
  std::deque<store::CallSite> sites_;
  std::map<int32_t, int64_t> sequences_;
  std::unique_ptr<store::RunWriter> writer_;
  uint64_t written_ = 0;
};

std::string text_of(const RanksView& view, int width = 80) {
  std::string text;
  for (const std::string& line : ranks_lines(view, width, Paint(false))) {
    EXPECT_LE(display_width(line), width) << line;
    text += line + "\n";
  }
  return text;
}

TEST(RanksView, a_straggler_works_while_the_others_wait) {
  StoredRanks run(4);
  for (const int32_t rank : {0, 1, 2, 3}) {
    run.event(rank, 1, "facts", Json::object());
    rank == 2 ? run.pace(rank, 6, 58, 190, 0.7) : run.pace(rank, 6, 58, 60);
  }
  rules::Finding finding;
  finding.id = "straggler";
  finding.severity = rules::Severity::kWarning;
  finding.message = "rank 2 takes 190 ms a step, the others 60 ms";
  const RanksView view = run.view({finding});
  expect_golden("ranks-straggler.txt", text_of(view));
  ASSERT_EQ(view.strips.size(), 4U);
  EXPECT_EQ(view.strips[0].cells[120], Act::kWaits);
  EXPECT_EQ(view.strips[2].cells[120], Act::kData);
  EXPECT_TRUE(view.waits.empty());
}

TEST(RanksView, a_hang_shows_who_stands_still_and_who_waits_for_it) {
  StoredRanks run(4);
  for (const int32_t rank : {0, 1, 2, 3}) {
    run.event(rank, 1, "facts", Json::object());
    run.inside(rank, 4, 5, "broadcast");
    run.pace(rank, 6, 30, 150);
    if (rank != 1) run.inside(rank, 30.5, 0, "all_reduce");
  }
  run.stalled(1, 30, 32, "");
  run.stalled(1, 30, 50, "");
  rules::Finding finding;
  finding.id = "hang_missing_rank";
  finding.severity = rules::Severity::kError;
  finding.message = "rank 1 sleeps at helper.py:7, the others wait for it";
  const RanksView view = run.view({finding});
  expect_golden("ranks-hang.txt", text_of(view));
  expect_golden("ranks-hang.json", ranks_view_json(view).dump(1) + "\n");
  expect_golden("ranks-hang.html", ranks_html(view));
  ASSERT_EQ(view.waits.size(), 1U);
  EXPECT_EQ(view.waits[0].waiters, (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(view.waits[0].missing, std::vector<int32_t>{1});
  EXPECT_EQ(view.waits[0].they, "stood at helper.py:7 in upload");
  EXPECT_EQ(view.strips[1].cells[239], Act::kStandsStill);
}

TEST(RanksView, an_evaluation_on_one_rank_is_no_standing_still) {
  StoredRanks run(2);
  for (const int32_t rank : {0, 1}) run.pace(rank, 0, 20, 100);
  run.stalled(0, 20, 40, "validation");
  run.event(0, 50, "resumed", Json::object());
  run.inside(1, 20, 50, "barrier");
  const RanksView view = run.view();
  EXPECT_EQ(view.strips[0].cells[140], Act::kEvaluates);
  EXPECT_EQ(view.strips[1].cells[140], Act::kWaits);
  EXPECT_TRUE(view.waits.empty());
}

TEST(RanksView, many_ranks_are_folded_and_the_odd_ones_keep_their_rows) {
  std::vector<RankStrip> strips(1000);
  for (int32_t rank = 0; rank < 1000; ++rank) {
    RankStrip& strip = strips[static_cast<size_t>(rank)];
    strip.first = strip.last = rank;
    const bool odd = rank == 17 || rank == 640;
    strip.cells.fill(odd ? Act::kWorks : Act::kWaits);
    strip.ms[static_cast<size_t>(Act::kWorks)] = odd ? 900 : 400;
    strip.ms[static_cast<size_t>(Act::kWaits)] = odd ? 100 : 600;
  }
  const auto rows = folded_strips(strips, 32);
  ASSERT_EQ(rows.size(), 32U);
  size_t ranks = 0;
  std::vector<int32_t> alone;
  for (const RankStrip& row : rows) {
    ranks += row.ranks;
    if (row.ranks == 1) alone.push_back(row.first);
  }
  EXPECT_EQ(ranks, 1000U);
  EXPECT_EQ(alone, (std::vector<int32_t>{17, 640}));
  RanksView view;
  view.seconds = 90;
  view.strips = strips;
  view.verdict = ranks_verdict(view, {});
  expect_golden("ranks-many.txt", text_of(view));
  for (int width = 40; width <= 200; width += 20) (void)text_of(view, width);
}

TEST(RanksView, every_report_of_several_ranks_has_it_and_no_other) {
  Report report = healthy_report();
  const auto has_it = [&] {
    return std::array{render_text(report, {80, false}).find("rank by time") != std::string::npos,
                      render_json(report).contains("ranks_view"),
                      render_html(report).find("what the ranks did") != std::string::npos};
  };
  EXPECT_EQ(has_it(), (std::array{false, false, false}));
  report.ranks_view.emplace().verdict = "<all> is well";
  EXPECT_EQ(has_it(), (std::array{true, true, true}));
  EXPECT_NE(render_html(report).find("&lt;all&gt; is well"), std::string::npos);
}

TEST(RanksView, hostile_events_are_passed_over) {
  StoredRanks run(2);
  for (const int32_t rank : {0, 1}) {
    run.event(rank, 1, "pace",
              {{"self_us", {1e300, "x", -5}},
               {"wait_us", {1, nullptr, 2}},
               {"wall_ms", -1e300},
               {"looks", -3},
               {"lines", {7, "x"}}});
    run.event(rank, 2, "pace", Json::array());
    run.event(rank, 3, "stalled", {{"since_ns", -9'000'000'000'000'000'000}, {"stack", {1}}});
    run.event(rank, 4, "stalled", {{"since_ns", 9'000'000'000'000'000'000}, {"flight", {1}}});
  }
  EXPECT_EQ(run.view().strips.size(), 2U);
}

}  // namespace
}  // namespace paramedic::cli
