"""Tells whether a folder was built from the same inputs and is still whole. Standard library only.

The stamp is written last, so a folder whose building was interrupted has none and is built again.
"""

import hashlib
import json


def digest_file(path):
    """SHA-256 of a file, as text."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_files(paths):
    """SHA-256 by file name."""
    return {path.name: digest_file(path) for path in paths}


class Stamp:
    """A file in a folder with the digests of what was built from what."""

    def __init__(self, directory, inputs, outputs, name="stamp.json"):
        self.directory = directory
        self.inputs = inputs
        self.outputs = outputs
        self.path = directory / name

    def is_current(self):
        """True when the inputs are the same and every output is there, unchanged."""
        try:
            saved = json.loads(self.path.read_text(encoding="utf-8"))
            built = digest_files([self.directory / name for name in self.outputs])
        except (OSError, ValueError):
            return False
        return saved == {"inputs": self.inputs, "outputs": built}

    def forget(self):
        """Removes the stamp before anything is built."""
        self.path.unlink(missing_ok=True)

    def write(self):
        """Writes the stamp after everything is built."""
        built = digest_files([self.directory / name for name in self.outputs])
        self.path.write_text(json.dumps({"inputs": self.inputs, "outputs": built}, indent=2) + "\n", encoding="utf-8")
