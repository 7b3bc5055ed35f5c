#include "store/tables.h"

#include <algorithm>

#include "base/json.h"

namespace paramedic::store {
namespace {

constexpr ColumnType column_type(int32_t) { return ColumnType::kInt32; }
constexpr ColumnType column_type(int64_t) { return ColumnType::kInt64; }
constexpr ColumnType column_type(uint32_t) { return ColumnType::kUint32; }
constexpr ColumnType column_type(uint64_t) { return ColumnType::kUint64; }
constexpr ColumnType column_type(double) { return ColumnType::kFloat64; }

// Collects the columns of a table instead of the values of a row.
class SpecVisitor {
 public:
  void time(const char* name, int64_t) { add(name, ColumnType::kTime); }
  template <typename T>
  void number(const char* name, T value) {
    add(name, column_type(value));
  }
  void flag(const char* name, bool) { add(name, ColumnType::kUint32); }
  void mode(const char* name, Mode) { add(name, ColumnType::kText); }
  void dtype(const char* name, stats::DType) { add(name, ColumnType::kText); }
  void sizes(const char* name, const std::vector<int64_t>&) { add(name, ColumnType::kListInt64); }
  void group(const GroupInfo*) {
    add("group", ColumnType::kText);
    add("description", ColumnType::kText);
    add("backend", ColumnType::kText);
  }
  void call_site(const CallSite*) {
    add("file", ColumnType::kText);
    add("line", ColumnType::kInt32);
    add("function", ColumnType::kText);
  }
  void text(const char* name, const std::string&) { add(name, ColumnType::kText); }
  void name(const char* name, const std::string*) { add(name, ColumnType::kText); }
  void tensor(const TensorInfo*) {
    add("name", ColumnType::kText);
    add("kind", ColumnType::kText);
    add("dtype", ColumnType::kText);
    add("shape", ColumnType::kListInt64);
  }
  void bins(const std::vector<record::HistogramBin>&) {
    add("bins", ColumnType::kListUint32);
    add("elements", ColumnType::kListUint64);
  }
  void bytes(const char* name, const std::vector<std::byte>&) { add(name, ColumnType::kBytes); }

  std::vector<ColumnSpec> specs;

