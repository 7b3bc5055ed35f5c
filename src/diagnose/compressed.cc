#include "diagnose/compressed.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <utility>
#include <vector>

namespace paramedic::diagnose {
namespace {

constexpr size_t kPackedBytes = size_t{256} * 1024;
constexpr uint64_t kXzMemoryMax = uint64_t{256} << 20;

// What the three decoders have in common: a buffer of packed bytes, refilled when it is used up.
class Unpacker : public ByteSource {
 public:
  Unpacker(std::unique_ptr<ByteSource> packed, std::string path)
      : packed_(std::move(packed)), path_(std::move(path)), buffer_(kPackedBytes) {}

  Result<size_t> read(std::span<char> to) final {
    while (!done_) {
      if (begin_ == end_ && !packed_end_) {
        PARAMEDIC_ASSIGN(const size_t bytes, packed_->read(buffer_));
        begin_ = 0;
        end_ = bytes;
        packed_end_ = bytes == 0;
      }
      PARAMEDIC_ASSIGN(const size_t made, unpack(to));
      if (made > 0) return made;
      // Nothing left to give in: the stream is complete, or it was cut while being written.
      if (packed_end_) done_ = true;
    }
    return size_t{0};
  }

 protected:
  // Moves on in [begin_, end_) and returns how many bytes it made. Sets done_ at the end.
  virtual Result<size_t> unpack(std::span<char> to) = 0;
  [[nodiscard]] Status damaged(const char* format, const char* why) const {
    return corruption(path_ + ": damaged " + format + " data: " + why);
  }

  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool packed_end_ = false;
  bool done_ = false;
};

class Gunzip : public Unpacker {
 public:
  using Unpacker::Unpacker;
  ~Gunzip() override {
    if (open_) inflateEnd(&stream_);
  }

 protected:
  Result<size_t> unpack(std::span<char> to) override {
    constexpr int kGzipOrZlib = 15 + 32;
    if (!open_ && inflateInit2(&stream_, kGzipOrZlib) != Z_OK) {
      return exhausted(path_ + ": no memory to decompress it");
    }
    open_ = true;
    if (begin_ == end_) return size_t{0};
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data() + begin_);
    stream_.avail_in = static_cast<uInt>(end_ - begin_);
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    // Rotated logs are often several members one after the other.
    if (code == Z_STREAM_END) {
      inflateReset(&stream_);
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return damaged("gzip", stream_.msg == nullptr ? "unknown" : stream_.msg);
    }
    return to.size() - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool open_ = false;
};

class Unzstd : public Unpacker {
 public:
  Unzstd(std::unique_ptr<ByteSource> packed, std::string path)
      : Unpacker(std::move(packed), std::move(path)), stream_(ZSTD_createDStream()) {}
  ~Unzstd() override { ZSTD_freeDStream(stream_); }

 protected:
  Result<size_t> unpack(std::span<char> to) override {
    if (stream_ == nullptr) return exhausted(path_ + ": no memory to decompress it");
    ZSTD_inBuffer in{buffer_.data(), end_, begin_};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const size_t code = ZSTD_decompressStream(stream_, &out, &in);
    begin_ = in.pos;
    if (ZSTD_isError(code) != 0) return damaged("zstd", ZSTD_getErrorName(code));
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
};

class Unxz : public Unpacker {
 public:
  using Unpacker::Unpacker;
  ~Unxz() override { lzma_end(&stream_); }

 protected:
  Result<size_t> unpack(std::span<char> to) override {
    if (!open_ && lzma_stream_decoder(&stream_, kXzMemoryMax, LZMA_CONCATENATED) != LZMA_OK) {
      return exhausted(path_ + ": no memory to decompress it");
    }
    open_ = true;
    stream_.next_in = reinterpret_cast<uint8_t*>(buffer_.data() + begin_);
    stream_.avail_in = end_ - begin_;
    stream_.next_out = reinterpret_cast<uint8_t*>(to.data());
    stream_.avail_out = to.size();
    const lzma_ret code = lzma_code(&stream_, packed_end_ ? LZMA_FINISH : LZMA_RUN);
    begin_ = end_ - stream_.avail_in;
    if (code == LZMA_STREAM_END) {
      done_ = true;
    } else if (code == LZMA_MEMLIMIT_ERROR) {
      return exhausted(path_ + ": decompressing it takes more than 256 MiB");
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR) {
      return damaged("xz", "the decoder refuses it");
    }
    return to.size() - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool open_ = false;
};

}  // namespace

Compression compression_of(std::string_view first_bytes) {
  using namespace std::string_view_literals;
  if (first_bytes.starts_with("\x1f\x8b"sv)) return Compression::kGzip;
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd"sv)) return Compression::kZstd;
  if (first_bytes.starts_with("\xfd"
                              "7zXZ\0"sv)) {
    return Compression::kXz;
  }
  return Compression::kNone;
}

Result<std::unique_ptr<ByteSource>> decompress(Compression compression,
                                               std::unique_ptr<ByteSource> packed,
                                               std::string path) {
  switch (compression) {
    case Compression::kGzip:
      return {std::make_unique<Gunzip>(std::move(packed), std::move(path))};
    case Compression::kZstd:
      return {std::make_unique<Unzstd>(std::move(packed), std::move(path))};
    case Compression::kXz:
      return {std::make_unique<Unxz>(std::move(packed), std::move(path))};
    case Compression::kNone:
      return packed;
  }
  return packed;
}

}  // namespace paramedic::diagnose
