#pragma once
// Reads the plain data of a Python pickle: None, booleans, numbers, text, lists, tuples, sets and
// dicts. Nothing is ever executed or looked up: an opcode that would import or call something is
// an error that names it. Pure, any thread.

#include "base/file.h"
#include "base/json.h"

namespace paramedic::cluster {

constexpr size_t kPickleDepthMax = 64;          // of values within values
constexpr size_t kPickleValuesMax = 5'000'000;  // shared ones counted at each place

// Whether `bytes` begin as a pickle of protocol 2 or newer does.
bool looks_like_pickle(Bytes bytes);

// The value as JSON: tuples and sets become arrays; keys of a dict become text; of numbers that no
// int64_t holds the low 64 bits are kept. kCorruption: cut, damaged, or deeper or larger than the
// limits, with the offset; kUnsupported: it holds more than plain data.
Result<Json> parse_pickle(Bytes bytes);

}  // namespace paramedic::cluster
