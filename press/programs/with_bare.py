"""The GIL-bound function of report R4 with nothing around it: a process a caller, or threads of one: with_bare.py processes|threads."""

import sys

import callers

from r4 import SUM, add_up


def make(_caller):
    return lambda: callers.expect(add_up(), SUM)


if __name__ == "__main__":
    callers.run(make, processes=sys.argv[1] == "processes")
