#include "rules/golden_case.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

// A number that is none reads as 0, and the case fails by its answer.
// NOLINTBEGIN(bugprone-unchecked-string-to-number-conversion)
namespace paramedic::rules {

namespace {

constexpr int64_t kStartNs = 1'796'000'000'000'000'000;
constexpr int64_t kStepNs = 100'000'000;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status at(int line, const std::string& message) {
  return invalid_argument(fmt::format("case line {}: {}", line, message));
}

std::optional<std::string> option(const std::vector<std::string>& words, std::string_view key) {
  for (const std::string& word : words) {
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=') {
      return word.substr(key.size() + 1);
    }
  }
  return std::nullopt;
}

Where where_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1), ""};
}

std::vector<int64_t> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const std::string& size : split(text, 'x')) sizes.push_back(std::atoll(size.c_str()));
  return sizes;
}

}  // namespace

void CollectingSink::on_finding(const std::string& key, const Finding& finding) {
  ++updates_;
  for (auto& [known, value] : findings_) {
    if (known != key) continue;
    value = finding;
    return;
  }
  findings_.emplace_back(key, finding);
}

Status CasePlayer::play(std::string_view text, store::RowSink& sink) {
  std::vector<Line> lines;
  int number = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.starts_with("=== findings")) break;
    if (line.starts_with('#')) continue;
    std::vector<std::string> words = split(line, ' ');
    if (!words.empty()) lines.push_back({number, std::move(words)});
  }
  advance(0);
  return run(lines, 0, lines.size(), sink);
}

Status CasePlayer::run(const std::vector<Line>& lines, size_t from, size_t to,
                       store::RowSink& sink) {
  for (size_t i = from; i < to; ++i) {
    const Line& line = lines[i];
    if (line.words[0] != "repeat") {
      PARAMEDIC_TRY(play_line(line, {origin_.step, origin_.step}, sink));
      continue;
    }
    // repeat FROM TO [every=N] … end
    if (line.words.size() < 3) return at(line.number, "repeat FROM TO");
    size_t end = i + 1;
    while (end < to && lines[end].words[0] != "end") ++end;
    if (end == to) return at(line.number, "repeat without end");
    const Loop loop = {std::atoll(line.words[1].c_str()), std::atoll(line.words[2].c_str())};
    const int64_t stride = std::atoll(option(line.words, "every").value_or("1").c_str());
    if (stride < 1) return at(line.number, "every must be > 0");
    for (int64_t step = loop.from; step <= loop.to; step += stride) {
      advance(step);
      for (size_t j = i + 1; j < end; ++j) PARAMEDIC_TRY(play_line(lines[j], loop, sink));
    }
    i = end;
  }
  return {};
}

Status CasePlayer::play_line(const Line& line, const Loop& loop, store::RowSink& sink) {
  const std::vector<std::string>& words = line.words;
  if (const auto every = option(words, "every")) {
    if (origin_.step % std::max(1LL, std::atoll(every->c_str())) != 0) return {};
  }
  origin_.sequence = ++sequences_[origin_.ring_id];
  if (words.size() < 2) return at(line.number, "nothing after " + words[0]);
  if (words[0] == "step") {
    advance(std::atoll(words[1].c_str()));
  } else if (words[0] == "process") {
    origin_.ring_id = static_cast<uint64_t>(std::atoll(words[1].c_str()));
    origin_.pid = static_cast<int32_t>(origin_.ring_id);
    origin_.rank = std::atoi(option(words, "rank").value_or("0").c_str());
  } else if (words[0] == "seed") {
    random_ = static_cast<uint64_t>(std::atoll(words[1].c_str()));
  } else if (words[0] == "stats") {
    return play_stats(line, loop, sink);
  } else if (words[0] == "scalar" && words.size() >= 3) {
    PARAMEDIC_ASSIGN(double value, number(line, words[2], loop));
    if (const auto spread = option(words, "noise")) {
      value *= 1 + noise() * std::atof(spread->c_str());
    }
    sink.on_scalar({origin_, name(words[1]), value});
  } else if (words[0] == "event") {
    std::string json = words.size() > 2 ? "" : "{}";
    for (size_t i = 2; i < words.size(); ++i) json += (i > 2 ? " " : "") + words[i];
    if (words[1] == "fit_started") ++fit_;
    sink.on_event({origin_, words[1], json});
  } else {
    return play_model(line, sink);
  }
  return {};
}

