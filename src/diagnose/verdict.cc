#include "diagnose/verdict.h"

#include <cmath>

namespace paramedic::diagnose {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json number_or_null(int64_t number) { return number < 0 ? Json() : Json(number); }

}  // namespace

Json to_json(const Verdict& verdict) {
  Json where;
  if (verdict.where) {
    where = {{"file", verdict.where->file},
             {"line", verdict.where->line},
             {"function", text_or_null(verdict.where->function)}};
  }
  Json exception;
  if (!verdict.exception_type.empty()) {
    exception = {{"type", verdict.exception_type}, {"message", verdict.exception_message}};
  }
  Json evidence = Json::array();
  for (const Evidence& piece : verdict.evidence) {
    evidence.push_back({{"file", piece.file},
                        {"line", piece.line},
                        {"offset", piece.offset},
                        {"rank", number_or_null(piece.rank)},
                        {"role", name(piece.role)},
                        {"text", piece.text}});
  }
  Json ruled_out = Json::array();
  for (const RuledOut& other : verdict.ruled_out) {
    ruled_out.push_back({{"what", other.what}, {"role", name(other.role)}, {"line", other.line}});
  }
  return {{"category", name(verdict.category)},
          {"mechanism", verdict.mechanism},
          {"domain", name(verdict.domain)},
          {"title", verdict.title},
          {"retry", name(verdict.retry)},
          {"retry_reason", verdict.retry_reason},
          {"confidence", std::round(verdict.confidence * 100) / 100},
          {"stage", name(verdict.stage)},
          {"first_failing_rank", number_or_null(verdict.first_failing_rank)},
          {"where", std::move(where)},
          {"exception", std::move(exception)},
          {"fingerprint", verdict.fingerprint},
          {"fingerprint_exact", verdict.fingerprint_exact},
          {"ranks", verdict.ranks},
          {"evidence", std::move(evidence)},
          {"ruled_out", std::move(ruled_out)},
          {"last_step", number_or_null(verdict.last_step)},
          {"lost_steps", number_or_null(verdict.lost_steps)},
          {"fix", text_or_null(verdict.fix)},
          {"collect_next", text_or_null(verdict.collect_next)}};
}

}  // namespace paramedic::diagnose
