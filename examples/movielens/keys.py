"""The features: their slots, their order in the model's input, and the key of each.

A key is FNV-1a, 64 bits, over `slot`, one zero byte, `value`. This is the rule that the server follows when a
pipeline's `hash` stage runs; a table built with any other rule would be a table of keys that nobody asks for.
Standard library only.
"""

# The features that are one row of the table each.
SLOTS = ("user", "age", "gender", "occupation", "film")

# The model's input is these vectors side by side: a film's genres are pooled when the table is built and kept under
# the film's id in a slot of their own; the history is the mean of the "film" rows of the user's newest events.
BLOCKS = (*SLOTS, "genres", "history")

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3
MASK = (1 << 64) - 1


def fnv1a_64(data):
    """The FNV-1a hash of some bytes, as an unsigned 64-bit integer."""
    value = OFFSET_BASIS
    for byte in data:
        value = ((value ^ byte) * PRIME) & MASK
    return value


def feature_key(slot, value):
    """The table key of one feature: what it is (`slot`) and what it says (`value`), both text."""
    return fnv1a_64(slot.encode() + b"\0" + value.encode())
