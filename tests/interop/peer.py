"""A peer of one connection that does what a test's script says: the server's side of the protocol, in a thread. Python 3.11.

    def script(peer):
        quest = peer.receive()
        peer.send(quest.answer({"Simple": "one"}))

    with Peer(script) as peer:
        client = Client.connect(peer.address)

Its invariant: what fails in a script fails the test, at the end of `with`, and no thread or socket outlives it.
"""

import socket
import threading

import channel
import frames
import websocket
from curves import CURVES, KeyPair
from dial import read_head
from errors import ConnectionLost
from msgpack_codec import bytes_of

# A bound for tests that hang; nothing waits for it otherwise.
TIMEOUT_S = 30
FAMILIES = {"IPv4": (socket.AF_INET, "127.0.0.1"), "IPv6": (socket.AF_INET6, "::1"), "unix": (socket.AF_UNIX, None)}


class Peer:
    """Listens on a free port of `family`, or on the Unix socket `path`; `tls` is an ssl.SSLContext of a server."""

    def __init__(self, script, family="IPv4", path=None, tls=None):
        self._script = script
        self._tls = tls
        number, host = FAMILIES[family]
        self._listener = socket.socket(number, socket.SOCK_STREAM)
        self._listener.settimeout(TIMEOUT_S)
        self._listener.bind(str(path) if host is None else (host, 0))
        self._listener.listen(1)
        self.address = f"unix:{path}" if host is None else self._host_and_port(host)
        self._connected = None
        self._channel = channel.Plain()
        self._arrived = []
        self._failure = None
        self._thread = threading.Thread(target=self._run)

    def _host_and_port(self, host):
        port = self._listener.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            # The test has failed: its script need not wait for what will not come.
            self._listener.shutdown(socket.SHUT_RDWR)
            if self._connected is not None:
                self._connected.close()
        self._thread.join()
        self._listener.close()
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self):
        try:
            self._connected, _ = self._listener.accept()
            self._connected.settimeout(TIMEOUT_S)
            if self._tls:
                self.start_tls(self._tls)
            self._script(self)
        except BaseException as failure:
            self._failure = failure
        finally:
            if self._connected is not None:
                self._connected.close()

    def start_tls(self, context):
        """Takes the client's TLS handshake."""
        self._connected = context.wrap_socket(self._connected, server_side=True)

    def receive(self):
        """The next frame. ConnectionLost at the end."""
        while not self._arrived:
            self._arrived.extend(map(frames.decode, self._channel.open(self.receive_bytes())))
            self.send_bytes(self._channel.replies())
        return self._arrived.pop(0)

    def receive_bytes(self):
        """What the next read gives. ConnectionLost at the end."""
        try:
            data = self._connected.recv(1 << 16)
        except ConnectionResetError as error:
            raise ConnectionLost("the client closed before it read everything") from error
        if not data:
            raise ConnectionLost("the client closed")
        return data

    def send(self, *sent):
        """Sends frames in one write."""
        self.send_bytes(b"".join(self._channel.seal(frames.encode(frame)) for frame in sent))

    def send_bytes(self, data):
        """Sends bytes as they are."""
        self._connected.sendall(data)

    def send_close(self, code):
        """Sends the close of a WebSocket."""
        self.send_bytes(self._channel.close(code))

    @property
    def pongs(self):
        """The payloads of the WebSocket's pongs so far."""
        return self._channel.pongs

    def agree(self, curve, private):
        """Takes the client's `*key` quest and answers it, encrypted, as everything after it is."""
        quest = self.receive()
        params = quest.params()
        secret = KeyPair(CURVES[curve], private).secret(bytes_of(params["publicKey"]))
        self._channel = channel.of_secret(secret, params["bits"], params["streamMode"])
        self.send(quest.answer({}))
        return quest

    def upgrade(self):
        """Takes the client's upgrade, agrees to it, and returns its (first line, headers)."""
        head, rest = read_head(self._connected)
        first, headers = websocket.headers_of(head)
        self._channel = websocket.WebSocket(client=False)
        self.send_bytes(websocket.response(headers["sec-websocket-key"]))
        self._arrived.extend(map(frames.decode, self._channel.open(rest)))
        return first, headers
