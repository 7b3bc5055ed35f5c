#include "cli/sample_report.h"

#include <cmath>
#include <limits>

namespace paramedic::cli {
namespace {

constexpr double kStarted = 1796000000;

Report base_report(const std::string& name, int64_t steps) {
  Report report;
  report.name = name;
  report.info.id = name + "-4f2a";
  report.info.dir = "/home/ada/digits/paramedic-runs/" + name;
  report.info.cwd = "/home/ada/digits";
  report.info.command = {"python", "train.py", "--note", "it's a test"};
  report.info.host = "node-1";
  report.info.started = kStarted;
  report.info.ended = kStarted + 12.34;
  report.now = kStarted + 60;
  report.info.status = "finished";
  report.info.exit_code = 0;
  report.info.framework = "torch 2.13.0";
  report.info.steps = steps;
  report.info.overhead_percent = 0.417;
  report.info.ranks = {{0, 4711, "node-1", "finished", steps - 1}};
  report.optimizers = {"SGD"};
  report.loss_kinds = {"CrossEntropyLoss"};
  report.batch_size = 32;
  report.phases = {{"data", 820},
                   {"forward", 3100},
                   {"backward", 5200},
                   {"optimizer", 900},
                   {"validation", 400}};
  report.step_ms_total = 10300;
  report.steps_timed = static_cast<uint64_t>(steps);
  return report;
}

// A reproducible wobble in [-1, 1] without a random generator.
double wobble(int64_t step) { return std::sin(double(step) * 12.9898) * std::cos(double(step)); }

void add_layers(Report& report, int count, double falling_by) {
  for (int i = 0; i < count; i++) {
    Layer layer;
    layer.name = "net." + std::to_string(2 * i);
    layer.class_name = "Linear";
    layer.parameters = 4160;
    for (int64_t step = 0; step < report.info.steps; step += 10) {
      const double rms = 1e-2 * std::pow(falling_by, count - 1 - i) * (1 + 0.3 * wobble(step));
      layer.gradient.at(step).add(step, rms * rms * 4160, 4160, 0);
    }
    report.layers.push_back(layer);
  }
}

Series loss_curve(const std::string& name, int64_t steps, double from, double to) {
  Series loss;
  loss.name = name;
  for (int64_t step = 0; step < steps; step++) {
    const double progress = 1 - std::exp(-double(step) / double(steps) * 5);
    loss.add(step, from + (to - from) * progress + 0.06 * (from - to) * wobble(step));
  }
  return loss;
}

rules::Finding vanishing() {
  rules::Finding finding;
  finding.id = "vanishing_gradient";
  finding.severity = rules::Severity::kError;
  finding.time = kStarted + 3.5;
  finding.step = 40;
  finding.last_step = 390;
  finding.rank = 0;
  finding.tensor = "net.0.weight";
  finding.kind = "gradient";
  finding.value = 3.1e-9;
  finding.threshold = 1e-7;
  finding.where = {"train.py", 31, "forward"};
  finding.confidence = 0.97;
  finding.message =
      "the mean absolute gradient of net.0.weight is 3.1e-09 since step 40 (limit 1e-07)";
  finding.evidence = {"net.0 … net.8 end in sigmoid", "mean |g| falls by 10x per layer"};
  finding.fix =
      "use ReLU or normalisation between the layers, or a scaled initialisation of the weights";
  finding.tensors = {"net.0.weight", "net.2.weight",  "net.4.weight", "net.6.weight",
                     "net.8.weight", "net.10.weight", "net.12.weight"};
  return finding;
}

rules::Finding low_rate() {
  rules::Finding finding;
  finding.id = "learning_rate_range";
  finding.severity = rules::Severity::kWarning;
  finding.step = 100;
  finding.message = "the learning rate 1e-06 moves the weights by less than 1e-08 of their size";
  finding.fix = "raise it to about 1e-3";
  return finding;
}

rules::Finding nan_origin() {
  rules::Finding finding;
  finding.id = "nan_origin";
  finding.severity = rules::Severity::kError;
  finding.step = 93;
  finding.tensor = "head";
  finding.kind = "activation";
  finding.where = {"model.py", 17, ""};
  finding.message = "the first NaN came out of head (Normalise) at step 93";
  finding.fix = "keep the argument of log away from 0, for example log(x + 1e-8)";
  return finding;
}

}  // namespace

Report healthy_report() {
  Report report = base_report("digits", 400);
  report.losses = {loss_curve("train.py:41", 400, 2.31, 0.14)};
  add_layers(report, 3, 0.6);
  for (int64_t step = 0; step < 400; step += 10) {
    report.norm.add(step, 1.4 * std::exp(-double(step) / 150) * (1 + 0.2 * wobble(step)));
  }
  Series rate;
  rate.name = "SGD/0";
  for (int64_t step = 0; step < 400; step++) rate.add(step, step < 200 ? 0.1 : 0.01);
  report.rates = {rate};
  return report;
}

Report vanishing_report() {
  Report report = base_report("digits-vanishing", 400);
  report.losses = {loss_curve("train.py:41", 400, 2.3041, 2.3012)};
  add_layers(report, 7, 0.08);
  for (int64_t step = 0; step < 400; step += 10) report.norm.add(step, 0.02 + 0.001 * wobble(step));
  Series rate;
  rate.name = "SGD/0";
  rate.add(0, 1e-6);
  rate.add(399, 1e-6);
  report.rates = {rate};
  report.problems = {{low_rate(), {}},
                     {vanishing(), {"        x = torch.sigmoid(self.fc1(x))", false}}};
  sort_problems(report.problems);
  report.info.not_captured = {{"activations of encoder", "torch.compile took the module"}};
  return report;
}

Report nan_report() {
  Report report = base_report("digits-nan", 120);
  report.info.status = "failed";
  report.info.exit_code = 1;
  report.info.dropped_records = 12;
  report.info.world_size = 2;
  add_layers(report, 2, 0.3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Series loss;
  loss.name = "train.py:41";
  for (int64_t step = 0; step < 120; step++) {
    loss.add(step, step < 93 ? 3000 * std::exp(-double(step) / 9) + 0.2 : nan);
  }
  report.losses = {loss};
  for (int64_t step = 0; step < 120; step += 10) report.norm.add(step, step < 93 ? 1.0 : nan);
  Layer head;
  head.name = "head";
  head.class_name = "Normalise";
  head.parameters = 10;
  for (int64_t step = 0; step < 120; step += 10) {
    head.gradient.at(step).add(step, step < 60 ? 1e-4 : 0, step < 93 ? 10 : 6, step < 93 ? 0 : 4);
  }
  report.layers.push_back(head);
  report.problems = {{nan_origin(), {"    return torch.log(x) / self.scale", true}}};
  return report;
}

Report paused_report() {
  Report report = base_report("digits-wait", 60);
  report.info.status = "paused";
  report.info.exit_code.reset();
  report.info.ended.reset();
  report.info.ranks[0].status = "paused";
  report.info.failure = {
      {"title", "ValueError: too few"},
      {"where", {{"file", "train.py"}, {"line", 31}, {"function", "Net.forward"}}},
      {"exception", {{"type", "ValueError"}, {"message", "expected 10 classes, got <11>"}}}};
  report.failure_place = rules::Where{"train.py", 31, "Net.forward"};
  report.failure_quote = {"        return self.head(x, classes=10)", false};
  store::RepairRow first;
  first.time_ns = int64_t{1796000003} * 1'000'000'000;
  first.step = 12;
  first.file = "/home/ada/digits/io.py";
  first.line = 7;
  first.function = "save";
  first.exception = "OSError";
  first.message = "[Errno 116] Stale file handle";
  first.kind = "retry";
  first.by = "policy";
  first.took_ms = 0.8;
  store::RepairRow second = first;
  second.step = 40;
  second.exception = "TypeError";
  second.kind = "edit";
  second.by = "person";
  second.took_ms = 3.25;
  second.patch = "repairs/1.patch";
  report.repairs = {first, second};
  report.losses = {loss_curve("train.py:41", 60, 2.31, 0.9)};
  return report;
}

Report failed_report() {
  Report report = base_report("digits-4", 60);
  report.info.status = "failed";
  report.info.exit_code = 1;
  report.info.failure = {
      {"category", "path_not_found"},
      {"title", "a file or folder does not exist"},
      {"retry", "never"},
      {"retry_reason", "the same would happen again"},
      {"stage", "evaluate"},
      {"first_failing_rank", 1},
      {"where", {{"file", "/home/ada/digits/eval.py"}, {"line", 88}, {"function", "load"}}},
      {"exception",
       {{"type", "FileNotFoundError"},
        {"message", "[Errno 2] No such file or directory: '/data/test.lst'"}}},
      {"fix", "give a path that exists on this machine"},
      {"collect_next", nullptr}};
  report.failure_place = rules::Where{"/home/ada/digits/eval.py", 88, "load"};
  report.losses = {loss_curve("train.py:41", 60, 2.31, 0.9)};
  return report;
}

Report launcher_report() {
  Report report = failed_report();
  report.info.failure["exception"] = {
      {"type", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"},
      {"message",
       "\n============================================================\n"
       "train.py FAILED\n------------------------------------------------------------\n"
       "Failures:\n  <NO_OTHER_FAILURES>\n"
       "------------------------------------------------------------\n"
       "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_22:10:04\n"
       "  host      : node-1\n  rank      : 1 (local_rank: 1)\n  exitcode  : 3 (pid: 4242)\n"
       "  error_file: <N/A>\n  traceback : To enable traceback see: "
       "https://pytorch.org/docs/stable/elastic/errors.html\n"
       "============================================================"}};
  return report;
}

Report empty_report() {
  Report report = base_report("run<1>\x1b[31m", 0);
  report.info.command = {"sh", "-c", "echo '</script>'"};
  report.info.framework.clear();
  report.info.overhead_percent.reset();
  report.info.status = "running";
  report.info.exit_code.reset();
  report.info.ended.reset();
  report.info.ranks.clear();
  report.phases.clear();
  report.optimizers.clear();
  report.loss_kinds.clear();
  report.batch_size = 0;
  report.info.not_captured = {{"<b>everything</b>", "no framework \"was\" seen"}};
  report.damage = {{"stats/rank-0-3.arrows", 4096, "batch checksum mismatch"}};
  return report;
}

}  // namespace paramedic::cli
