"""Frames captured between FPNN's own client and server, from captured.json. Plain Python 3.11."""

import json
from pathlib import Path

CAPTURED = json.loads((Path(__file__).resolve().parent / "captured.json").read_text(encoding="utf-8"))
# The names of those that are whole.
WHOLE = ("quest", "answer", "push_answer", "ping_answer")


def captured(name):
    """The bytes of a whole captured frame."""
    return bytes.fromhex("".join(CAPTURED[name]["hex"]))


def key_quest(public_key):
    """The captured quest of `*key`, with these 64 bytes where its own public key stood, which is not kept."""
    found = CAPTURED["key_handshake"]
    before, after = (bytes.fromhex("".join(found[f"hex_{side}_public_key"])) for side in ("before", "after"))
    return before + public_key + after
