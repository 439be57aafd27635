"""Values of msgpack, both ways, by the package `msgpack`. Python 3.11.

It knows nothing of frames. Its invariant: whatever bytes come in, the outcome is a value or PayloadInvalid.

FPNN's clients send public keys as a str of any bytes. Bytes of a str that are not UTF-8 are lone surrogates in Python's text
(`surrogateescape`, as in names of files); `text_of` and `bytes_of` convert between the two.
"""

import msgpack

from errors import PayloadInvalid

ESCAPED = "surrogateescape"


def text_of(raw):
    """The text that travels as a str of these bytes."""
    return raw.decode(errors=ESCAPED)


def bytes_of(text):
    """The bytes that a text travelled as."""
    return text.encode(errors=ESCAPED)


def encode(value):
    """The bytes of `value`. PayloadInvalid for what msgpack has no form for."""
    try:
        return msgpack.packb(value, unicode_errors=ESCAPED)
    except (TypeError, ValueError, OverflowError) as error:
        raise PayloadInvalid(f"msgpack has no form for this: {error}") from error


def decode(data):
    """The one value that `data` holds from its first byte to its last. PayloadInvalid otherwise."""
    try:
        return msgpack.unpackb(data, unicode_errors=ESCAPED, strict_map_key=False, object_pairs_hook=_map)
    except (TypeError, ValueError) as error:
        raise PayloadInvalid(f"not one value of msgpack: {error!r}") from error


def _map(pairs):
    found = {}
    for key, value in pairs:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise PayloadInvalid(f"a key of a map is text or an int, not a {type(key).__name__}")
        if key in found:
            raise PayloadInvalid(f"the key {key!r} is there twice")
        found[key] = value
    return found
