"""Connections to a peer: TCP of both families, Unix sockets, TLS over either, and the handshake of a WebSocket. Plain Python 3.11.

It knows nothing of frames. Its invariant: whoever gets an exception from here is left with no open socket.
"""

import socket

import websocket
from errors import ConnectionLost, HandshakeFailed, TimedOut

# The head of a handshake's answer that is read before it is called one without an end.
HEAD_BYTES_MAX = 64 * 1024


def split_address(address):
    """(family, what connect takes) of "127.0.0.1:13500", "[::1]:13500", "localhost:13500" or "unix:/run/millpond.sock"."""
    if address.startswith("unix:"):
        return socket.AF_UNIX, address.removeprefix("unix:")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"an address is HOST:PORT, [HOST]:PORT or unix:PATH, not {address!r}")
    if host.startswith("["):
        return socket.AF_INET6, (host.strip("[]"), int(port))
    return socket.AF_INET, (host, int(port))


def dial(address, timeout_s, tls=None, server_name=None):
    """A connected socket. `tls` is an ssl.SSLContext; `server_name` is what the certificate must be for."""
    family, target = split_address(address)
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.settimeout(timeout_s)
        connected.connect(target)
        if family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return connected
        return tls.wrap_socket(connected, server_hostname=server_name or (None if family == socket.AF_UNIX else target[0]))
    except TimeoutError as error:
        connected.close()
        raise TimedOut(f"no connection to {address} within {timeout_s} s") from error
    except OSError as error:
        connected.close()
        raise ConnectionLost(f"no connection to {address}: {error}") from error


def upgrade(connected, host, path):
    """Asks for a WebSocket on `path` and returns the bytes that came behind the agreement."""
    key = websocket.fresh_key()
    try:
        connected.sendall(websocket.request(host, path, key))
        head, rest = read_head(connected)
        websocket.check_response(head, key)
        return rest
    except TimeoutError as error:
        connected.close()
        raise TimedOut("the peer did not answer the upgrade in time") from error
    except OSError as error:
        connected.close()
        raise ConnectionLost(f"the connection broke in the upgrade: {error}") from error
    except (HandshakeFailed, ConnectionLost):
        connected.close()
        raise


def read_head(connected):
    """The bytes up to and with an empty line, and what was read beyond it."""
    read = b""
    while b"\r\n\r\n" not in read:
        if len(read) > HEAD_BYTES_MAX:
            raise HandshakeFailed(f"{len(read)} bytes hold no end of an HTTP head")
        more = connected.recv(4096)
        if not more:
            raise ConnectionLost("the peer closed in the handshake")
        read += more
    head, _, rest = read.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest
