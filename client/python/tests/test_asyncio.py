"""The client that is awaited, against a real server."""

import asyncio
import contextlib
import gc
import json
import select
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

from served import TIMEOUT_MS, TIMEOUT_S, Served, silent

import millpond
from errors import ConnectionLost
from millpond import _asyncio
from peer import Peer

CALLS = 1000


def bounded(coroutine):
    """Runs it in a loop of its own, and not for ever."""
    return asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))


class Calls(Served):
    def test_calls_are_answered(self):
        async def calls():
            async with millpond.AsyncClient(self.address) as client:
                self.assertEqual(await client.call("echo", {"a": [1]}), {"a": [1]})
                self.assertEqual(await client.call_raw("echo", b"\x80"), b"\x80")
                raw = await client.call_raw("constant", b"{}", TIMEOUT_MS, encoding="json")
                self.assertEqual(json.loads(raw)["text"], "one")
                self.assertIsNone(await client.oneway("echo", {}))
                self.assertEqual(client.late_answers, 0)

        bounded(calls())

    def test_a_thousand_calls_at_once(self):
        async def calls():
            async with millpond.AsyncClient(self.address, connections=4) as client:
                calls = [client.call("echo", {"n": n, "text": "x" * (n % 50)}, TIMEOUT_MS) for n in range(CALLS)]
                return await asyncio.gather(*calls)

        for n, answer in enumerate(bounded(calls())):
            self.assertEqual((answer["n"], answer["text"]), (n, "x" * (n % 50)))

    def test_answers_and_errors_go_to_their_own_callers(self):
        async def calls():
            async with millpond.AsyncClient(self.address) as client:
                calls = [client.call("echo" if n % 3 else "nope", {"n": n}) for n in range(100)]
                return await asyncio.gather(*calls, return_exceptions=True)

        for n, answer in enumerate(bounded(calls())):
            if n % 3:
                self.assertEqual(answer, {"n": n})
            else:
                self.assertIsInstance(answer, millpond.StatusError)

    def test_a_payload_that_cannot_be_sent(self):
        async def calls():
            async with millpond.AsyncClient(self.address) as client:
                with self.assertRaisesRegex(TypeError, r'payload\["a"\] is a set'):
                    await client.call("echo", {"a": {1}})
                with self.assertRaisesRegex(ValueError, "deadline_ms is -1"):
                    await client.call("echo", {}, -1)
                self.assertEqual(await client.call("echo", {}), {})

        bounded(calls())

    def test_loops_in_threads_share_a_client(self):
        client = bounded(millpond.AsyncClient(self.address, connections=2).connect())

        async def calls(thread):
            answers = await asyncio.gather(*(client.call("echo", {"thread": thread, "n": n}) for n in range(100)))
            return [(answer["thread"], answer["n"]) for answer in answers]

        with ThreadPoolExecutor(4) as threads:
            for thread, found in enumerate(threads.map(lambda thread: bounded(calls(thread)), range(4))):
                self.assertEqual(found, [(thread, n) for n in range(100)])
        bounded(client.close())

    def test_loops_leave_nothing_behind(self):
        async def call():
            async with millpond.AsyncClient(self.address) as client:
                await client.call("echo", {})
                return weakref.ref(asyncio.get_running_loop())

        before = len(_asyncio._inboxes)
        loops = [bounded(call()) for _ in range(3)]
        gc.collect()
        self.assertEqual([loop() for loop in loops], [None] * 3)
        self.assertLessEqual(len(_asyncio._inboxes), before)

    def test_connecting(self):
        async def connects():
            client = millpond.AsyncClient(self.address)
            with self.assertRaisesRegex(millpond.Error, "is not connected yet; use `async with`"):
                await client.call("echo", {})
            found = await asyncio.gather(*(client.connect() for _ in range(3)))
            self.assertTrue(all(one is client for one in found))
            self.assertEqual(await client.call("echo", {}), {})
            await client.close()
            await client.close()
            with self.assertRaisesRegex(millpond.ClosedError, "was closed"):
                await client.call("echo", {})

        bounded(connects())
        with self.assertRaisesRegex(ValueError, "connections is 0"):
            millpond.AsyncClient(self.address, connections=0)


