#pragma once
// A run as files for other tools. One thread.

#include <string>

#include "base/status.h"

namespace paramedic::store {

// Writes DESTINATION/TABLE.csv or .parquet for each table of the run in `run_dir`, columns as in
// docs/formats/run-folder.md. The folder is made when it is missing; when one of the files exists
// already nothing is written and the answer is kInvalidArgument, as for an unknown `format`.
// Damaged batches are left out and named on stderr. "perfetto" writes the one file DESTINATION
// instead (perfetto_file.h).
//
// CSV (RFC 4180): times as ISO 8601 in UTC with nanoseconds, numbers so that they read back the
// same, lists as "[64, 3]", bytes as hexadecimal digits.
Status export_run(const std::string& run_dir, const std::string& format,
                  const std::string& destination);

}  // namespace paramedic::store
