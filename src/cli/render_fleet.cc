#include "cli/render_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <vector>

#include "cli/render_html.h"

namespace paramedic::cli {
namespace {

using fleet::Row;
using fleet::Tables;

constexpr int kNameWidth = 24;
constexpr int kCountWidth = 9;
constexpr int kShareWidth = 9;
constexpr int kTimeWidth = 14;
constexpr int kBarMax = 24;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", 100 * share(part, whole));
}

// The parts of a whole, largest first, as a person says them.
std::string summary(const Tables& tables) {
  std::string text = counted(tables.jobs, "job") + ": " + with_commas(tables.failed) + " failed";
  text += fmt::format(" ({})", percent(double(tables.failed), double(tables.jobs)));
  text += ", " + with_commas(tables.finished) + " did not";
  if (tables.running > 0) text += ", " + with_commas(tables.running) + " still run";
  if (tables.unreadable > 0) text += ", " + with_commas(tables.unreadable) + " cannot be read";
  if (tables.machine_s > 0) {
    text += fmt::format("; {} of machine time lost ({})", duration(tables.lost_s),
                        percent(tables.lost_s, tables.machine_s));
  }
  return text;
}

std::string useless_summary(const Tables& tables) {
  return fmt::format("{} {} met the same failure again, {} of machine time",
                     with_commas(tables.useless_retries),
                     tables.useless_retries == 1 ? "retry" : "retries", duration(tables.useless_s));
}

std::string date(double seconds) {
  if (seconds <= 0) return "";
  const auto time = static_cast<time_t>(seconds);
  tm utc{};
  ::gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  ::strftime(text.data(), text.size(), "%Y-%m-%d", &utc);
  return text.data();
}

struct Table {
  const char* title;
  const std::vector<Row>* rows;
};

std::array<Table, 4> tables_of(const Tables& tables) {
  return {{{"category", &tables.categories},
           {"root cause", &tables.causes},
           {"stage", &tables.stages},
           {"could a retry help", &tables.retries}}};
}

std::string first_met(const fleet::Repeated& repeated) {
  std::string text = repeated.first_job;
  if (!repeated.first_owner.empty()) text += fmt::format(" ({})", repeated.first_owner);
  if (const std::string day = date(repeated.first_time); !day.empty()) text += ", " + day;
  return text;
}

class FleetText {
 public:
  FleetText(const Tables& tables, const Paint& paint, int width)
      : tables_(tables), paint_(paint), width_(width) {}

  std::string render() {
    for (const std::string& part : wrap(summary(tables_), width_)) text_ += part + "\n";
    for (const Table& table : tables_of(tables_)) add(table);
    add_repeated();
    add_useless();
    return std::move(text_);
  }

 private:
  void add(const Table& table) {
    if (table.rows->empty()) return;
    text_ += "\n" + paint_(Style::kBold, pad(table.title, kNameWidth)) +
             paint_(Style::kDim, pad_left("jobs", kCountWidth) + pad_left("share", kShareWidth) +
                                     pad_left("machine time", kTimeWidth) +
                                     pad_left("share", kShareWidth)) +
             "\n";
    const double most = double(table.rows->front().count);
    const int room = width_ - kNameWidth - kCountWidth - 2 * kShareWidth - kTimeWidth - 2;
    for (const Row& row : *table.rows) {
      const int bar =
          static_cast<int>(std::lround(std::min(room, kBarMax) * share(double(row.count), most)));
      std::string blocks;
      for (int i = 0; i < bar; ++i) blocks += "█";
      text_ +=
          pad(cut(clean(row.name), kNameWidth), kNameWidth) +
          pad_left(with_commas(row.count), kCountWidth) +
          pad_left(percent(double(row.count), double(tables_.failed)), kShareWidth) +
          pad_left(row.machine_s > 0 ? duration(row.machine_s) : "-", kTimeWidth) +
          pad_left(row.machine_s > 0 ? percent(row.machine_s, tables_.lost_s) : "-", kShareWidth);
      text_ += blocks.empty() ? "\n" : "  " + paint_(Style::kAccent, blocks) + "\n";
    }
  }

  void add_repeated() {
    if (tables_.repeated.empty()) return;
    text_ += "\n" + paint_(Style::kBold, "the same failure again") + "\n";
    for (const fleet::Repeated& each : tables_.repeated) {
      text_ += pad_left(with_commas(each.count), 7) + "  " +
               cut(clean(each.fingerprint), std::max(width_ - 9, 20)) + "\n";
      text_ += "         " +
               paint_(Style::kDim,
                      cut("first: " + clean(first_met(each)) +
                              (each.owners > 1 ? fmt::format("; {} people", each.owners) : ""),
                          std::max(width_ - 9, 20))) +
               "\n";
    }
  }

  void add_useless() {
    if (tables_.useless_retries == 0) return;
    text_ += "\n" + paint_(Style::kBold, "useless retries") + "\n";
    for (const std::string& part : wrap(useless_summary(tables_), width_ - 2)) {
      text_ += "  " + part + "\n";
    }
    for (const fleet::UselessRetries& each : tables_.useless) {
      text_ += pad_left(with_commas(each.count), 7) + "  " +
               cut(fmt::format("{} (retry {}; last: {})", clean(each.fingerprint), name(each.retry),
                               clean(each.last_job)),
                   std::max(width_ - 9, 20)) +
               "\n";
    }
  }

