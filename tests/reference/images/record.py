#!/usr/bin/env python3
"""Writes small JPEG and PNG files of every kind and images.json: what Pillow makes of them, and of resizing.

Needs Pillow, NumPy and torchvision.
"""
import io
import json
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image
from torchvision.transforms import functional as F

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from fill import fill, recorded  # noqa: E402

WIDTH, HEIGHT = 7, 5


def bytes_of(shape, salt):
    """uint8 pixels that the tests make too: (fill + 0.5) * 256, rounded down."""
    return ((fill(shape, salt).astype(np.float64) + 0.5) * 256).astype(np.uint8)


def smooth(channels):
    """A picture that JPEG does not distort much."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = [(40 + 25 * x + 10 * y + 50 * c) % 256 for c in range(channels)]
    return np.stack(planes, -1).astype(np.uint8)


def jpeg(array, mode, **options):
    out = io.BytesIO()
    Image.fromarray(array if array.shape[-1] > 1 else array[..., 0], mode).save(out, "jpeg", quality=90, **options)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(color, depth, rows, *extra):
    """rows: the bytes of each row."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(extra) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def packed(values, depth):
    """Rows of values of less than 8 bits."""
    rows = []
    for row in values:
        bits = "".join(f"{v:0{depth}b}" for v in row)
        bits += "0" * (-len(bits) % 8)
        rows.append(bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)))
    return rows


def rows8(channels, salt):
    return [row.tobytes() for row in bytes_of([HEIGHT, WIDTH, channels], salt)]


def rows16(channels, salt):
    return [row.tobytes() for row in bytes_of([HEIGHT, WIDTH, 2 * channels], salt)]


def interlaced():
    """Adam7, RGB."""
    pixels = bytes_of([HEIGHT, WIDTH, 3], 6)
    data = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        part = pixels[y0::dy, x0::dx]
        if part.size:
            data += b"".join(b"\0" + row.tobytes() for row in part)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def files():
    cmyk = jpeg(smooth(4), "CMYK")
    # Adobe's marker says how four components are meant: 0 CMYK, 2 YCCK.
    marker = cmyk.index(b"Adobe")
    ycck = cmyk[:marker + 11] + b"\2" + cmyk[marker + 12:]
    yield "rgb.jpg", jpeg(smooth(3), "RGB", subsampling=0)
    yield "rgb420.jpg", jpeg(smooth(3), "RGB")
    yield "progressive.jpg", jpeg(smooth(3), "RGB", progressive=True)
    yield "gray.jpg", jpeg(smooth(1), "L")
    yield "cmyk.jpg", cmyk
    yield "ycck.jpg", ycck
    yield "rgb.png", png(2, 8, rows8(3, 1))
    yield "rgba.png", png(6, 8, rows8(4, 2))
    yield "gray.png", png(0, 8, rows8(1, 3))
    yield "gray_alpha.png", png(4, 8, rows8(2, 4))
    yield "bits1.png", png(0, 1, packed(bytes_of([HEIGHT, WIDTH], 5) >> 7, 1))
    yield "bits2.png", png(0, 2, packed(bytes_of([HEIGHT, WIDTH], 5) >> 6, 2))
    yield "interlaced.png", interlaced()
    yield "gray16.png", png(0, 16, [bytes([0, v]) * (WIDTH - 1) + b"\2\1" for v in (0, 9, 77, 200, 255)])
    yield "rgb16.png", png(2, 16, rows16(3, 7))
    yield "rgba16.png", png(6, 16, rows16(4, 8))
    palette = bytes_of([16, 3], 9).tobytes()
    yield "palette.png", png(3, 4, packed(bytes_of([HEIGHT, WIDTH], 10) >> 4, 4), chunk(b"PLTE", palette))
    yield "palette_alpha.png", png(3, 4, packed(bytes_of([HEIGHT, WIDTH], 10) >> 4, 4), chunk(b"PLTE", palette),
                                   chunk(b"tRNS", bytes(range(0, 160, 10))))
    yield "transparent_color.png", png(2, 8, rows8(3, 1), chunk(b"tRNS", b"\0\1\0\2\0\3"))


def resizes():
    for height, width, channels, to, shorter in [(23, 37, 3, [16, 16], 0), (13, 11, 1, [24, 24], 0), (40, 21, 3, [16, 16], 19),
                                                 (16, 16, 3, [16, 16], 0), (31, 50, 1, [12, 20], 0), (9, 64, 3, [8, 8], 11)]:
        image = Image.fromarray(bytes_of([height, width, channels], height).squeeze())
        if to[0] == to[1]:
            fitted = F.center_crop(F.resize(image, shorter or to[0], interpolation=F.InterpolationMode.BILINEAR), to)
        else:  # no rule of torchvision's: what covers it
            scale = max(to[0] / height, to[1] / width)
            fitted = F.center_crop(image.resize((int(width * scale + 1e-9), int(height * scale + 1e-9)), Image.BILINEAR), to)
        out = np.asarray(fitted).reshape(*to, channels)
        yield {"height": height, "width": width, "channels": channels, "to": to, "shorter": shorter, "out": recorded(out)}


def main():
    cases = []
    for name, data in files():
        (HERE / name).write_bytes(data)
        image = Image.open(io.BytesIO(data))
        cases.append({"file": name, "rgb": np.asarray(image.convert("RGB")).reshape(-1).tolist(),
                      "gray": np.asarray(image.convert("L")).reshape(-1).tolist()})
    lines = lambda items: ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    text = '{"height":%d,"width":%d,"files":[\n%s],\n"resizes":[\n%s]}\n' % (HEIGHT, WIDTH, lines(cases), lines(resizes()))
    (HERE / "images.json").write_text(text)


if __name__ == "__main__":
    main()
