// The capture plan: any text is a plan or an error that says where, and what a plan says of steps
// and names is consistent.

#include <cstdlib>
#include <string>
#include <string_view>

#include "probe/plan.h"

namespace {

using paramedic::probe::Collection;
using paramedic::probe::Plan;

void check(bool condition) {
  if (!condition) std::abort();
}

void use(const Plan& plan) {
  check(!plan.collections.empty());
  for (const std::string name : {"", "net.0.weight", "encoder.layer.11.attention.query.bias",
                                 "\xff\xfe", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}) {
    const uint32_t mask = plan.collections_of(paramedic::record::Kind::kGradient, name);
    check(uint64_t{mask} < uint64_t{1} << plan.collections.size());
  }
  for (const Collection& collection : plan.collections) {
    check(collection.kinds != 0 && collection.modes != 0 && collection.what != 0);
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{999}, INT64_MAX - 1, INT64_MAX}) {
      const int64_t next = collection.next_due(step);
      check(next >= step);
      check(next == INT64_MAX || collection.is_due(next));
    }
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = paramedic::probe::parse_plan(text);
  if (plan.ok()) {
    use(plan.value());
  } else {
    check(!plan.status().message().empty() && !plan.status().hint().empty());
  }
  return 0;
}
