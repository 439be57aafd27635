"""Fetches the example's two models and its page, and the environment of its reference. Standard library only.

    python3.11 examples/ocr/fetch_models.py [--work .demo/ocr]

WORK/venv gets the pinned requirements, WORK the models out of one of them and a page out of the wheel of scikit-image. Models and page
are checked against their SHA-256 before they are used. A second run finds everything in place and does nothing.
"""

import argparse
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Environments and digests are the MovieLens example's.
sys.path.insert(0, str(HERE.parent / "movielens"))

from fetch import pip, prepare_environment  # noqa: E402
from narrate import CommandFailed, say  # noqa: E402
from stamp import digest_file  # noqa: E402

REQUIREMENTS = HERE / "requirements.txt"
MODELS = {
    "detector.onnx": "ch_PP-OCRv4_det_infer.onnx",
    "angles.onnx": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
}
PAGE_WHEEL = "scikit-image==0.26.0"
PAGE_IN_WHEEL = "skimage/data/page.png"
SHA256 = {
    "detector.onnx": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "angles.onnx": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    "page.png": "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
}


def is_whole(work, name):
    """True when the file is there, unchanged."""
    return (work / name).is_file() and digest_file(work / name) == SHA256[name]


def check(path, name):
    """Fails unless the file is the one that is expected."""
    found = digest_file(path)
    if found != SHA256[name]:
        raise CommandFailed(f"{path} has SHA-256 {found}, expected {SHA256[name]}: not used as {name}")


def copy_models(work):
    """Copies the models out of the environment; returns whether there was anything to do."""
    wanted = [name for name in MODELS if not is_whole(work, name)]
    for name in wanted:
        found = next(work.glob(f"venv/lib/python3*/site-packages/rapidocr_onnxruntime/models/{MODELS[name]}"), None)
        if found is None:
            raise CommandFailed(f"{work / 'venv'} holds no {MODELS[name]}; delete the folder and run this again")
        check(found, name)
        shutil.copyfile(found, work / name)
    return bool(wanted)


def fetch_page(work):
    """Fetches the page; returns whether there was anything to do."""
    if is_whole(work, "page.png"):
        return False
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        pip(work, f"downloading {PAGE_WHEEL}", "download", "--no-deps", "--dest", temporary, PAGE_WHEEL)
        page = Path(temporary) / "page.png"
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as archive:
            page.write_bytes(archive.read(PAGE_IN_WHEEL))
        check(page, "page.png")
        page.replace(work / "page.png")
    return True


def prepare(work):
    """The environment, the models, the page, and the configuration beside them."""
    work.mkdir(parents=True, exist_ok=True)
    # All of them: none is left out because another was there.
    made = [prepare_environment(work, REQUIREMENTS, "--no-deps"), copy_models(work), fetch_page(work)]
    shutil.copyfile(HERE / "ocr.toml", work / "ocr.toml")
    say(f"{'ready' if any(made) else 'models, page and environment are in place'}: {work}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / ".demo" / "ocr", help="folder to fill")
    options = parser.parse_args()
    try:
        prepare(options.work.resolve())
    except CommandFailed as failed:
        sys.exit(f"fetch_models.py: {failed}")


if __name__ == "__main__":
    main()