 private:
  void add(const char* name, ColumnType type) { specs.push_back({name, type}); }
};

template <typename Row>
void add_columns(std::array<std::vector<ColumnSpec>, kTableCount>& tables) {
  SpecVisitor visitor;
  const Row row;
  Table<Row>::visit(row, visitor);
  tables[static_cast<size_t>(Table<Row>::kId)] = std::move(visitor.specs);
}

Mode parse_mode(std::string_view text) {
  for (uint8_t i = 0; i < record::kModeCount; i++) {
    if (text == mode_name(static_cast<Mode>(i))) return static_cast<Mode>(i);
  }
  return Mode::kGlobal;
}

Kind parse_kind(std::string_view text) {
  for (uint8_t i = 0; i < record::kDefinitionKindCount; i++) {
    if (text == kind_name(static_cast<Kind>(i))) return static_cast<Kind>(i);
  }
  return Kind::kOther;
}

stats::DType parse_dtype(std::string_view text) {
  for (uint8_t i = 0; i < stats::kDTypeCount; i++) {
    if (text == stats::dtype_name(static_cast<stats::DType>(i))) {
      return static_cast<stats::DType>(i);
    }
  }
  return stats::DType::kUint8;
}

std::string_view bytes_of(const std::vector<int64_t>& sizes) {
  return {reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(int64_t)};
}

// Lengths first, so that no two different lists of parts give the same key.
std::string key_of(std::initializer_list<std::string_view> parts) {
  std::string key;
  for (const std::string_view part : parts) {
    key += std::to_string(part.size());
    key += ':';
    key += part;
  }
  return key;
}

}  // namespace

const char* table_name(TableId table) {
  static constexpr std::array<const char*, kTableCount> kNames = {
      "stats",   "histograms", "scalars",  "events",  "model",
      "tensors", "metrics",    "findings", "repairs", "collectives"};
  return kNames[static_cast<size_t>(table)];
}

const std::vector<ColumnSpec>& table_columns(TableId table) {
  static const auto kTables = [] {
    std::array<std::vector<ColumnSpec>, kTableCount> tables;
    add_columns<StatsRow>(tables);
    add_columns<HistogramRow>(tables);
    add_columns<ScalarRow>(tables);
    add_columns<EventRow>(tables);
    add_columns<ModelRow>(tables);
    add_columns<TensorPieceRow>(tables);
    add_columns<MetricRow>(tables);
    add_columns<FindingRow>(tables);
    add_columns<RepairRow>(tables);
    add_columns<CollectiveRow>(tables);
    return tables;
  }();
  return kTables[static_cast<size_t>(table)];
}

void RowAppender::bins(const std::vector<record::HistogramBin>& bins) {
  ColumnBuffer& numbers = *next_++;
  ColumnBuffer& elements = *next_++;
  for (const record::HistogramBin& bin : bins) {
    numbers.append(bin.bin);
    elements.append(bin.elements);
  }
  numbers.end_items(bins.size());
  elements.end_items(bins.size());
}

const std::string* Interner::name(std::string_view name) {
  if (last_name_ != nullptr && last_name_->next != nullptr && last_name_->next->info.name == name) {
    last_name_ = last_name_->next;
    return &last_name_->info.name;
  }
  Node*& node = by_key_[key_of({name})];
  if (node == nullptr) {
    node = &nodes_.emplace_back();
    node->info.name = name;
    node->info.kind = Kind::kScalar;
  }
  if (last_name_ != nullptr) last_name_->next = node;
  last_name_ = node;
  return &node->info.name;
}

const TensorInfo* Interner::tensor(std::string_view name, std::string_view kind,
                                   std::string_view dtype, std::string_view sizes) {
  Node* guess = last_tensor_ == nullptr ? nullptr : last_tensor_->next;
  if (guess != nullptr && guess->info.name == name && guess->kind == kind &&
      guess->dtype == dtype && bytes_of(guess->info.sizes) == sizes) {
    last_tensor_ = guess;
    return &guess->info;
  }
  Node*& node = by_key_[key_of({name, kind, dtype, sizes})];
  if (node == nullptr) {
    node = &nodes_.emplace_back();
    node->kind = kind;
    node->dtype = dtype;
    node->info.name = name;
    node->info.kind = parse_kind(kind);
    node->info.dtype = parse_dtype(dtype);
    node->info.sizes.resize(sizes.size() / sizeof(int64_t));
    if (!sizes.empty()) std::memcpy(node->info.sizes.data(), sizes.data(), sizes.size());
  }
  if (last_tensor_ != nullptr) last_tensor_->next = node;
  last_tensor_ = node;
  return &node->info;
}

const GroupInfo* Interner::group(std::string_view name, std::string_view description,
                                 std::string_view backend) {
  Group*& group = group_by_name_[std::string(name)];
  if (group == nullptr) {
    group = &groups_.emplace_back();
    group->info.name = name;
  }
  if (group->info.description.empty()) group->info.description = description;
  if (group->info.backend.empty()) group->info.backend = backend;
  return &group->info;
}

bool Interner::tell_group(std::string_view json) {
  const Result<Json> event = parse_json(json, "process_group event");
  if (!event.ok() || !event->is_object() || string_or(*event, "name", "").empty()) return false;
  Group*& group = group_by_name_[string_or(*event, "name", "")];
  // Another group of the same name follows one that was destroyed.
  if (group == nullptr || group->told) group = &groups_.emplace_back();
  group->told = true;
  GroupInfo& info = group->info;
  info.name = string_or(*event, "name", "");
  info.description = string_or(*event, "description", "");
  info.backend = string_or(*event, "backend", "");
  info.timeout_s = number_or(*event, "timeout_s", 0);
  auto ranks = ranks_of(event->value("ranks", Json()));
  if (!ranks) ranks.emplace();
  info.ranks =
      members_ == nullptr ? Members(std::move(*ranks)) : members_->share(*std::move(ranks));
  return true;
}

const CallSite* Interner::call_site(std::string_view file, int32_t line,
                                    std::string_view function) {
  const auto [site, is_new] =
      call_sites_.try_emplace(key_of({file, function, std::to_string(line)}));
  if (is_new) site->second = {std::string(file), line, std::string(function)};
  return &site->second;
}

void RowLoader::dtype(const char*, stats::DType& value) {
  value = parse_dtype((next_++)->text(row_));
}

void RowLoader::sizes(const char*, std::vector<int64_t>& value) {
  const ColumnView& column = *next_++;
  const auto* begin = column.items_begin<int64_t>(row_);
  value.assign(begin, begin + column.items(row_));
}

void RowLoader::group(const GroupInfo*& info) {
  info = interner_.group(next_[0].text(row_), next_[1].text(row_), next_[2].text(row_));
  next_ += 3;
}

void RowLoader::call_site(const CallSite*& where) {
  const std::string_view file = next_[0].text(row_);
  const auto line = next_[1].value<int32_t>(row_);
  const std::string_view function = next_[2].text(row_);
  next_ += 3;
  where = file.empty() && line == 0 ? nullptr : interner_.call_site(file, line, function);
}

void RowLoader::mode(const char*, Mode& value) { value = parse_mode((next_++)->text(row_)); }

void RowLoader::tensor(const TensorInfo*& info) {
  const ColumnView& sizes = next_[3];
  const std::string_view size_bytes = {
      reinterpret_cast<const char*>(sizes.values) + sizes.offsets[row_] * sizeof(int64_t),
      sizes.items(row_) * sizeof(int64_t)};
  info =
      interner_.tensor(next_[0].text(row_), next_[1].text(row_), next_[2].text(row_), size_bytes);
  next_ += 4;
}

void RowLoader::bins(std::vector<record::HistogramBin>& bins) {
  const ColumnView& numbers = next_[0];
  const ColumnView& elements = next_[1];
  next_ += 2;
  bins.resize(std::min(numbers.items(row_), elements.items(row_)));
  const auto* number = numbers.items_begin<uint32_t>(row_);
  const auto* element = elements.items_begin<uint64_t>(row_);
  for (size_t i = 0; i < bins.size(); i++) bins[i] = {number[i], 0, element[i]};
}

void RowLoader::bytes(const char*, std::vector<std::byte>& value) {
  const ColumnView& column = *next_++;
  const std::byte* begin = column.values + column.offsets[row_];
  value.assign(begin, begin + column.items(row_));
}

}  // namespace paramedic::store
