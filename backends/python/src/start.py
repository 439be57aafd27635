# What a server has an interpreter run: the worker of the package `millpond`, or a message "failed" (docs/formats/worker.md) that says what
# the interpreter lacks. Any Python 3 can read it.
import sys

# Modules do not come from the folder that the server was started in.
if sys.path and sys.path[0] == "":
    del sys.path[0]
# A process of Python's passes on what it imports from.
if sys.argv[3:]:
    sys.path[:] = sys.argv[3:]
    del sys.argv[3:]


def lacks():
    if sys.version_info < (3, 11):
        return "is Python %d.%d; workers need 3.11 or newer" % sys.version_info[:2]
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        return "cannot import numpy (%s): pip install numpy" % error
    try:
        from millpond import _worker  # noqa: F401
    except ImportError as error:
        return "cannot import the package millpond (%s): pip install ./client/python, or a wheel of this release" % error
    return None


lacked = lacks()
if lacked is None:
    from millpond import _worker

    _worker.main()
else:
    import os
    import socket
    import struct

    server = socket.socket(fileno=os.dup(0))
    # A socket that is closed before it is read resets what was sent.
    server.recv(1 << 16)
    text = "its interpreter %s %s; or name another one by python" % (sys.executable, lacked)
    server.send(struct.pack("<IIQ", 130, 0, 0) + text.encode("utf-8", "replace"))
