// `diagnose` on a log of progress text with one failure at its end, against RE2::Set on each line,
// `grep -E -f` and Python's `re` with the same expressions, in one run:
//   bench_diagnose MEGABYTES [STREAM_GIGABYTES [LOGS]]
// The verdict is checked before anything is timed. With a second number, a generated stream of that
// size is read too, and the memory that it took is printed; with a third, that many short logs are
// added up as `fleet` does, cold and remembered.

#include <fmt/format.h>
#include <re2/set.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/status.h"
#include "diagnose/diagnose.h"
#include "diagnose/scan.h"
#include "fleet/survey.h"

namespace {

using namespace paramedic;
using namespace paramedic::diagnose;

constexpr char kFailure[] =
    "Traceback (most recent call last):\n  File \"/job/train.py\", line 40, in step\n"
    "    y = a @ b\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (4x7 and 8x2)\n";

// What Megatron, tqdm and Lightning print, step after step.
std::string progress_line(uint64_t step) {
  switch (step % 4) {
    case 0:
      return fmt::format(
          " iteration {:8}/  500000 | consumed samples: {:12} | elapsed time per iteration (ms): "
          "{:.1f} | learning rate: 1.499E-04 | global batch size:    64 | lm loss: {:.6E} | loss "
          "scale: 16384.0 | grad norm: {:.3f} | number of skipped iterations:   0 | number of nan "
          "iterations:   0 |\n",
          step, step * 64, 6700.0 + static_cast<double>(step % 97),
          2.0 + 1.0 / static_cast<double>(step), 1.3);
    case 1:
      return fmt::format(
          "time (ms) | forward-compute: {:.2f} | backward-compute: 321.30 | "
          "backward-params-all-reduce: 20.05 | optimizer: 12.11 | batch-generator: 0.80\n",
          118.0 + static_cast<double>(step % 13));
    case 2:
      return fmt::format(
          "\rEpoch 3:  {:2}%|█████▌    | {}/500000 [1:02:03<44:12, 12.31it/s, "
          "loss=0.{:04}, v_num=7]",
          step % 100, step, step % 10000);
    default:
      return fmt::format(
          "\n[2026-03-01 10:{:02}:{:02},123] [INFO] [timer.py:197:stop] 0/{}, "
          "RunningAvgSamplesPerSec=95.1, MemAllocated=11.8GB\n",
          step / 60 % 60, step % 60, step);
  }
}

std::string progress_block() {
  std::string block;
  for (uint64_t step = 1; block.size() < (size_t{4} << 20); ++step) block += progress_line(step);
  return block;
}

class Stream : public ByteSource {
 public:
  explicit Stream(uint64_t bytes) : block_(progress_block()), left_(bytes) {}
  Result<size_t> read(std::span<char> to) override {
    const size_t bytes = std::min({to.size(), block_.size() - at_, static_cast<size_t>(left_)});
    std::memcpy(to.data(), block_.data() + at_, bytes);
    at_ = (at_ + bytes) % block_.size();
    left_ -= bytes;
    return bytes;
  }

 private:
  std::string block_;
  size_t at_ = 0;
  uint64_t left_;
};

// Of processor time, ours and that of the programs we started: on a machine that others use too the
// clock on the wall measures them.
double processor_seconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    }
  }
  return seconds;
}

double seconds(const std::function<void()>& work) {
  const double begin = processor_seconds();
  work();
  return processor_seconds() - begin;
}

// What reading the bytes once costs on this machine at this moment.
void count_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string buffer(size_t{1} << 20, '\0');
  ptrdiff_t lines = 0;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    lines += std::count(buffer.begin(), buffer.begin() + file.gcount(), '\n');
  }
  PARAMEDIC_CHECK(lines > 0);
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void set_on_each_line(const std::string& path) {
  RE2::Options options;
  options.set_max_mem(int64_t{256} << 20);
  RE2::Set set(options, RE2::UNANCHORED);
  for (const auto& signature : Catalog::builtin().signatures()) {
    for (const Expression* pattern : signature->patterns) set.Add(pattern->text(), nullptr);
  }
  PARAMEDIC_CHECK(set.Compile());
  std::ifstream file(path);
  std::string line;
  std::vector<int> hits;
  size_t matched = 0;
  while (std::getline(file, line)) matched += set.Match(line, &hits) ? 1 : 0;
  PARAMEDIC_CHECK(matched > 0);
}