Status CasePlayer::play_stats(const Line& line, const Loop& loop, store::RowSink& sink) {
  const std::vector<std::string>& words = line.words;
  if (words.size() < 3) return at(line.number, "stats NAME KIND …");
  auto& tensor = tensors_[words[1] + " " + words[2]];
  if (!tensor) {
    tensor = std::make_unique<store::TensorInfo>();
    tensor->name = words[1];
    tensor->kind = words[2] == "weight"     ? store::Kind::kWeight
                   : words[2] == "gradient" ? store::Kind::kGradient
                                            : store::Kind::kActivation;
    tensor->sizes = sizes_of(option(words, "sizes").value_or("16x16"));
  }
  double values[13] = {};
  const char* keys[13] = {"count", "nan",    "inf",     "-inf",    "zero",    "mean_abs", "units",
                          "dead",  "frozen", "batches", "max_abs", "outside", "all"};
  for (size_t i = 0; i < 13; ++i) {
    if (const auto text = option(words, keys[i])) {
      PARAMEDIC_ASSIGN(values[i], number(line, *text, loop));
    }
  }
  store::StatsRow row;
  row.origin = origin_;
  row.tensor = tensor.get();
  const auto whole = [](double value) { return static_cast<uint64_t>(value); };
  row.stats.count = values[0] > 0 ? whole(values[0]) : 256;
  row.stats.nan = whole(values[1]);
  row.stats.positive_inf = whole(values[2]);
  row.stats.negative_inf = whole(values[3]);
  row.stats.zero = whole(values[4]);
  // As if all finite elements had the same magnitude and a mean of zero.
  const auto finite = static_cast<double>(row.stats.finite());
  row.stats.sum_abs = values[5] * finite;
  row.stats.sum_squares = values[5] * values[5] * finite;
  row.stats.max = std::max(values[5], values[10]);
  row.stats.min = -row.stats.max;
  if (option(words, "all")) {
    row.stats.min = row.stats.max = values[12];
    row.stats.sum_abs = std::abs(values[12]) * finite;
    row.stats.sum_squares = values[12] * values[12] * finite;
    row.stats.sum = values[12] * finite;
    if (values[12] == 0) row.stats.zero = row.stats.count;
  }
  row.units = static_cast<uint32_t>(values[6]);
  row.units_dead = static_cast<uint32_t>(values[7]);
  row.units_frozen = static_cast<uint32_t>(values[8]);
  row.unit_batches = static_cast<uint32_t>(values[9]);
  row.outside = whole(values[11]);
  sink.on_stats(row);
  return {};
}

