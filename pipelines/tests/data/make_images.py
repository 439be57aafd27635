"""Makes small images of every kind that is decoded, and what Pillow and OpenCV make of them: the references of tests/images.rs.

    pip install numpy==2.4.6 opencv-python-headless==5.0.0.93 pillow==13.0.0
    python pipelines/tests/data/make_images.py              writes images/ beside this file
    python pipelines/tests/data/make_images.py PHOTO TO     the same of a photograph, in the folder TO

Not part of any build: what it wrote is committed, and tests/images.rs reads that. What it makes of a photograph is not: others own
those; `MILLPOND_IMAGES=TO` has the test read it. Its invariant: the same versions, which it prints, write the same files.
"""

import io
import json
import struct
import sys
import zlib
from pathlib import Path

import cv2
import numpy as np
import PIL
from PIL import Image, ImageOps

HERE = Path(__file__).parent / "images"
HEIGHT, WIDTH = 21, 34
# Orientation, as cameras write it.
TAG = 0x0112


def picture():
    """Slopes, waves and an edge, in color."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    red = 255 * x / (WIDTH - 1)
    green = 127.5 + 127.5 * np.sin(x / 4) * np.cos(y / 5)
    blue = np.where(x + y < 24, 220, 40 + 3 * y)
    return np.stack([red, green, blue], axis=-1).round().astype(np.uint8)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def interlaced(pixels):
    """A PNG by Adam7, which Pillow reads and does not write."""
    rows = []
    for y0, x0, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        rows += [b"\0" + row.tobytes() for row in pixels[y0::dy, x0::dx] if row.size]
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def oriented(number):
    exif = Image.Exif()
    exif[TAG] = number
    return exif


def ycck(cmyk):
    """The same samples, said to be YCCK: the last byte of the Adobe segment."""
    at = cmyk.index(b"Adobe") + 11
    return cmyk[:at] + b"\2" + cmyk[at + 1 :]


def without_adobe(cmyk):
    at = cmyk.index(b"\xff\xeeX"[:2])
    length = struct.unpack(">H", cmyk[at + 2 : at + 4])[0]
    return cmyk[:at] + cmyk[at + 2 + length :]


def files(pixels):
    """{name of a file: its bytes}."""
    rgb = Image.fromarray(pixels)
    cmyk = saved(rgb.convert("CMYK"), "jpeg", quality=95)
    deep = np.dstack([pixels[..., 2], pixels[..., 1], pixels[..., 0]]).astype(np.uint16) * 257
    alpha = rgb.copy()
    alpha.putalpha(rgb.convert("L"))
    palette = rgb.quantize(16)
    made = {
        "baseline.jpg": saved(rgb, "jpeg", quality=90, subsampling=0),
        "quarters.jpg": saved(rgb, "jpeg", quality=90, subsampling=2),
        "halves.jpg": saved(rgb, "jpeg", quality=90, subsampling=1),
        "restarts.jpg": saved(rgb, "jpeg", quality=90, subsampling=0, restart_marker_blocks=2),
        "progressive.jpg": saved(rgb, "jpeg", quality=90, subsampling=0, progressive=True),
        "rgb.jpg": saved(rgb, "jpeg", quality=90, keep_rgb=True),
        "gray.jpg": saved(rgb.convert("L"), "jpeg", quality=90),
        "cmyk.jpg": cmyk,
        "cmyk_plain.jpg": without_adobe(cmyk),
        "ycck.jpg": ycck(cmyk),
        "rgb.png": saved(rgb, "png"),
        "alpha.png": saved(alpha, "png"),
        "gray.png": saved(rgb.convert("L"), "png"),
        "gray_alpha.png": saved(alpha.convert("LA"), "png"),
        "bits.png": saved(rgb.convert("1"), "png"),
        "palette.png": saved(palette, "png"),
        "palette_alpha.png": saved(palette, "png", transparency=3),
        "deep.png": cv2.imencode(".png", deep)[1].tobytes(),
        "deep_gray.png": cv2.imencode(".png", deep[..., 1])[1].tobytes(),
        "interlaced.png": interlaced(pixels),
        "animated.png": saved(rgb, "png", save_all=True, append_images=[ImageOps.invert(rgb)], duration=100),
        "oriented.png": saved(rgb, "png", exif=oriented(6)),
    }
    for number in range(1, 9):
        made[f"oriented_{number}.jpg"] = saved(rgb, "jpeg", quality=90, subsampling=0, exif=oriented(number))
    return made


def by_pillow(content):
    image = Image.open(io.BytesIO(content))
    if image.mode == "I;16":
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=-1)
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def operations(pixels):
    """(what, its keys, its result by OpenCV, Pillow or numpy, the largest difference allowed)."""
    sizes = [(50, 17), (7, 60), (13, 13), (42, 68)]
    for height, width in sizes:
        for name, flag, most in [("bilinear", cv2.INTER_LINEAR, 1), ("bicubic", cv2.INTER_CUBIC, 4)]:
            keys = {"height": height, "width": width, "filter": name}
            yield "resize", keys, cv2.resize(pixels, (width, height), interpolation=flag), most
        floats = pixels.astype(np.float32) / 255
        keys = {"height": height, "width": width, "filter": "bilinear", "floats": True}
        yield "resize", keys, cv2.resize(floats, (width, height), interpolation=cv2.INTER_LINEAR), 1e-5
        image = Image.fromarray(pixels)
        # Both round to bytes between the two directions, one of them first; the wider the filter, the more it shows.
        for name, flag, most in [("bilinear", Image.BILINEAR, 1), ("bicubic", Image.BICUBIC, 2), ("lanczos", Image.LANCZOS, 3)]:
            keys = {"height": height, "width": width, "filter": name, "antialias": True}
            yield "resize", keys, np.asarray(image.resize((width, height), flag)), most
        if pixels.shape[:2] != (HEIGHT, WIDTH):
            continue  # Where a centre lies between two pixels, either is the nearest.
        keys = {"height": height, "width": width, "filter": "nearest"}
        yield "resize", keys, np.asarray(image.resize((width, height), Image.NEAREST)), 0
    for corners in [
        [[3.0, 2.0], [30.0, 4.0], [28.0, 17.0], [5.0, 15.0]],
        [[10.5, 1.25], [18.0, 3.5], [14.0, 19.0], [7.0, 16.5]],
        [[-4.0, -3.0], [20.0, 1.0], [22.0, 25.0], [1.0, 18.0]],
    ]:
        for name, flag, most in [("bilinear", cv2.INTER_LINEAR, 2), ("bicubic", cv2.INTER_CUBIC, 4)]:
            yield "warp", {"corners": corners, "sampling": name}, warped(pixels, corners, flag), most
    for code, name in [(cv2.COLOR_RGB2GRAY, "rgb_to_gray"), (cv2.COLOR_BGR2GRAY, "bgr_to_gray")]:
        yield "color", {"convert": name}, cv2.cvtColor(pixels, code)[..., None], 0
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    normal = (pixels.astype(np.float32) / 255 - mean) / deviation
    keys = {"mean": mean.tolist(), "std": deviation.tolist()}
    yield "normalise", keys, normal.astype(np.float32), 1e-5
    blob = cv2.dnn.blobFromImage(pixels, 1 / 127.5, mean=(127.5,) * 3)[0]
    yield "normalise", {"mean": [0.5], "std": [0.5], "layout": "chw"}, blob, 1e-5
    inner = round(pixels.shape[0] * 32 / pixels.shape[1])
    scaled = cv2.resize(pixels, (32, inner), interpolation=cv2.INTER_LINEAR)
    above = (32 - inner) // 2
    framed = cv2.copyMakeBorder(scaled, above, 32 - inner - above, 0, 0, cv2.BORDER_CONSTANT, value=(114,) * 3)
    yield "letterbox", {"height": 32, "width": 32}, framed, 1
    yield "crop", {"edges": [3.0, 2.0, 20.0, 15.0]}, pixels[2:15, 3:20], 0


def warped(pixels, corners, flag):
    """As rapidocr cuts text out of a page."""
    points = np.float32(corners)
    side = lambda a, b: float(np.linalg.norm(points[a] - points[b]))
    width, height = int(max(side(0, 1), side(2, 3))), int(max(side(0, 3), side(1, 2)))
    target = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    matrix = cv2.getPerspectiveTransform(points, target)
    cut = cv2.warpPerspective(pixels, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=flag)
    return np.rot90(cut) if height / width >= 1.5 else cut


def write(pixels, to):
    to.mkdir(exist_ok=True)
    for old in to.iterdir():
        old.unlink()
    listed, raw = {"decode": [], "operations": []}, b""
    for name, content in files(pixels).items():
        (to / name).write_bytes(content)
        expected = by_pillow(content)
        listed["decode"].append({"file": name, "at": len(raw), "shape": expected.shape})
        raw += expected.tobytes()
    for what, keys, expected, most in operations(pixels):
        kind = {"uint8": "u8", "float32": "f32"}[str(expected.dtype)]
        entry = {"what": what, "keys": keys, "most": most, "type": kind, "at": len(raw), "shape": expected.shape}
        listed["operations"].append(entry)
        raw += expected.tobytes()
    (to / "references.raw").write_bytes(raw)
    lines = [f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(one)}" for one in all) + "\n ]" for name, all in listed.items()]
    (to / "references.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(np.asarray(Image.open(sys.argv[1]).convert("RGB")), Path(sys.argv[2]))
    else:
        write(picture(), HERE)
    print(f"numpy {np.__version__}, opencv {cv2.__version__}, pillow {PIL.__version__}")
