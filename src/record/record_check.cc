#include "record/record_check.h"

#include <cstring>

#include "base/crc32c.h"

namespace paramedic::record {
namespace {

constexpr uint64_t kCrcStart = offsetof(RecordHeader, crc) + sizeof(RecordHeader::crc);

template <typename T>
T load(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// `count` items of type T that fill `payload`; the payload of a record is aligned to 8.
template <typename T>
bool take_items(Bytes payload, uint32_t count, std::span<const T>* items) {
  static_assert(sizeof(T) % kRecordAlignment == 0 && alignof(T) <= kRecordAlignment);
  if (count == 0 || payload.size() != uint64_t{count} * sizeof(T)) return false;
  *items = {reinterpret_cast<const T*>(payload.data()), count};
  return true;
}

bool is_sound(const StatsItem& item) {
  const stats::TensorStats& s = item.stats;
  // One by one, so that no sum of hostile numbers can wrap.
  if (s.nan > s.count || s.positive_inf > s.count - s.nan ||
      s.negative_inf > s.count - s.nan - s.positive_inf) {
    return false;
  }
  return s.zero <= s.finite() && s.negative <= s.finite() - s.zero && item.outside <= s.count &&
         item.units_dead <= item.units && item.units_frozen <= item.units;
}

std::string check_stats(Bytes payload, uint32_t count, uint64_t definitions, Record* record) {
  if (!take_items(payload, count, &record->stats)) return "wrong number of statistics";
  for (const StatsItem& item : record->stats) {
    if (item.id >= definitions) return "statistics of an unknown tensor";
    if (!is_sound(item)) return "statistics that contradict themselves";
  }
  return {};
}

std::string check_scalars(Bytes payload, uint32_t count, uint64_t definitions, Record* record) {
  if (!take_items(payload, count, &record->scalars)) return "wrong number of scalars";
  for (const ScalarItem& item : record->scalars) {
    if (item.id >= definitions) return "value of an unknown scalar";
  }
  return {};
}

std::string check_event(Bytes payload, Record* record) {
  if (payload.size() < sizeof(EventItem)) return "event without a header";
  const auto item = load<EventItem>(payload);
  if (item.kind_bytes == 0 || item.kind_bytes > kEventKindBytesMax ||
      item.json_bytes > kEventJsonBytesMax ||
      payload.size() != padded(sizeof item + item.kind_bytes + item.json_bytes)) {
    return "event of a wrong size";
  }
  const auto* text = reinterpret_cast<const char*>(payload.data()) + sizeof item;
  record->event_kind = {text, item.kind_bytes};
  record->event_json = {text + item.kind_bytes, item.json_bytes};
  return {};
}

std::string check_histogram(Bytes payload, uint32_t count, uint64_t definitions, Record* record) {
  if (payload.size() < sizeof(HistogramItem)) return "histogram without a header";
  const auto item = load<HistogramItem>(payload);
  if (item.id >= definitions) return "histogram of an unknown tensor";
  record->id = item.id;
  const Bytes bins = payload.subspan(sizeof item);
  // No bins: every element is NaN or infinite, or there is none.
  if (count == 0 && bins.empty()) return {};
  if (!take_items(bins, count, &record->bins)) return "wrong number of bins";
  for (const HistogramBin& bin : record->bins) {
    if (bin.bin >= stats::Histogram::kBins) return "unknown bin";
  }
  return {};
}

std::string check_tensor(Bytes payload, uint64_t definitions, Record* record) {
  if (payload.size() < sizeof(TensorItem)) return "tensor without a header";
  const auto item = load<TensorItem>(payload);
  if (item.id >= definitions) return "values of an unknown tensor";
  if (payload.size() != padded(sizeof item + uint64_t{item.piece_bytes}) ||
      item.piece_bytes > item.total_bytes ||
      item.offset_bytes > item.total_bytes - item.piece_bytes) {
    return "piece of a tensor of a wrong size";
  }
  record->id = item.id;
  record->total_bytes = item.total_bytes;
  record->offset_bytes = item.offset_bytes;
  record->piece = payload.subspan(sizeof item, item.piece_bytes);
  return {};
}

std::string check_entered(Bytes payload, uint32_t count, uint64_t definitions, Record* record) {
  if (payload.size() < sizeof(CollectiveItem)) return "collective without a header";
  const auto item = load<CollectiveItem>(payload);
  if (item.group >= definitions || item.operation >= definitions ||
      (item.where >= definitions && item.where != kNoDefinition)) {
    return "collective with an unknown name";
  }
  if (item.number < 0 || item.peer < -1 || item.dtype >= stats::kDTypeCount ||
      item.asynchronous > 1) {
    return "collective with a number out of range";
  }
  record->collective = item;
  const Bytes sizes = payload.subspan(sizeof item);
  if (count == 0 && sizes.empty()) return {};
  if (count > stats::kMaxDims || !take_items(sizes, count, &record->sizes)) {
    return "wrong number of sizes";
  }
  for (const int64_t size : record->sizes) {
    if (size < 0) return "collective with a negative size";
  }
  return {};
}

std::string check_left(Bytes payload, uint64_t definitions, Record* record) {
  if (payload.size() != sizeof(CollectiveLeftItem)) return "end of a collective of a wrong size";
  record->left = load<CollectiveLeftItem>(payload);
  if (record->left.group >= definitions) return "end of a collective of an unknown group";
  if (record->left.number < 0) return "end of a collective with a number out of range";
  return {};
}

}  // namespace

Found find_record(Bytes rest, bool ends_ring) {
  if (rest.size() < kCrcStart) return {Found::kDamaged, 0, "no room for a record"};
  const auto bytes = load<uint32_t>(rest);
  const auto crc = load<uint32_t>(rest.subspan(sizeof bytes));
  const bool fills = ends_ring && bytes == rest.size();
  if (bytes < sizeof(RecordHeader)) {
    if (fills && crc == crc32c(&bytes, sizeof bytes)) return {Found::kPadding, bytes, {}};
    if (!ends_ring) return {Found::kCut, bytes, {}};  // padding, perhaps: look again from here
    return {Found::kDamaged, 0, "record of " + std::to_string(bytes) + " bytes"};
  }
  if (bytes % kRecordAlignment != 0 || bytes > kRecordBytesMax) {
    return {Found::kDamaged, 0, "record of " + std::to_string(bytes) + " bytes"};
  }
  if (bytes > rest.size()) {
    if (!ends_ring) return {Found::kCut, bytes, {}};
    return {Found::kDamaged, 0, "record that crosses the end of the ring"};
  }
  const auto header = load<RecordHeader>(rest);
  if (fills && header.type == static_cast<uint16_t>(RecordType::kPadding)) {
    if (crc == crc32c(rest.data() + kCrcStart, sizeof header - kCrcStart)) {
      return {Found::kPadding, bytes, {}};
    }
  } else if (crc == crc32c(rest.data() + kCrcStart, bytes - kCrcStart)) {
    return {Found::kRecord, bytes, {}};
  }
  return {Found::kDamaged, 0, "checksum mismatch"};
}

std::string check_record(Bytes bytes, uint64_t definitions, Record* record) {
  const auto header = load<RecordHeader>(bytes);
  if (header.mode >= kModeCount) return "unknown mode " + std::to_string(header.mode);
  if (header.step < -1) return "step " + std::to_string(header.step);
  record->type = static_cast<RecordType>(header.type);
  record->mode = static_cast<Mode>(header.mode);
  record->sequence = header.sequence;
  record->time_ns = header.time_ns;
  record->step = header.step;
  const Bytes payload = bytes.subspan(sizeof header);
  switch (record->type) {
    case RecordType::kStats:
      return check_stats(payload, header.count, definitions, record);
    case RecordType::kScalars:
      return check_scalars(payload, header.count, definitions, record);
    case RecordType::kEvent:
      return check_event(payload, record);
    case RecordType::kHistogram:
      return check_histogram(payload, header.count, definitions, record);
    case RecordType::kTensor:
      return check_tensor(payload, definitions, record);
    case RecordType::kCollectiveEntered:
      return check_entered(payload, header.count, definitions, record);
    case RecordType::kCollectiveLeft:
      return check_left(payload, definitions, record);
    case RecordType::kPadding:
      break;
  }
  return "unknown type of record " + std::to_string(header.type);
}

std::string check_definition(Bytes bytes, uint64_t id, Definition* definition) {
  const auto header = load<RecordHeader>(bytes);
  const Bytes payload = bytes.subspan(sizeof header);
  if (header.type != kDefinitionType || header.sequence != id ||
      payload.size() < sizeof(DefinitionItem)) {
    return "not the definition of number " + std::to_string(id);
  }
  const auto item = load<DefinitionItem>(payload);
  if (item.kind >= kDefinitionKindCount || item.dtype >= stats::kDTypeCount ||
      item.ndim > stats::kMaxDims || item.name_bytes > kNameBytesMax ||
      payload.size() != padded(sizeof item + item.name_bytes)) {
    return "a number in definition " + std::to_string(id) + " is out of range";
  }
  definition->kind = static_cast<Kind>(item.kind);
  definition->dtype = static_cast<stats::DType>(item.dtype);
  definition->sizes.assign(item.sizes, item.sizes + item.ndim);
  for (const int64_t size : definition->sizes) {
    if (size < 0) return "a size in definition " + std::to_string(id) + " is negative";
  }
  definition->name.assign(reinterpret_cast<const char*>(payload.data()) + sizeof item,
                          item.name_bytes);
  return {};
}

}  // namespace paramedic::record
