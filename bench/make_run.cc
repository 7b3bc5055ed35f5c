// make_run DIR ROWS: a synthetic run with ROWS stored stats rows, for benchmarks of whatever reads
// runs. 100 tensors (weights, gradients, activations of 34 layers) at each step, their loss and
// learning rate, a model and one finding; ten steps a flush, as an agent stores them.

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "store/run.h"

namespace paramedic::store {
namespace {

constexpr uint64_t kTensors = 100;
constexpr uint64_t kStepsPerFlush = 10;
constexpr int64_t kStartNs = 1'796'000'000'000'000'000;
constexpr int64_t kStepNs = 100'000'000;
constexpr uint64_t kElements = 4096;

std::vector<TensorInfo> make_tensors() {
  constexpr std::array<Kind, 3> kKinds = {Kind::kWeight, Kind::kGradient, Kind::kActivation};
  std::vector<TensorInfo> tensors;
  for (uint64_t i = 0; i < kTensors; i++) {
    const Kind kind = kKinds[i % kKinds.size()];
    std::string name = fmt::format("net.layers.{}.linear", i / kKinds.size());
    if (kind != Kind::kActivation) name += ".weight";
    tensors.push_back({std::move(name), kind, stats::DType::kFloat32, {64, 64}});
  }
  return tensors;
}

class Maker {
 public:
  explicit Maker(RunWriter& writer) : writer_(writer), tensors_(make_tensors()) {
    origin_.pid = 4711;
    origin_.ring_id = 0x1234'5678'9abc'def0;
  }

  Status write(uint64_t rows) {
    write_model();
    for (uint64_t written = 0; written < rows; written += kTensors) {
      write_step(std::min(kTensors, rows - written));
      if (static_cast<uint64_t>(origin_.step) % kStepsPerFlush == kStepsPerFlush - 1) {
        PARAMEDIC_TRY(writer_.flush());
      }
    }
    writer_.on_finding({kStartNs, 0, "vanishing_gradient/0/0", finding_json()});
    return writer_.seal();
  }
  [[nodiscard]] int64_t steps() const { return origin_.step + 1; }

 private:
  static std::string finding_json() {
    return R"({"id":"vanishing_gradient","severity":"error","time":1796000000.25,"step":40,)"
           R"("last_step":95,"mode":"train","rank":0,"tensor":"net.layers.0.linear.weight",)"
           R"("kind":"gradient","value":3.1e-9,"threshold":1e-7,)"
           R"("where":{"file":"train.py","line":31,"function":"forward"},"stage":"train",)"
           R"("confidence":0.97,"message":"the mean absolute gradient is 3.1e-09",)"
           R"("evidence":[],"fix":"use ReLU","tensors":[]})";
  }

  void write_model() {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.kind == Kind::kGradient) continue;
      ModelRow row;
      row.origin = next();
      row.kind = tensor.kind == Kind::kWeight ? "parameter" : "module";
      row.name = tensor.name;
      row.class_name = "Linear";
      row.file = "train.py";
      row.line = 31;
      row.function = "forward";
      row.detail = R"({"shape":[64,64]})";
      writer_.on_model(row);
    }
  }

  void write_step(uint64_t rows) {
    origin_.step++;
    origin_.time_ns = kStartNs + origin_.step * kStepNs;
    StatsRow row;
    row.origin = next();
    const auto step = static_cast<double>(origin_.step);
    for (uint64_t i = 0; i < rows; i++) {
      const double scale = std::exp(-step / 1e4) * static_cast<double>(i + 1) / kTensors;
      row.tensor = &tensors_[i];
      row.stats.count = kElements;
      row.stats.zero = i;
      row.stats.negative = kElements / 2;
      row.stats.min = -scale;
      row.stats.max = scale;
      row.stats.sum = scale / 3;
      row.stats.sum_abs = scale * kElements / 2;
      row.stats.sum_squares = scale * scale * kElements / 3;
      writer_.on_stats(row);
    }
    writer_.on_scalar({next(), &loss_, 2.3 * std::exp(-step / 3e3)});
    writer_.on_scalar({next(), &learning_rate_, 1e-3});
  }

  Origin next() {
    origin_.sequence++;
    return origin_;
  }

  RunWriter& writer_;
  std::vector<TensorInfo> tensors_;
  std::string loss_ = "loss/train.py:40";
  std::string learning_rate_ = "learning_rate/0/0";
  Origin origin_;
};

Status make_run(const std::string& dir, uint64_t rows) {
  RunInfo info;
  info.id = "synthetic";
  info.dir = dir;
  info.command = {"python", "train.py"};
  info.started = kStartNs / 1e9;
  PARAMEDIC_ASSIGN(const auto writer,
                   RunWriter::create(posix_file_system(), info, WriterOptions(), real_clock()));
  Maker maker(*writer);
  PARAMEDIC_TRY(maker.write(rows));
  info.status = "finished";
  info.exit_code = 0;
  info.framework = "torch";
  info.steps = maker.steps();
  info.ended = info.started + static_cast<double>(maker.steps() * kStepNs) / 1e9;
  RunInfo::Rank rank;
  rank.pid = 4711;
  rank.status = "finished";
  rank.last_step = maker.steps() - 1;
  info.ranks.push_back(rank);
  return writer->write_info(info);
}

}  // namespace
}  // namespace paramedic::store

int main(int argc, char** argv) {
  uint64_t rows = 0;
  const bool parsed =
      argc == 3 && std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), rows).ec == std::errc();
  if (!parsed) {
    std::fputs("usage: make_run DIR ROWS\n", stderr);
    return 2;
  }
  const paramedic::Status status = paramedic::store::make_run(argv[1], rows);
  if (!status.ok()) std::fprintf(stderr, "make_run: %s\n", status.to_string().c_str());
  return status.exit_code();
}
