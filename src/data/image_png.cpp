#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "data/image_decode.h"

namespace tr {
namespace {

struct Source {
  std::span<const uint8_t> left;
  std::array<char, 160> reason{};
};

[[noreturn]] void leave(png_structp png, png_const_charp text) {
  auto& reason = static_cast<Source*>(png_get_error_ptr(png))->reason;
  std::strncpy(reason.data(), text, reason.size() - 1);
  png_longjmp(png, 1);
}

void pass_over(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep out, size_t count) {
  Source& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.left.size()) png_error(png, "the file is cut short");
  std::copy_n(source.left.begin(), count, out);
  source.left = source.left.subspan(count);
}

class PngReader {
 public:
  explicit PngReader(std::span<const uint8_t> bytes) : source_{bytes} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, leave, pass_over);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Nothing with a destructor may live in a function that is left by longjmp.
  bool start() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &source_, take);
    png_read_info(png_, info_);
    const int color = png_get_color_type(png_, info_), depth = png_get_bit_depth(png_, info_);
    keeps_16_bits_ = color == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (depth == 16 && !keeps_16_bits_) png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(uint8_t** rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  bool keeps_16_bits() const { return keeps_16_bits_; }
  std::string reason() const { return info_ == nullptr ? "libpng cannot start" : source_.reason.data(); }

 private:
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  bool keeps_16_bits_ = false;
};

}  // namespace

bool is_png(std::span<const uint8_t> bytes) {
  constexpr size_t SIGNATURE_BYTES = 8;
  return bytes.size() >= SIGNATURE_BYTES && png_sig_cmp(bytes.data(), 0, SIGNATURE_BYTES) == 0;
}

std::string decode_png(std::span<const uint8_t> bytes, DecodedImage& image) {
  PngReader reader(bytes);
  if (!reader.start()) return reader.reason();
  image.height = reader.height();
  image.width = reader.width();
  if (std::string mistake = size_mistake(image.height, image.width); !mistake.empty()) return mistake;
  image.layout = reader.channels() == 1 ? PixelLayout::GRAY : PixelLayout::RGB;
  image.pixels.resize(reader.row_bytes() * static_cast<size_t>(image.height));
  std::vector<uint8_t*> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * reader.row_bytes();
  if (!reader.read_rows(rows.data())) return reader.reason();
  if (reader.keeps_16_bits()) {  // Pillow clips them
    const size_t count = image.pixels.size() / 2;
    for (size_t i = 0; i < count; ++i)
      image.pixels[i] = image.pixels[2 * i] != 0 ? uint8_t{255} : image.pixels[2 * i + 1];
    image.pixels.resize(count);
  }
  return "";
}

}  // namespace tr
