#pragma once
// What differs between the environments of ranks: versions, variables, code, limits; only that,
// the minority first. Pure.
//
// A `facts` event of the adapter, once a process, after its imports: {host, values: {"python",
// "torch", "kernel", "package/NAME", …}, modules: {NAME: {file, digest, lines}}}. `lines`: four
// hexadecimal digits for each line of the file, so that the first one that differs is found.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"
#include "rules/finding.h"

namespace paramedic::cluster {

struct Module {
  std::string file;
  std::string digest;
  std::string lines;
};

// One process, as it is compared.
struct Subject {
  std::string name;  // "rank 2"
  std::optional<int32_t> rank;
  std::string host;
  std::map<std::string, std::string> values;  // "variable/NCCL_DEBUG", "torch", "limit/open_files"
  std::map<std::string, Module> modules;
};

// Adds what a setting, or the JSON of a `facts` event, tells.
void add_setting(const Setting& setting, Subject& subject);
void add_facts(const Json& facts, Subject& subject);

struct Difference {
  std::string key;  // "torch", "variable/OMP_NUM_THREADS", "module/train"
  rules::Severity severity = rules::Severity::kInfo;
  struct Group {
    std::string value;  // "" = not set; a digest where the value may not be shown
    std::vector<const Subject*> who;
  };
  std::vector<Group> groups;          // the smallest first
  bool has_majority = false;          // the last one is more than half
  std::optional<rules::Where> where;  // of a module: the first line that differs, in the minority
};

// The subjects outlive the answer. Values that differ by their meaning are left out.
std::vector<Difference> differences(const std::vector<Subject>& subjects);

// "torch 2.1 on rank 2, 2.2 on ranks 0, 1, 3".
std::string difference_text(const Difference& difference);

}  // namespace paramedic::cluster
