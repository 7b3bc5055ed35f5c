#include "cli/render_json.h"

#include "cli/render_ranks.h"

namespace paramedic::cli {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json run_json(const store::RunInfo& info) {
  Json ranks = Json::array();
  for (const store::RunInfo::Rank& rank : info.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"pid", rank.pid},
                     {"host", rank.host},
                     {"status", rank.status},
                     {"last_step", rank.last_step < 0 ? Json(nullptr) : Json(rank.last_step)}});
  }
  return {{"id", info.id},
          {"dir", info.dir},
          {"command", info.command},
          {"started", info.started},
          {"ended", or_null(info.ended)},
          {"status", info.status},
          {"exit_code", or_null(info.exit_code)},
          {"signal", or_null(info.signal)},
          {"framework", info.framework.empty() ? Json(nullptr) : Json(info.framework)},
          {"world_size", info.world_size},
          {"ranks", std::move(ranks)},
          {"steps", info.steps},
          {"overhead_percent", or_null(info.overhead_percent)},
          {"dropped_records", info.dropped_records}};
}

Json repair_json(const store::RepairRow& row) {
  Json where = nullptr;
  if (!row.file.empty()) {
    where = {{"file", row.file}, {"line", row.line}, {"function", row.function}};
  }
  return {{"time", static_cast<double>(row.time_ns) / 1e9},
          {"rank", row.rank},
          {"step", row.step < 0 ? Json(nullptr) : Json(row.step)},
          {"where", std::move(where)},
          {"exception", {{"type", row.exception}, {"message", row.message}}},
          {"kind", row.kind},
          {"by", row.by},
          {"took_ms", row.took_ms},
          {"patch", row.patch.empty() ? Json(nullptr) : Json(row.patch)}};
}

}  // namespace

Json render_json(const Report& report) {
  Json findings = Json::array();
  for (const Problem& problem : report.problems) findings.push_back(problem.finding.to_json());
  Json repairs = Json::array();
  for (const store::RepairRow& row : report.repairs) repairs.push_back(repair_json(row));
  Json not_captured = Json::array();
  for (const auto& [what, why] : report.info.not_captured) {
    not_captured.push_back({{"what", what}, {"why", why}});
  }
  Json damage = Json::array();
  for (const store::Damage& each : report.damage) {
    damage.push_back({{"file", each.file}, {"offset", each.offset}, {"what", each.what}});
  }
  Json json = {{"schema", kJsonSchema},
               {"run", run_json(report.info)},
               {"health", report.health()},
               {"findings", std::move(findings)},
               {"failure", report.info.failure},
               {"repairs", std::move(repairs)},
               {"not_captured", std::move(not_captured)},
               {"damage", std::move(damage)}};
  if (report.ranks_view) json["ranks_view"] = ranks_view_json(*report.ranks_view);
  return json;
}

}  // namespace paramedic::cli