class Stopped(Served):
    def test_a_cancelled_call_takes_up_nothing(self):
        arrived = threading.Event()

        async def cancelled(address):
            async with millpond.AsyncClient(address, in_flight_max=1) as client:
                for _ in range(3):
                    arrived.clear()
                    call = asyncio.create_task(client.call("rank", {}))
                    await asyncio.to_thread(arrived.wait, TIMEOUT_S)
                    with self.assertRaisesRegex(millpond.TooManyInFlightError, "in flight"):
                        await client.call("rank", {})
                    call.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await call
                    inbox = _asyncio._inboxes[asyncio.get_running_loop()]
                    self.assertEqual(inbox.waiting, {})

        with Peer(silent(arrived)) as peer:
            bounded(cancelled(peer.address))

    def test_cancelled_among_others(self):
        async def some():
            async with millpond.AsyncClient(self.address) as client:
                calls = [asyncio.create_task(client.call("echo", {"n": n})) for n in range(CALLS)]
                await asyncio.sleep(0)
                for call in calls[::2]:
                    call.cancel()
                return await asyncio.gather(*calls, return_exceptions=True)

        for n, answer in enumerate(bounded(some())):
            if n % 2:
                self.assertEqual(answer, {"n": n})
            else:
                self.assertIsInstance(answer, asyncio.CancelledError)

    def test_deadlines_and_timeouts(self):
        arrived = threading.Event()

        async def late(address):
            async with millpond.AsyncClient(address) as client:
                with self.assertRaises(millpond.TimeoutError) as raised:
                    await client.call("rank", {}, deadline_ms=20)
                self.assertEqual(raised.exception.method, "rank")
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(client.call("rank", {}), 0.02)
                with self.assertRaises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await client.call("rank", {})

        with Peer(silent(arrived)) as peer:
            bounded(late(peer.address))

    def test_connecting_is_cancelled(self):
        async def cancelled():
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(millpond.AsyncClient(address).connect(), 0.05)

        with deaf() as address:
            bounded(cancelled())

    def test_a_close_writes_what_is_queued_and_ends_what_waits(self):
        notes = []

        def script(peer):
            try:
                while True:
                    notes.append(peer.receive().method)
            except ConnectionLost:
                pass

        async def closed(address):
            async with millpond.AsyncClient(address) as client:
                call = asyncio.create_task(client.call("rank", {}))
                await asyncio.gather(*(client.oneway("note", {"text": "x" * 1000}) for _ in range(300)))
            with self.assertRaises(millpond.ClosedError):
                await call

        with Peer(script) as peer:
            bounded(closed(peer.address))
        self.assertEqual(sorted(notes), ["note"] * 300 + ["rank"])

    def test_the_loop_ends_with_calls_under_way(self):
        arrived = threading.Event()

        async def left(address):
            client = await millpond.AsyncClient(address).connect()
            tasks = [asyncio.create_task(client.call("rank", {})) for _ in range(10)]
            await asyncio.to_thread(arrived.wait, TIMEOUT_S)
            return tasks

        with Peer(silent(arrived)) as peer:
            tasks = bounded(left(peer.address))
            self.assertTrue(all(task.cancelled() for task in tasks))
            tasks.clear()
            gc.collect()

    def test_a_busy_loop_gets_its_answers_afterwards(self):
        async def busy():
            async with millpond.AsyncClient(self.address) as client:
                call = asyncio.create_task(client.call("echo", {"a": 1}))
                await asyncio.sleep(0)
                inbox = _asyncio._inboxes[asyncio.get_running_loop()]
                # The loop is held up until the answer is there: the client's own thread does not wait for it.
                await_readable(inbox.arrivals.fileno())
                self.assertFalse(call.done())
                self.assertEqual(await call, {"a": 1})

        bounded(busy())


def await_readable(descriptor):
    """Blocks until the descriptor can be read."""
    ready, _, _ = select.select([descriptor], [], [], TIMEOUT_S)
    assert ready, "nothing arrived"


@contextlib.contextmanager
def deaf():
    """The address of a listener that takes no more connections and refuses none: its queue is full."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        host, port = listener.getsockname()
        while True:
            waiting = opened.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect((host, port))
            except TimeoutError:
                break
        yield f"{host}:{port}"
