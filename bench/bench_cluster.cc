// The comparison of ranks at scale, on one core: 10,000 ranks with 2,000 calls each, of which one
// has skipped a call near the end, or, as dumps of flight recorders, has not come to the last one:
//   bench_cluster [RANKS [CALLS]]
// The verdicts are checked before anything is timed, those of dumps after it.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/call_verdict.h"
#include "cluster/compare.h"
#include "cluster/test_dumps.h"

namespace {

using namespace paramedic;
using namespace paramedic::cluster;

// A step of sixteen calls of different sizes, again and again.
constexpr uint32_t kCallsOfAStep = 16;
constexpr int kRounds = 5;

std::vector<RankCalls> make_ranks(int32_t ranks, int64_t calls, int32_t guilty) {
  std::vector<RankCalls> all(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    RankCalls& one = all[static_cast<size_t>(rank)];
    one.rank = rank;
    for (int64_t call = 0; call < calls; ++call) {
      if (rank == guilty && call == calls - 40) continue;
      one.signatures.push_back(1 + static_cast<uint32_t>(call) % kCallsOfAStep);
    }
    one.left = one.entered() - 1;
  }
  return all;
}

// Of this process, which has one thread: what others do on the machine is not in it.
double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

template <typename Function>
double best_seconds(const Function& function) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double start = processor_s();
    function();
    best = std::min(best, processor_s() - start);
  }
  return best;
}

// What NCCL's recorder writes as JSON, without stacks, of a rank that has made `calls` calls.
std::string dump_text(int32_t ranks, int64_t calls) {
  std::string members;
  for (int32_t rank = 0; rank < ranks; ++rank) members += fmt::format(", {}", rank);
  std::string text = R"({"comm_lib_version":"2.26.2","entries":[)";
  for (int64_t call = 0; call < calls; ++call) {
    text += fmt::format(
        R"({}{{"collective_seq_id":{},"input_dtypes":["Float"],"input_sizes":[[{},1024]],)"
        R"("is_p2p":false,"op_id":{},"output_dtypes":["Float"],"output_sizes":[[{},1024]],)"
        R"("p2p_seq_id":0,"pg_id":0,"process_group":["0","default_pg"],)"
        R"("profiling_name":"nccl:all_reduce","record_id":{},"retired":true,"state":"completed",)"
        R"("thread_id":"140451634363264","thread_name":"python",)"
        R"("time_created_ns":{},"time_discovered_completed_ns":{},)"
        R"("time_discovered_started_ns":{},"timeout_ms":600000}})",
        call == 0 ? "" : ",", call + 1, call % kCallsOfAStep + 1, call + 1,
        call % kCallsOfAStep + 1, call, 1'796'020'775'610'692'078 + call * 1000,
        1'796'020'775'610'792'078 + call * 1000, 1'796'020'775'610'692'900 + call * 1000);
  }
  return text + fmt::format(R"(],"pg_config":{{"0":{{"desc":"default_pg","name":"0","ranks":)"
                            R"("[{}]"}}}},"version":"2.10"}})",
                            members.substr(2));
}

// All of it, from the bytes in memory to the verdict: what reading the files costs comes on top.
void measure_dumps(int32_t ranks, int64_t calls, int32_t guilty) {
  const std::string usual = dump_text(ranks, calls);
  const std::string behind = dump_text(ranks, calls - 1);
  CallBook book;
  const double start = processor_s();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto dump =
        parse_flight_dump(as_bytes(rank == guilty ? behind : usual), fmt::format("rank_{}", rank));
    PARAMEDIC_CHECK(dump.ok());
    book.add(*dump);
  }
  const double read_s = processor_s() - start;
  book.settle();
  const CallVerdict verdict = judge_calls(book, "dumps");
  const double judge_s = processor_s() - start - read_s;
  PARAMEDIC_CHECK(verdict.findings.size() == 1 && verdict.findings[0].rank == guilty);
  fmt::print(
      "{} dumps of {} entries ({:.1f} GB as JSON): read {:.2f} s ({:.0f} MB/s), verdict "
      "{:.3f} s (goal 10 for both)\n",
      ranks, calls, static_cast<double>(usual.size()) * ranks / 1e9, read_s,
      static_cast<double>(usual.size()) * ranks / 1e6 / read_s, judge_s);
}

// As NCCL's recorder writes them: stacks of 21 frames, of which equal ones are shared.
void measure_pickles(int64_t calls) {
  constexpr int kDumps = 100;
  TestDumps dumps(1);
  dumps.library_frames(10);
  for (int64_t call = 0; call < calls; ++call) {
    const auto kind = static_cast<int32_t>(call % kCallsOfAStep);
    dumps.call(0, "all_reduce", 40 + kind, true, "0", 1024 * (kind + 1));
  }
  const std::string pickle = dumps.pickle(0);
  const double start = processor_s();
  for (int i = 0; i < kDumps; ++i) {
    const auto dump = parse_flight_dump(as_bytes(pickle), "rank_0");
    PARAMEDIC_CHECK(dump.ok() && dump->entries.size() == static_cast<size_t>(calls));
    PARAMEDIC_CHECK(dump->sites.size() == kCallsOfAStep + 1);
  }
  fmt::print("a pickle of {} entries with stacks, {:.1f} MB: {:.2f} ms (goal 3)\n", calls,
             static_cast<double>(pickle.size()) / 1e6, 1e3 * (processor_s() - start) / kDumps);
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t ranks = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int64_t calls = argc > 2 ? std::atoi(argv[2]) : 2'000;
  PARAMEDIC_CHECK(ranks >= 3 && calls >= 100);
  const int32_t guilty = ranks / 3;
  const auto all = make_ranks(ranks, calls, guilty);

  const Frontier frontier = frontier_of(all);
  PARAMEDIC_CHECK(frontier.laggards == std::vector<int32_t>{guilty});
  const auto divergence = first_divergence(all);
  PARAMEDIC_CHECK(divergence && divergence->has_majority && divergence->edits.size() == 1);
  PARAMEDIC_CHECK(divergence->edits[0].rank == guilty &&
                  divergence->edits[0].kind == Edit::Kind::kSkipped);

  size_t kept = 0;
  const double frontier_s = best_seconds([&] { kept += frontier_of(all).laggards.size(); });
  const double full_s = best_seconds([&] { kept += first_divergence(all)->edits.size(); });
  PARAMEDIC_CHECK(kept == 2 * kRounds);
  fmt::print(
      "{} ranks x {} calls: frontier {:.4f} s (goal 1), first divergence {:.3f} s (goal 10)\n",
      ranks, calls, frontier_s, full_s);
  measure_dumps(ranks, calls, guilty);
  measure_pickles(calls);
  return 0;
}
