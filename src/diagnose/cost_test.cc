// No input is slower than linear: hostile logs of growing size, and the steps that reading them
// takes (basic blocks of this library; RE2 below it is linear by itself). No clock.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "diagnose/diagnose.h"

namespace {
uint64_t steps = 0;
}  // namespace

extern "C" void __sanitizer_cov_trace_pc() { ++steps; }  // NOLINT: not our name

namespace paramedic::diagnose {
namespace {

struct Hostile {
  const char* name;
  std::function<std::string(int)> piece;
};

std::function<std::string(int)> always(const std::string& text) {
  return [text](int) { return text; };
}

// What opens, nests or repeats, and never closes.
std::vector<Hostile> hostile_structures() {
  return {
      {"chains",
       always("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n"
              "ValueError: x\n\nDuring handling of the above exception, another exception "
              "occurred:\n\n")},
      {"lone copies in chains",
       always(
           "OddFault: x\n\nDuring handling of the above exception, another exception occurred:\n\n"
           "OddFault: x\n")},
      {"types", [](int i) { return fmt::format("Odd{}Error: it failed\n", i); }},
      {"one type", always("OddError: it failed\n")},
      {"open tracebacks of writers",
       [](int i) {
         return fmt::format("[rank{}]: Traceback (most recent call last):\n[rank{}]: Error\n", i,
                            i / 2);
       }},
      {"prefixes to learn",
       [](int i) { return fmt::format("node{}> Traceback (most recent call last):\n", i); }},
      {"deep stack", always("  File \"a.py\", line 1, in f\n    g()\n")},
      {"a message of many lines", always("OddError: it failed\n  and more\n")},
      {"frames of the JVM", always("\tat a.b.C.d(E.java:1)\n")},
      {"dumps that are drawn over each other",
       [](int i) {
         return fmt::format(
             "Odd{}Error: it failed\r\rThread 0x7f (most recent call first):\r"
             "  File \"a.py\", line 1 in f\r",
             i);
       }},
      {"tracebacks in records",
       always(R"({"log": "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n)"
              R"(    g()\nOddError: x\n"})"
              "\n")},
      {"groups in groups",
       [](int i) {
         return std::string(static_cast<size_t>(i % 90), ' ') +
                "| ExceptionGroup: many (2 sub-exceptions)\n";
       }},
      {"dumps", always("Fatal Python error: Segmentation fault\n"
                       "Current thread 0x00007f (most recent call first):\n"
                       "  File \"a.py\", line 1 in f\n")},
      {"native frames", always("frame #1: f() + 0x1 (0x7f in /lib/a.so)\n")},
  };
}

// What there is much of.
std::vector<Hostile> hostile_amounts() {
  return {
      {"escapes in one line", always("\x1b]error ")},
      {"words in one line", always("Error ")},
      {"bars", always("10%|x  | 3/9 [00:01, 2it/s]\rError \r")},
      {"candidates behind long lines",
       [](int i) { return i % 500 == 0 ? std::string(60'000, 'x') + "\n" : "Error\n"; }},
      {"watchdogs",
       [](int i) {
         return fmt::format(
             "[rank{}]:[E] [PG 0 Rank {}] Watchdog caught collective operation "
             "timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE, NumelIn=4)\n",
             i % 64, i % 64, i);
       }},
      {"progress and errors",
       [](int i) { return fmt::format("step {}\nERROR failed {}\n", i, i); }},
      {"sentences", always("it died of OddError: nobody knows, 'why' and how\n")},
      {"many times",
       [](int i) {
         return fmt::format("2024-01-02 {:02}:{:02}:{:02},{:03} ERROR it failed\n", i / 3600 % 24,
                            i / 60 % 60, i % 60, i % 997);
       }},
      {"a line of many words that signatures know",
       always(
           "CUDA out of memory No such file timed out not found killed shape mismatch refused ")},
      {"one message, long and short",
       [](int i) { return "OddError: " + std::string(i == 0 ? 4000 : 1, 'x') + "\n\n"; }},
      {"empty lines", always("\n")},
  };
}

std::vector<Hostile> hostile_logs() {
  std::vector<Hostile> logs = hostile_structures();
  std::ranges::move(hostile_amounts(), std::back_inserter(logs));
  return logs;
}

std::string log_of(const Hostile& hostile, int pieces) {
  std::string text;
  for (int i = 0; i < pieces; ++i) text += hostile.piece(i);
  return text;
}

uint64_t steps_of(const std::string& text) {
  steps = 0;
  (void)diagnose_text("job.log", text);
  return steps;
}

// Four times the log is to take four times the steps; what a cache of a table or a longer number
// adds stays well below the square's sixteen times.
constexpr int kPieces = 1500;
constexpr double kRatioMax = 5;

TEST(Cost, GrowsAsTheLogDoesWhateverStandsInIt) {
  for (const Hostile& hostile : hostile_logs()) {
    const uint64_t few = steps_of(log_of(hostile, kPieces));
    const uint64_t many = steps_of(log_of(hostile, 4 * kPieces));
    ASSERT_GT(few, uint64_t{kPieces} / 2) << hostile.name << ": nothing is counted";
    EXPECT_LT(static_cast<double>(many), kRatioMax * static_cast<double>(few)) << hostile.name;
  }
}

TEST(Cost, GrowsAsTheLogDoesWhereHostilePiecesAreMixed) {
  const std::vector<Hostile> all = hostile_logs();
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const auto mixed = [&](int pieces) {
      std::mt19937 random(seed);
      std::string text;
      for (int i = 0; i < pieces; ++i) text += all[random() % all.size()].piece(i + 1);
      return text;
    };
    const auto few = static_cast<double>(steps_of(mixed(kPieces)));
    EXPECT_LT(static_cast<double>(steps_of(mixed(4 * kPieces))), kRatioMax * few) << seed;
  }
}

}  // namespace
}  // namespace paramedic::diagnose