// Logs of some kilobytes, each with a failure of its own: all are read, then all are remembered.
void add_up(const std::string& folder, size_t logs) {
  const std::string block = progress_block();
  constexpr size_t kLogBytes = 20'000;
  std::filesystem::create_directories(folder + "/jobs");
  for (size_t i = 0; i < logs; ++i) {
    std::ofstream file(fmt::format("{}/jobs/job-{}.log", folder, i), std::ios::binary);
    file << block.substr(i * 97 % (block.size() - kLogBytes), kLogBytes) << "\n"
         << kFailure << "job " << i << "\n";
  }
  const auto jobs = fleet::find_jobs(folder + "/jobs");
  PARAMEDIC_CHECK(jobs.ok() && jobs->size() == logs);
  const auto survey = [&](const char* what) {
    const double time = seconds([&] {
      fleet::Cache cache(posix_file_system(), folder + "/cache");
      const auto read = fleet::survey(*jobs, cache, {});
      PARAMEDIC_CHECK(read.back().category == Category::kTensorMismatch && cache.save().ok());
    });
    fmt::print("fleet, {:21} {:7.0f} logs a second of processor time\n", what,
               static_cast<double>(logs) / time);
  };
  survey("cold");
  survey("remembered");
}

int run(size_t megabytes, uint64_t stream_gigabytes, size_t logs) {
  const std::string folder = std::filesystem::temp_directory_path() / "paramedic-bench-diagnose";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/job.log";
  const std::string block = progress_block();
  {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < megabytes / 4; ++i) file << block;
    file << "\n" << kFailure;
    std::ofstream patterns(folder + "/patterns");
    for (const auto& signature : Catalog::builtin().signatures()) {
      for (const std::string& literal : signature->gate) patterns << literal << "\n";
    }
    patterns << "Traceback \\(most\nError:\nout of memory\ntimed out\nNo such file\nXid \\(PCI\n";
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const Result<Diagnosis> diagnosis = diagnose_paths({path});
  PARAMEDIC_CHECK(diagnosis.ok() && diagnosis->verdict.category == Category::kTensorMismatch);
  const auto report = [&](const char* what, double time) {
    fmt::print("{:28} {:7.3f} GB/s of processor time\n", what, bytes / time / 1e9);
  };
  report("diagnose", seconds([&] { PARAMEDIC_CHECK(diagnose_paths({path}).ok()); }));
  report("count the lines", seconds([&] { count_lines(path); }));
  report("RE2::Set on each line", seconds([&] { set_on_each_line(path); }));
  const std::string grep = "grep -a -c -E -f " + folder + "/patterns " + path + " > /dev/null";
  report("grep -E -f", seconds([&] { PARAMEDIC_CHECK(std::system(grep.c_str()) == 0); }));
  const std::string python =
      "python3 -c \"import re,sys; p=re.compile('|'.join(l.rstrip() for l in open(sys.argv[1])));"
      "print(sum(1 for l in open(sys.argv[2], errors='replace') if p.search(l)))\" " +
      folder + "/patterns " + path + " > /dev/null";
  report("Python re", seconds([&] { PARAMEDIC_CHECK(std::system(python.c_str()) == 0); }));
  if (stream_gigabytes > 0) {
    Scanner scanner(Catalog::builtin());
    Stream stream(stream_gigabytes * 1000000000);
    const double before = peak_mebibytes();
    const double time = seconds([&] { PARAMEDIC_CHECK(scanner.scan("-", -1, stream).ok()); });
    fmt::print("stream of {} GB: {:.3f} GB/s, {:.1f} MiB more at its peak\n", stream_gigabytes,
               static_cast<double>(stream_gigabytes) / time, peak_mebibytes() - before);
  }
  if (logs > 0) add_up(folder, logs);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index, int64_t fallback) {
    return argc > index ? std::strtoll(argv[index], nullptr, 10) : fallback;
  };
  return run(static_cast<size_t>(number(1, 64)), static_cast<uint64_t>(number(2, 0)),
             static_cast<size_t>(number(3, 0)));
}
