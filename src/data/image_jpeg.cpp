#include <cstddef>
#include <cstdio>
// needs <cstdio> before it
#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <csetjmp>

#include "data/image_decode.h"

namespace tr {
namespace {

struct ErrorManager {
  jpeg_error_mgr base{};  // first: libjpeg hands out its address
  std::jmp_buf leave{};
  std::array<char, JMSG_LENGTH_MAX> text{};
  bool is_damaged = false;
};

ErrorManager& manager(j_common_ptr info) { return *reinterpret_cast<ErrorManager*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  ErrorManager& errors = manager(info);
  errors.base.format_message(info, errors.text.data());
  std::longjmp(errors.leave, 1);
}

/// Warnings that leave every pixel as it was meant.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
}

/// libjpeg goes on with pixels of its own after a warning; here the first one condemns the file.
void note(j_common_ptr info, int level) {
  ErrorManager& errors = manager(info);
  if (level >= 0 || errors.is_damaged || is_harmless(errors.base.msg_code)) return;
  errors.base.format_message(info, errors.text.data());
  errors.is_damaged = true;
}

class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = note;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Nothing with a destructor may live in a function that is left by longjmp.
  bool start(std::span<const uint8_t> bytes) {
    if (setjmp(errors_.leave) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    if (info_.num_components == 4) info_.out_color_space = JCS_CMYK;
    if (info_.num_components == 3) info_.out_color_space = JCS_RGB;
    jpeg_calc_output_dimensions(&info_);
    return true;
  }

  bool read_rows(uint8_t* pixels) {
    if (setjmp(errors_.leave) != 0) return false;
    jpeg_start_decompress(&info_);
    const size_t row_bytes = size_t{info_.output_width} * static_cast<size_t>(info_.output_components);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    return !errors_.is_damaged;
  }

  int64_t height() const { return info_.output_height; }
  int64_t width() const { return info_.output_width; }
  int channels() const { return info_.out_color_components; }
  std::string reason() const { return errors_.text.data(); }

 private:
  jpeg_decompress_struct info_{};
  ErrorManager errors_;
};

}  // namespace

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

std::string decode_jpeg(std::span<const uint8_t> bytes, DecodedImage& image) {
  JpegReader reader;
  if (!reader.start(bytes)) return reader.reason();
  image.height = reader.height();
  image.width = reader.width();
  if (std::string mistake = size_mistake(image.height, image.width); !mistake.empty()) return mistake;
  const int channels = reader.channels();
  if (channels != 1 && channels != 3 && channels != 4)
    return "it has " + std::to_string(channels) + " channels";
  image.layout = channels == 1 ? PixelLayout::GRAY : channels == 3 ? PixelLayout::RGB : PixelLayout::CMYK;
  image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  if (!reader.read_rows(image.pixels.data())) return reader.reason();
  if (image.layout == PixelLayout::CMYK)  // as Adobe stores it, which everyone else copied
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(255 - value);
  return "";
}

}  // namespace tr
