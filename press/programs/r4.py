"""What the programs of the R4 scenarios share: the bytes that are sent, and the function that holds the interpreter."""

DATA = b"hello"
# As large as a small photograph, for STRING against UINT8.
LARGE = bytes(range(256)) * 256
SUM = 5000050000


def add_up():
    """1 + … + 100000, in Python."""
    return sum(range(1, 100001))
