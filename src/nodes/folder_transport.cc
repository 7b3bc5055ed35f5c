#include "nodes/folder_transport.h"

#include <sys/stat.h>

#include <map>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "cluster/watch.h"
#include "nodes/inbox.h"
#include "nodes/look.h"
#include "store/run.h"

namespace paramedic::nodes {
namespace {

// How often findings are looked for, which reads the whole table of them.
constexpr int64_t kFindingsNs = 1'000'000'000;
// Times of files are as coarse as the kernel's tick.
constexpr int64_t kGrainNs = 10'000'000;

class FolderTransport : public Transport {
 public:
  explicit FolderTransport(std::string folder) : folder_(std::move(folder)), inbox_(folder_) {}

  Result<Receipt> send(const Parcel& parcel) override {
    PARAMEDIC_ASSIGN(Receipt receipt, inbox_.take(parcel));
    if (!receipt.refused.empty()) return receipt;
    // What the folder's machine thinks that the time is.
    const std::string look = folder_ + "/" + parcel.job + "/nodes/" + parcel.node + "/" + kLookFile;
    struct stat facts = {};
    if (!parcel.look.empty() && ::stat(look.c_str(), &facts) == 0) {
      receipt.received_ns = modified_ns(facts);
      receipt.answered_ns = receipt.received_ns;
    }
    fill_findings(parcel, receipt);
    return receipt;
  }

  [[nodiscard]] int64_t clock_grain_ns() const override { return kGrainNs; }

 private:
  void fill_findings(const Parcel& parcel, Receipt& receipt) {
    receipt.collector = "folder";
    receipt.findings_count = parcel.findings_seen;
    const int64_t now_ns = real_clock().monotonic_ns();
    if (now_ns - looked_ns_ < kFindingsNs) return;
    looked_ns_ = now_ns;
    const auto reader = store::RunReader::open(folder_ + "/" + parcel.job);
    if (!reader.ok()) return;  // nobody judges the job yet
    const std::string& status = (*reader)->info().status;
    receipt.has_judged = status != "running" && status != "paused";
    const auto rows = (*reader)->read_findings();
    if (!rows.ok()) return;
    for (const store::FindingRow& row : *rows) {
      std::string& told = told_[row.key];
      if (told == row.json) continue;
      told = row.json;
      if (auto json = parse_json(row.json, "a finding"); json.ok() && is_of_watch(*json)) {
        receipt.findings.push_back({row.key, std::move(json).value()});
      }
    }
  }

  // The nodes' own findings, about single ranks, stand in the same run.
  static bool is_of_watch(const Json& finding) {
    const std::string id = string_or(finding, "id", "");
    for (const auto& watch : cluster::watch_entries()) {
      if (id == watch.info.id) return true;
    }
    return false;
  }

  const std::string folder_;
  Inbox inbox_;
  std::map<std::string, std::string> told_;  // findings by key
  int64_t looked_ns_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_folder_transport(const std::string& folder) {
  return std::make_unique<FolderTransport>(folder);
}

}  // namespace paramedic::nodes
