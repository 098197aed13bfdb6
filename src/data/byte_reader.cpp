#include "data/byte_reader.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "renaissance/core/error.h"

namespace tr {
namespace {

constexpr std::array<uint8_t, 2> GZIP_MAGIC{0x1f, 0x8b};

std::string reason(int code) { return std::generic_category().message(code); }

}  // namespace

ByteReader::ByteReader(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  TR_CHECK(!std::filesystem::is_directory(path, ignored), IoError,
           cat(path.string(), ": is a directory; expected a file"));
  file_.reset(std::fopen(path.c_str(), "rb"));
  TR_CHECK(file_ != nullptr, IoError, cat(path.string(), ": cannot open: ", reason(errno)));
  refill();
  gzip_ =
      input_.size() >= GZIP_MAGIC.size() && std::equal(GZIP_MAGIC.begin(), GZIP_MAGIC.end(), input_.begin());
  if (!gzip_) return;
  constexpr int GZIP_ONLY = 16;
  TR_CHECK(inflateInit2(&stream_, GZIP_ONLY + MAX_WBITS) == Z_OK, IoError,
           cat(path.string(), ": zlib could not start"));
  member_open_ = true;
}

ByteReader::~ByteReader() {
  if (gzip_) inflateEnd(&stream_);
}

size_t ByteReader::read_file(std::span<uint8_t> out) {
  errno = 0;
  const size_t got = std::fread(out.data(), 1, out.size(), file_.get());
  TR_CHECK(std::ferror(file_.get()) == 0, IoError, cat(path_.string(), ": cannot read: ", reason(errno)));
  return got;
}

bool ByteReader::refill() {
  if (input_.empty()) input_ = std::span(buffer_).first(read_file(buffer_));
  return !input_.empty();
}

size_t ByteReader::read(std::span<uint8_t> out) {
  if (gzip_) return inflate_into(out);
  const size_t buffered = std::min(out.size(), input_.size());
  std::copy_n(input_.begin(), buffered, out.begin());
  input_ = input_.subspan(buffered);
  return buffered + (buffered < out.size() ? read_file(out.subspan(buffered)) : 0);
}

size_t ByteReader::inflate_into(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (!refill()) {
      TR_CHECK(!member_open_, DataError,
               cat(path_.string(), ": the gzip stream is truncated after ", stream_.total_out,
                   " bytes of data; copy or download the file again"));
      return done;
    }
    if (!member_open_) {
      TR_CHECK(input_.front() == GZIP_MAGIC.front(), DataError,
               cat(path_.string(), ": bytes that are not gzip follow the gzip stream"));
      inflateReset(&stream_);
      member_open_ = true;
    }
    const size_t room = std::min<size_t>(out.size() - done, std::numeric_limits<uInt>::max());
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(input_.size());
    stream_.next_out = out.data() + done;
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    TR_CHECK(status == Z_OK || status == Z_STREAM_END, DataError,
             cat(path_.string(), ": the gzip stream is damaged after ", stream_.total_out, " bytes of data: ",
                 stream_.msg != nullptr ? stream_.msg : zError(status), "; copy or download the file again"));
    input_ = input_.last(stream_.avail_in);
    done += room - stream_.avail_out;
    if (status == Z_STREAM_END) member_open_ = false;
  }
  return done;
}

}  // namespace tr
