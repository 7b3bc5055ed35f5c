#pragma once
// Decompression as a ByteSource over another one: gzip, zstd, xz, told by their magic bytes. A
// stream that is cut gives what it holds; a damaged one is an error.

#include <memory>
#include <string_view>

#include "diagnose/input.h"

namespace paramedic::diagnose {

enum class Compression : uint8_t { kNone, kGzip, kZstd, kXz };

Compression compression_of(std::string_view first_bytes);

// `path` names the stream in errors.
Result<std::unique_ptr<ByteSource>> decompress(Compression compression,
                                               std::unique_ptr<ByteSource> packed,
                                               std::string path);

}  // namespace paramedic::diagnose
