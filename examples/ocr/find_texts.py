"""Finds the texts of a page, and which of them stand upside down, by a pipeline in this process.

    python3.11 examples/ocr/fetch_models.py && make python
    PYTHONPATH=client/python .demo/venv/bin/python examples/ocr/find_texts.py [PAGE]

PAGE is a JPEG or PNG; left out, it is the page that fetch_models.py fetched.
"""

import sys
from pathlib import Path

import millpond

FOLDER = Path(__file__).resolve().parents[2] / ".demo" / "ocr"


def main():
    if not (FOLDER / "ocr.toml").is_file():
        sys.exit(f"find_texts.py: {FOLDER} has no ocr.toml; run python3 examples/ocr/fetch_models.py first")
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "page.png"
    with millpond.Pipeline(FOLDER / "ocr.toml") as pipe:
        found = pipe({"page": page.read_bytes()})
    for box, (upright, turned) in zip(found["boxes"], found["angles"], strict=True):
        corners = "  ".join(f"{x:4.0f},{y:4.0f}" for x, y in box)
        print(f"{corners}   {'upright' if upright >= turned else 'upside down'} ({max(upright, turned):.3f})")
    print(f"{len(found['boxes'])} texts in {page}")


if __name__ == "__main__":
    main()
