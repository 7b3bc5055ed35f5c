// The format pages and small parts: what docs/formats/run-folder.md shows is what is written.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "base/crc32c.h"
#include "store/export.h"
#include "store/segment_format.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

std::string format_page() { return read_file(PARAMEDIC_SOURCE_DIR "/docs/formats/run-folder.md"); }

// The bytes in the page's block that begins with ```hex and this title.
std::string bytes_in_page(const std::string& title) {
  const std::string page = format_page();
  const size_t start = page.find("```hex " + title);
  if (start == std::string::npos) return "no block " + title;
  size_t at = page.find('\n', start) + 1;
  const size_t end = page.find("```", at);
  std::string bytes;
  while (at < end) {
    const size_t line_end = page.find('\n', at);
    // "0000  50 4d …  what it is": the offset, then pairs of digits, then two spaces.
    const std::string line = page.substr(at, line_end - at);
    for (size_t i = 6; i + 1 < line.size() && line[i] != ' '; i += 3) {
      bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    }
    at = line_end + 1;
  }
  return bytes;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x} ", static_cast<unsigned char>(byte));
  return text;
}

TEST(Format, the_index_in_the_page_is_what_is_written) {
  IndexHeader header;
  header.table = static_cast<uint32_t>(TableId::kScalars);
  header.rank = 1;
  header.segment = 2;
  EXPECT_EQ(hex(bytes_in_page("header")), hex(encode(header)));
  IndexEntry entry;
  entry.offset = 512;
  entry.bytes = 1000;
  entry.ring_id = 0x0123456789abcdef;
  entry.first_sequence = 40;
  entry.last_sequence = 41;
  entry.first_time_ns = 1'796'000'000'250'000'000;
  entry.min_step = 10;
  entry.max_step = 11;
  entry.rows = 3;
  entry.message_crc = crc32c("123456789", 9);
  EXPECT_EQ(hex(bytes_in_page("entry")), hex(encode(entry)));
}

const char* type_name(ColumnType type) {
  switch (type) {
    case ColumnType::kTime:
      return "timestamp[ns, UTC]";
    case ColumnType::kInt32:
      return "int32";
    case ColumnType::kInt64:
      return "int64";
    case ColumnType::kUint32:
      return "uint32";
    case ColumnType::kUint64:
      return "uint64";
    case ColumnType::kFloat64:
      return "float64";
    case ColumnType::kText:
      return "utf8";
    case ColumnType::kBytes:
      return "binary";
    case ColumnType::kListInt64:
      return "list<int64>";
    case ColumnType::kListUint32:
      return "list<uint32>";
    case ColumnType::kListUint64:
      return "list<uint64>";
  }
  return "";
}

TEST(Format, the_page_has_every_column_of_every_table_in_order) {
  const std::string page = format_page();
  for (size_t i = 0; i < kTableCount; i++) {
    const auto table = static_cast<TableId>(i);
    size_t at = page.find(fmt::format("\n### {}\n", table_name(table)));
    ASSERT_NE(at, std::string::npos) << table_name(table);
    const size_t end = std::min(page.find("\n### ", at + 1), page.find("\n## ", at + 1));
    for (const ColumnSpec& spec : table_columns(table)) {
      const std::string line = fmt::format("\n| {} | {} |", spec.name, type_name(spec.type));
      at = page.find(line, at);
      EXPECT_LT(at, end) << table_name(table) << line;
      if (at >= end) break;
    }
  }
}

TEST(Format, segment_names_are_parsed_strictly) {
  EXPECT_EQ((SegmentName{3, 12}.stem()), "rank-3-000012");
  EXPECT_EQ(SegmentName::parse("rank-3-000012.idx", kIndexEnding), (SegmentName{3, 12}));
  for (const char* name : {"rank-3.idx", "rank-3-.idx", "rank--1.idx", "rank-a-1.idx", "3-1.idx",
                           "rank-3-1.idx.tmp", "rank-3-99999999999.idx", "rank-3-1x.idx"}) {
    EXPECT_FALSE(SegmentName::parse(name, kIndexEnding)) << name;
  }
}

