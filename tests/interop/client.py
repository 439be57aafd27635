"""A blocking FPNN client over one connection, with any number of quests in flight. Python 3.11.

    with Client.connect("127.0.0.1:13500") as client:
        client.quest("ordered.put", {"entries": [[b"key", b"value"]]})

It starts no thread: quests of the server's own are answered while the caller waits for an answer or in `serve_pushes`. Its
invariant: an answer reaches the quest of its seq or nobody, and after a failure of the connection every wait raises.
"""

import time
from collections import deque

import frames
from channel import KEY_METHOD, Plain
from dial import dial, upgrade
from errors import AnswerError, ConnectionLost, FrameInvalid, PeerInvalid, TimedOut
from websocket import WebSocket

UNKNOWN, UNKNOWN_METHOD = 20001, 20004
# FPNN's own default for a quest.
TIMEOUT_S = 5
# What a handler of pushes returns when it answers later, through the push.
LATER = object()


class Client:
    """One connection. Not for several threads."""

    def __init__(self, connected, channel, timeout_s=TIMEOUT_S):
        self._socket = connected
        self._channel = channel
        self._timeout_s = timeout_s
        self._seq = 0
        # Seqs that wait for their answer, those whose caller gave up, and answers that nobody has fetched.
        self._open, self._given_up, self._answers = set(), set(), {}
        self._arrived = deque()
        self._handlers = {}
        self._pushes_served = 0
        self._lost = None

    @classmethod
    def connect(cls, address, *, tls=None, server_name=None, websocket_path=None, encryption=None, timeout_s=TIMEOUT_S):
        """Connects to "HOST:PORT", "[HOST]:PORT" or "unix:PATH".

        `tls`: an ssl.SSLContext. `websocket_path`: speak WebSocket, through an upgrade of this path. `encryption`: a
        channel.Encryption, agreed on before anything else. `timeout_s`: of the connection, and of quests that name none.
        """
        if websocket_path and encryption:
            raise ValueError("FPNN's encryption is of plain connections, not of WebSockets: choose one")
        connected = dial(address, timeout_s, tls, server_name)
        channel, early = Plain(), b""
        if websocket_path:
            host = "localhost" if address.startswith("unix:") else address
            early = upgrade(connected, server_name or host, websocket_path)
            channel = WebSocket()
        client = cls(connected, channel, timeout_s)
        try:
            client._take(early)
            if encryption:
                client._agree(encryption)
        except BaseException:
            client.close()
            raise
        return client

    def _agree(self, encryption):
        # The quest goes in clear; its answer comes encrypted already.
        seq = self.start(KEY_METHOD, encryption.params())
        self._channel = encryption.channel()
        self.answer(seq)

    def quest(self, method, params=None, *, encoding="msgpack", oneway=False, timeout_s=None):
        """The map that answers; None at once where `oneway`. AnswerError, TimedOut, ConnectionLost, FrameInvalid."""
        if oneway:
            self.send_frame(frames.quest(method, params or {}, encoding=encoding))
            return None
        return self.answer(self.start(method, params, encoding=encoding), timeout_s)

    def start(self, method, params=None, *, encoding="msgpack"):
        """Sends a quest and returns its seq, for `answer`."""
        return self.start_all([(method, params)], encoding=encoding)[0]

    def start_all(self, calls, *, encoding="msgpack"):
        """Sends (method, params) pairs in one write and returns their seqs."""
        sealed, seqs = [], []
        for method, params in calls:
            self._seq = self._seq % 0xFFFF_FFFF + 1
            seqs.append(self._seq)
            sealed.append(self._channel.seal(frames.encode(frames.quest(method, params or {}, self._seq, encoding))))
        self._open.update(seqs)
        self.send_bytes(b"".join(sealed))
        return seqs

    def answer(self, seq, timeout_s=None):
        """The map that answers the quest of `seq`. AnswerError where it is an error."""
        frame = self.answer_frame(seq, timeout_s)
        params = frame.params()
        if frame.status == 0:
            return params
        code, ex = params.get("code"), params.get("ex")
        if not isinstance(code, int) or not isinstance(ex, str):
            raise PeerInvalid(f"an error holds an int `code` and a text `ex`, this one {params!r}")
        raise AnswerError(code, ex, params)

    def answer_frame(self, seq, timeout_s=None):
        """The same, as the frame that came."""
        if seq not in self._open and seq not in self._answers:
            raise ValueError(f"no quest {seq} waits for an answer")
        try:
            self._until(lambda: seq in self._answers, timeout_s)
        except TimedOut:
            self._open.remove(seq)
            self._given_up.add(seq)
            raise
        return self._answers.pop(seq)

    def on_push(self, method, handler):
        """Answers the server's quests of `method` by what `handler(push)` returns: a map, or LATER. It may raise AnswerError."""
        self._handlers[method] = handler

    def serve_pushes(self, count, timeout_s=None):
        """Waits until `count` more quests of the server were handled."""
        wanted = self._pushes_served + count
        self._until(lambda: self._pushes_served >= wanted, timeout_s)

    def websocket_ping(self, payload=b"", timeout_s=None):
        """Sends a ping of WebSocket and returns its pong's payload."""
        self.send_bytes(self._channel.ping(payload))
        self._until(lambda: self._channel.pongs, timeout_s)
        return self._channel.pongs.pop(0)

    def send_frame(self, frame):
        """Sends a frame through the channel. Who sends a quest so keeps its own account of seqs."""
        self.send_bytes(self._channel.seal(frames.encode(frame)))

    def send_bytes(self, data):
        """Sends bytes as they are, past the channel."""
        if self._lost:
            raise self._lost
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(data)
        except OSError as error:
            # Part of a frame may be out: nothing that follows could be understood.
            raise self._fail(ConnectionLost(f"the connection broke in a write: {error}")) from error

    def close(self):
        """Closes the connection, a WebSocket with its goodbye."""
        if self._lost is None and isinstance(self._channel, WebSocket):
            try:
                self.send_bytes(self._channel.close())
            except ConnectionLost:
                # It is closed below all the same.
                pass
        self._fail(ConnectionLost("this client was closed"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _until(self, holds, timeout_s):
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        while not holds():
            if self._arrived:
                self._handle(self._arrived.popleft())
            elif self._lost:
                raise self._lost
            else:
                self._take(self._receive(deadline, timeout_s))

    def _receive(self, deadline, timeout_s):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimedOut(f"nothing came within {timeout_s} s")
        try:
            self._socket.settimeout(left)
            data = self._socket.recv(1 << 16)
        except TimeoutError as error:
            raise TimedOut(f"nothing came within {timeout_s} s") from error
        except OSError as error:
            raise self._fail(ConnectionLost(f"the connection broke in a read: {error}")) from error
        if not data:
            raise self._fail(ConnectionLost("the peer closed the connection"))
        return data

    def _take(self, data):
        """Opens what arrived. What a broken connection delivered before it broke is still handled."""
        try:
            self._arrived.extend(frames.decode(raw) for raw in self._channel.open(data))
        except (FrameInvalid, ConnectionLost) as failure:
            self._reply()
            self._fail(failure)
        else:
            self._reply()

    def _reply(self):
        if replies := self._channel.replies():
            try:
                self.send_bytes(replies)
            except ConnectionLost:
                # Whoever waits learns of it from `_lost`.
                pass

    def _handle(self, frame):
        if frame.mtype != frames.ANSWER:
            self._serve_or_lose(Push(self, frame))
        elif frame.seq in self._given_up:
            self._given_up.remove(frame.seq)
        elif frame.seq in self._open:
            self._open.remove(frame.seq)
            self._answers[frame.seq] = frame
        else:
            raise self._fail(PeerInvalid(f"an answer to quest {frame.seq}, which does not wait for one"))

    def _serve_or_lose(self, push):
        """Serves a push. Where its answer finds the connection gone, whoever waits learns so, after what else has arrived."""
        try:
            self._serve(push)
        except ConnectionLost:
            if self._lost is None:
                raise

    def _serve(self, push):
        self._pushes_served += 1
        handler = self._handlers.get(push.method)
        if handler is None:
            push.fail(UNKNOWN_METHOD, f"unknown method {push.method!r}")
            return
        try:
            result = handler(push)
        except AnswerError as error:
            push.fail(error.code, error.ex)
            return
        if result is LATER or push.answered:
            return
        if result is None:
            push.fail(UNKNOWN, f"{push.method!r} returned nothing")
        else:
            push.answer(result)

    def _fail(self, failure):
        self._lost = self._lost or failure
        self._socket.close()
        return failure


class Push:
    """A quest of the server's. It is answered once: by what its handler returns, or by `answer` or `fail`, then or later."""

    def __init__(self, client, frame):
        self._client = client
        self._frame = frame
        # A oneway quest has no answer to wait for.
        self.answered = frame.mtype == frames.ONEWAY

    @property
    def method(self):
        return self._frame.method

    @property
    def seq(self):
        """Its number among the server's quests, None where it is oneway."""
        return self._frame.seq

    @property
    def params(self):
        """Its map. PayloadInvalid where it holds none."""
        return self._frame.params()

    def answer(self, params):
        """Answers with a map; a oneway quest, and one that was answered, stay as they are."""
        self._send(lambda: self._frame.answer(params))

    def fail(self, code, ex):
        """Answers with an error."""
        self._send(lambda: self._frame.error(code, ex))

    def _send(self, frame):
        if not self.answered:
            self._client.send_frame(frame())
            self.answered = True