// module NAME CLASS FILE:LINE order=N | function NAME CLASS FILE:LINE layer=M
// parameter NAME SIZES module=M
// optimizer CLASS [momentum=M] [params=a,b] [made=FILE:LINE] | loss CLASS FILE:LINE
Status CasePlayer::play_model(const Line& line, store::RowSink& sink) {
  const std::vector<std::string>& words = line.words;
  store::ModelRow row;
  row.origin = origin_;
  row.fit = std::max(0, fit_ - 1);
  row.kind = words[0];
  Json detail = Json::object();
  std::string place;
  if (words[0] == "module" && words.size() >= 4) {
    row.name = words[1];
    row.class_name = words[2];
    place = words[3];
    detail["order"] = std::atoll(option(words, "order").value_or("-1").c_str());
    detail["loaded"] = option(words, "loaded").value_or("no") == "yes";
    if (option(words, "called").value_or("yes") == "no") detail["called"] = nullptr;
  } else if (words[0] == "function" && words.size() >= 4) {
    row.name = words[1];
    row.class_name = words[2];
    place = words[3];
    detail["layer"] = option(words, "layer").value_or("");
  } else if (words[0] == "parameter" && words.size() >= 3) {
    row.name = words[1];
    detail["shape"] = sizes_of(words[2]);
    if (const auto module = option(words, "module")) detail["module"] = *module;
    detail["requires_grad"] = option(words, "frozen").value_or("no") == "no";
  } else if (words[0] == "optimizer") {
    row.class_name = words[1];
    place = option(words, "made").value_or("");
    Json group;
    group["momentum"] = std::atof(option(words, "momentum").value_or("0").c_str());
    group["parameters"] = split(option(words, "params").value_or(""), ',');
    detail["groups"] = Json::array({group});
  } else if (words[0] == "loss" && words.size() >= 3) {
    row.class_name = words[1];
    place = words[2];
    detail["weighted"] = option(words, "weighted").value_or("no") == "yes";
  } else {
    return at(line.number, "cannot read '" + words[0] + "' with what follows it");
  }
  const Where where = where_of(place);
  row.file = where.file;
  row.line = where.line;
  row.detail = to_text(detail);
  sink.on_model(row);
  return {};
}

// "3", "nan", or "A->B": from A at the loop's first step to B at its last, by equal factors where
// both are positive, else by equal differences.
Result<double> CasePlayer::number(const Line& line, std::string_view text, const Loop& loop) {
  const std::string whole(text);
  const size_t arrow = whole.find("->");
  char* end = nullptr;
  const double from = std::strtod(whole.c_str(), &end);
  if (end == whole.c_str()) return at(line.number, "no number: " + whole);
  if (arrow == std::string::npos) return from;
  const double to = std::strtod(whole.c_str() + arrow + 2, nullptr);
  const double share = loop.to > loop.from ? static_cast<double>(origin_.step - loop.from) /
                                                 static_cast<double>(loop.to - loop.from)
                                           : 0;
  if (from > 0 && to > 0) return from * std::pow(to / from, share);
  return from + (to - from) * share;
}

// Nearly normal with standard deviation 1, the same on every machine.
double CasePlayer::noise() {
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    sum += static_cast<double>(random_ >> 11) * 0x1p-53;
  }
  return sum - 6;
}

void CasePlayer::advance(int64_t step) {
  origin_.step = step;
  origin_.time_ns = kStartNs + step * kStepNs;
}

const std::string* CasePlayer::name(const std::string& text) {
  auto& name = names_[text];
  if (!name) name = std::make_unique<std::string>(text);
  return name.get();
}

std::string findings_text(const CollectingSink& sink) {
  if (sink.findings().empty()) return "none\n";
  std::string text;
  for (const auto& [key, f] : sink.findings()) {
    text += fmt::format("{} {}", key, severity_name(f.severity));
    if (f.step) text += fmt::format(" step={}", *f.step);
    if (f.last_step) text += fmt::format(" last_step={}", *f.last_step);
    text += fmt::format(" time={:.1f}", f.time);
    if (f.tensor) text += " tensor=" + *f.tensor;
    if (f.kind) text += " kind=" + *f.kind;
    if (f.value) text += fmt::format(" value={:.3g}", *f.value);
    if (f.threshold) text += fmt::format(" threshold={:.3g}", *f.threshold);
    if (f.where) text += fmt::format(" where={}:{}", f.where->file, f.where->line);
    text += fmt::format("\n  {}\n", f.message);
    if (f.tensors.size() > 1) text += fmt::format("  tensors: {}\n", fmt::join(f.tensors, " "));
    for (const std::string& line : f.evidence) text += "  - " + line + "\n";
  }
  return text;
}

}  // namespace paramedic::rules
// NOLINTEND(bugprone-unchecked-string-to-number-conversion)
