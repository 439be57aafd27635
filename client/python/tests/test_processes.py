"""The client in processes of its own: forks, Ctrl-C, and the end of the interpreter."""

import signal
import tempfile
import threading

from served import PACKAGE, TIMEOUT_S, Millpond, Served, finish, run, silent, start

from peer import Peer

INTERRUPTED = 7
# Tests that run in the background ignore Ctrl-C, and so do their children.
HEEDED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
# What a child process does after a fork; the one of `clients` is its parent's.
IN_CHILD = """
import asyncio, os, sys, traceback
import millpond

async def awaited_in_child(address):
    async with millpond.AsyncClient(address) as own:
        return await own.call("echo", {"a": 3})

def in_child(clients, address):
    status, client = 1, clients.pop()
    try:
        for use in (lambda: client.call("echo", {}), lambda: client.oneway("echo", {}), lambda: client.late_answers):
            try:
                use()
            except millpond.Error as error:
                assert "before a fork" in str(error), error
            else:
                raise AssertionError("the parent's client works in its child")
        client.close()
        # The last of it: dropped in the child, it must wait for nothing.
        del client, use
        with millpond.Client(address) as own:
            assert own.call("echo", {"a": 2}) == {"a": 2}
        assert asyncio.run(awaited_in_child(address)) == {"a": 3}
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)

def fork(clients, address):
    pid = os.fork()
    if pid == 0:
        in_child(clients, address)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
FORK = IN_CHILD + """
address = sys.argv[1]
clients = [millpond.Client(address)]
assert clients[0].call("echo", {"a": 1}) == {"a": 1}
assert fork(clients, address) == 0
assert clients[0].call("echo", {"a": 3}) == {"a": 3}
print("well")
"""
BUSY_FORK = IN_CHILD + """
import threading
address, ended = sys.argv[1], threading.Event()
clients = [millpond.Client(address)]

def calls():
    while not ended.is_set():
        clients[0].call("echo", {"a": 1})

async def awaited():
    async with millpond.AsyncClient(address) as own:
        while not ended.is_set():
            await asyncio.gather(*(own.call("echo", {"a": 1}) for _ in range(10)))

threads = [threading.Thread(target=calls) for _ in range(3)] + [threading.Thread(target=asyncio.run, args=(awaited(),))]
for thread in threads:
    thread.start()
try:
    for _ in range(20):
        assert fork(clients, address) == 0
finally:
    ended.set()
    for thread in threads:
        thread.join()
print("well")
"""
CTRL_C = """
import sys, millpond
client = millpond.Client(sys.argv[1], in_flight_max=1)
try:
    client.call("rank", {})
except KeyboardInterrupt:
    # The call that was left takes up nothing.
    try:
        client.call("rank", {}, 20)
    except millpond.TimeoutError:
        sys.exit(7)
"""
CTRL_C_ASYNC = """
import asyncio, sys, millpond

async def main():
    async with millpond.AsyncClient(sys.argv[1]) as client:
        await client.call("rank", {})

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(7)
"""
LEFT = """
import sys, threading, millpond
client = millpond.Client(sys.argv[1])
for _ in range(4):
    threading.Thread(target=client.call, args=("rank", {}), daemon=True).start()
sys.stdin.readline()
"""


class Forks(Served):
    def check(self, script):
        self.assertEqual(finish(start(script, self.address)), ("well\n", 0))

    def test_a_fork_makes_a_client_of_its_own(self):
        self.check(FORK)

    def test_forks_in_the_midst_of_calls(self):
        self.check(BUSY_FORK)


class Ends(Served):
    def interrupt(self, script):
        arrived = threading.Event()
        with Peer(silent(arrived)) as peer:
            child = start(HEEDED + script, peer.address)
            self.assertTrue(arrived.wait(TIMEOUT_S))
            child.send_signal(signal.SIGINT)
            self.assertEqual(finish(child), ("", INTERRUPTED))

    def test_ctrl_c_ends_a_call(self):
        self.interrupt(CTRL_C)

    def test_ctrl_c_ends_an_awaited_call(self):
        self.interrupt(CTRL_C_ASYNC)

    def test_the_interpreter_ends_with_calls_under_way(self):
        arrived = threading.Event()
        with Peer(silent(arrived, 4)) as peer:
            child = start(LEFT, peer.address)
            self.assertTrue(arrived.wait(TIMEOUT_S))
            self.assertEqual(finish(child), ("", 0))


class Example(Served):
    TABLES = """
[models.ranker]
backend = "practice"
behaviour = "wait"
us = 1
width = 4
[pipelines.rank]
request = "rank"
[[pipelines.rank.stages]]
name = "user_key"
hash = { slot = "user", from = "user.id" }
[[pipelines.rank.stages]]
name = "item_keys"
hash = { slot = "film", from = "items" }
[[pipelines.rank.stages]]
name = "user_vec"
lookup = { table = "films", keys = "user_key" }
[[pipelines.rank.stages]]
name = "item_vecs"
lookup = { table = "films", keys = "item_keys" }
[[pipelines.rank.stages]]
name = "x"
assemble = { columns = ["user_vec", "item_vecs"] }
[[pipelines.rank.stages]]
name = "scores"
model = { model = "ranker", input = "x" }
"""

    def test_the_example_ranks(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="millpond-python-"))
        run("features", "random", "--out", folder, "--name", "films", "--rows", "10", "--dim", "2")
        tables = f"""
[features.films]
path = "{folder}/films"
{self.TABLES}"""
        with Millpond(tables=tables) as server:
            script = (PACKAGE / "examples" / "rank.py").read_text(encoding="utf-8")
            out, status = finish(start(script, server.address))
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"(?s)user 246: .*0\.0000  film 50\n.*ranked for 100 users at once")