TEST(Utf8, well_formed_text_stays_and_every_other_byte_is_replaced) {
  const std::string bad = "\xef\xbf\xbd";
  for (const char* text : {"", "a", "größe", "日本", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(valid_utf8(text), text);
  }
  EXPECT_EQ(valid_utf8("a\xffz"), "a" + bad + "z");
  EXPECT_EQ(valid_utf8("\xc3"), bad) << "cut off";
  EXPECT_EQ(valid_utf8("\xc0\x80"), bad + bad) << "overlong";
  EXPECT_EQ(valid_utf8("\xe0\x80\x80"), bad + bad + bad) << "overlong";
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), bad + bad + bad + bad) << "above U+10FFFF";
}

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    const auto writer =
        RunWriter::create(posix_file_system(), example_info(dir()), WriterOptions(), real_clock())
            .value();
    RandomRows rows(6);
    rows.write(*writer, written_, 400);
    EXPECT_TRUE(writer->seal().ok());
  }
  [[nodiscard]] std::string dir() const { return folder_.path() + "/run"; }
  [[nodiscard]] std::string out() const { return folder_.path() + "/out"; }

  TemporaryFolder folder_;
  RowLog written_;
};

TEST_F(ExportTest, csv_and_parquet_hold_the_same_rows_for_other_readers) {
  const std::string python = PARAMEDIC_SOURCE_DIR "/.venv/bin/python";
  if (!posix_file_system().exists(python)) GTEST_SKIP() << "no " << python;
  ASSERT_TRUE(export_run(dir(), "csv", out()).ok());
  ASSERT_TRUE(export_run(dir(), "parquet", out()).ok());
  std::string expected;
  for (size_t i = 0; i < kTableCount; i++) {
    const auto table = static_cast<TableId>(i);
    expected += fmt::format("{} {}\n", table_name(table), written_.tables[table].size());
  }
  write_file(
      folder_.path() + "/check.py",
      "import csv, sys, pyarrow.parquet as pq\n"
      "csv.field_size_limit(1 << 30)\n"
      "for name in sys.argv[2:]:\n"
      "    t = pq.read_table(f'{sys.argv[1]}/{name}.parquet')\n"
      "    t.validate(full=True)\n"
      "    rows = list(csv.DictReader(open(f'{sys.argv[1]}/{name}.csv', newline='')))\n"
      "    assert len(rows) == t.num_rows, name\n"
      "    for column in t.column_names:\n"
      "        for row, value in zip(rows, t[column].cast('string').to_pylist()\n"
      "                if str(t.schema.field(column).type) in ('string', 'int64', 'uint64')\n"
      "                else []):\n"
      "            assert row[column] == value, (name, column, row[column], value)\n"
      "        if str(t.schema.field(column).type) == 'double':\n"
      "            for row, value in zip(rows, t[column].to_pylist()):\n"
      "                assert repr(float(row[column])) == repr(value), (name, column)\n"
      "    print(name, t.num_rows)\n");
  std::string command = python + " " + folder_.path() + "/check.py " + out();
  for (size_t i = 0; i < kTableCount; i++) {
    command += std::string(" ") + table_name(static_cast<TableId>(i));
  }
  // NOLINTNEXTLINE(bugprone-command-processor): a test, with a command of its own
  ASSERT_EQ(std::system((command + " > " + folder_.path() + "/log").c_str()), 0);
  EXPECT_EQ(read_file(folder_.path() + "/log"), expected);
}

TEST_F(ExportTest, nothing_is_ever_overwritten) {
  std::filesystem::create_directories(out());
  write_file(out() + "/metrics.csv", "mine");
  const Status status = export_run(dir(), "csv", out());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("metrics.csv"), std::string::npos);
  EXPECT_EQ(posix_file_system().list(out()).value(), std::vector<std::string>{"metrics.csv"});
  EXPECT_EQ(read_file(out() + "/metrics.csv"), "mine");
}

TEST_F(ExportTest, an_unknown_format_is_a_usage_error_that_names_the_known_ones) {
  const Status status = export_run(dir(), "xlsx", out());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.hint().find("parquet"), std::string::npos);
}

TEST_F(ExportTest, csv_quotes_what_needs_it) {
  const std::string plain = folder_.path() + "/plain";
  RunInfo info = example_info(plain);
  const auto writer =
      RunWriter::create(posix_file_system(), info, WriterOptions(), real_clock()).value();
  writer->on_metric({1'796'000'000'250'000'001, 7, "a \"b\", c", -0.5});
  ASSERT_TRUE(writer->seal().ok());
  ASSERT_TRUE(export_run(plain, "csv", out()).ok());
  EXPECT_EQ(read_file(out() + "/metrics.csv"),
            "time,pid,name,value\r\n2026-11-30T00:53:20.250000001Z,7,\"a \"\"b\"\", c\",-0.5\r\n");
}

}  // namespace
}  // namespace paramedic::store