  const Tables& tables_;
  const Paint& paint_;
  const int width_;
  std::string text_;
};

std::string heading(const std::string& title, const std::string& remark = {}) {
  return fmt::format("<h2><span>{}</span><small>{}</small></h2>\n", escape_html(title),
                     escape_html(remark));
}

std::string number_cell(const std::string& text) {
  return fmt::format(R"(<td class="number">{}</td>)", escape_html(text));
}

std::string table_html(const Table& table, const Tables& tables) {
  if (table.rows->empty()) return "";
  std::string html = heading(table.title) +
                     "<table>\n<tr><th></th><th class=\"number\">jobs</th><th class=\"number\">"
                     "share</th><th class=\"number\">machine time</th><th class=\"number\">share"
                     "</th><th></th></tr>\n";
  const double most = double(table.rows->front().count);
  for (const Row& row : *table.rows) {
    html += fmt::format(R"(<tr><td title="{}">{}</td>{}{}{}{}<td class="half"><div class="bar" )"
                        R"(style="width:{:.1f}%"></div></td></tr>)"
                        "\n",
                        escape_html(row.title), escape_html(row.name),
                        number_cell(with_commas(row.count)),
                        number_cell(percent(double(row.count), double(tables.failed))),
                        number_cell(row.machine_s > 0 ? duration(row.machine_s) : ""),
                        number_cell(row.machine_s > 0 ? percent(row.machine_s, tables.lost_s) : ""),
                        100 * share(double(row.count), most));
  }
  return html + "</table>\n";
}

// Jobs of each day, the failed ones of them filled.
std::string days_html(const std::vector<fleet::Day>& days) {
  if (days.size() < 2) return "";
  constexpr int kWidth = 960;
  constexpr int kHeight = 150;
  constexpr int kBase = kHeight - 22;
  constexpr int kTop = 8;
  uint64_t most = 1;
  for (const fleet::Day& day : days) most = std::max(most, day.jobs);
  const auto span = static_cast<double>(days.back().day - days.front().day + 1);
  const double step = kWidth / span;
  std::string svg;
  for (const fleet::Day& day : days) {
    const double x = static_cast<double>(day.day - days.front().day) * step;
    const auto bar = [&](uint64_t count, const char* style) {
      const double height = (kBase - kTop) * double(count) / double(most);
      return fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" )"
                         R"(height="{:.1f}"><title>{}: {} of {} failed</title></rect>)",
                         style, x, kBase - height, std::max(step - 1, 0.5), height,
                         date(double(day.day) * 86400), day.failed, day.jobs);
    };
    svg += bar(day.jobs, "all") + bar(day.failed, "failed");
  }
  svg += fmt::format(R"(<text x="0" y="{0}">{1}</text><text x="{2}" y="{0}" )"
                     R"(text-anchor="end">{3}</text>)",
                     kHeight - 6, date(double(days.front().day) * 86400), kWidth,
                     date(double(days.back().day) * 86400));
  return heading("by day", fmt::format("jobs and failed jobs, at most {} a day", most)) +
         fmt::format("<figure><svg viewBox=\"0 0 {} {}\" role=\"img\">{}</svg></figure>\n", kWidth,
                     kHeight, svg);
}

std::string repeated_html(const Tables& tables) {
  if (tables.repeated.empty()) return "";
  std::string html = heading("the same failure again") +
                     "<table>\n<tr><th class=\"number\">jobs</th><th>failure</th><th>first</th>"
                     "<th class=\"number\">people</th></tr>\n";
  for (const fleet::Repeated& each : tables.repeated) {
    html += fmt::format("<tr>{}<td>{}<br /><code>{}</code></td><td>{}</td>{}</tr>\n",
                        number_cell(with_commas(each.count)), escape_html(each.fingerprint),
                        escape_html(each.message), escape_html(first_met(each)),
                        number_cell(with_commas(each.owners)));
  }
  return html + "</table>\n";
}

std::string useless_html(const Tables& tables) {
  if (tables.useless_retries == 0) return "";
  std::string html = heading("useless retries") + "<p>" + escape_html(useless_summary(tables)) +
                     "</p>\n<table>\n<tr><th class=\"number\">times</th><th>failure</th>"
                     "<th>retry</th><th>last</th></tr>\n";
  for (const fleet::UselessRetries& each : tables.useless) {
    html += fmt::format("<tr>{}<td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        number_cell(with_commas(each.count)), escape_html(each.fingerprint),
                        name(each.retry), escape_html(each.last_job));
  }
  return html + "</table>\n";
}

}  // namespace

std::string fleet_text(const fleet::Tables& tables, const Paint& paint, int width) {
  return FleetText(tables, paint, width).render();
}

std::string fleet_html(const fleet::Tables& tables, const std::string& dir) {
  std::string body =
      fmt::format("<header>\n<h1><span>{}</span></h1>\n<p class=\"facts\">{}</p>\n</header>\n",
                  escape_html(dir), escape_html(summary(tables)));
  body += days_html(tables.days);
  for (const Table& table : tables_of(tables)) body += table_html(table, tables);
  body += repeated_html(tables) + useless_html(tables);
  body += "<footer>made by paramedic</footer>\n";
  return html_page("failures in " + dir, body);
}

}  // namespace paramedic::cli
