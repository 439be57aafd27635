"""A client of Redis that others wrote against a real Millpond server: redis-py, in RESP2 and RESP3; and ordered stores beside a real
Redis, reply by reply. Plain Python 3.11.
"""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import redis

from millpond_server import Millpond, missing, program

# A bound for a server that hangs; no test waits for it otherwise.
TIMEOUT_S = 30
ROWS = 1000
DIM = 10
# A key that no row of the table has: keys of random tables are below the number of their rows.
ABSENT = 10**12
TABLES = """
[server.resp]
listen = "127.0.0.1:0"
[features.items]
path = "{folder}/items"
resp_database = 1
"""


class Resp(unittest.TestCase):
    def setUp(self):
        if reason := missing():
            raise unittest.SkipTest(reason)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="millpond-resp-"))
        make = [program(), "features", "random", "--out", self.folder, "--name", "items", "--rows", str(ROWS), "--dim", str(DIM)]
        subprocess.run(make, check=True, capture_output=True)

    def server(self, more=""):
        tables = TABLES.format(folder=Path(self.folder)) + more
        return self.enterContext(Millpond(tables=tables))

    def client(self, server, **options):
        host, port = server.resp.rsplit(":", 1)
        client = redis.Redis(host=host, port=int(port), db=1, socket_timeout=TIMEOUT_S, **options)
        self.addCleanup(client.close)
        return client

    def test_rows_in_both_versions(self):
        server = self.server()
        for protocol in (2, 3):
            with self.subTest(protocol=protocol):
                client = self.client(server, protocol=protocol)
                self.assertTrue(client.ping())
                self.assertEqual(client.dbsize(), ROWS)
                row = client.get(7)
                self.assertEqual(len(row), 4 * DIM)
                self.assertEqual(client.mget([ABSENT, 7]), [None, row])
                self.assertEqual((client.exists(7, 7, ABSENT), client.strlen(7)), (2, 4 * DIM))
                self.assertEqual((client.type(7), client.type(ABSENT)), (b"string", b"none"))
                self.assertEqual(client.info("keyspace")["db1"]["keys"], ROWS)
                self.assertEqual(client.config_get("save"), {"save": ""})
                self.assertIn("get", client.command())

    def test_a_scan_and_a_pipeline(self):
        client = self.client(self.server())
        keys = list(client.scan_iter(count=64))
        self.assertEqual((len(keys), len(set(keys))), (ROWS, ROWS))
        self.assertEqual(sorted(client.scan_iter(match="99?")), [b"%d" % key for key in range(990, 1000)])
        pipeline = client.pipeline(transaction=False)
        for key in keys[:64]:
            pipeline.get(key)
        self.assertEqual(pipeline.execute(), client.mget(keys[:64]))

    def test_refusals_are_errors_of_their_kind(self):
        client = self.client(self.server())
        with self.assertRaises(redis.exceptions.ReadOnlyError):
            client.set("1", "2")
        with self.assertRaisesRegex(redis.exceptions.ResponseError, "'a' is no key of table 'items'"):
            client.get("a")
        with self.assertRaisesRegex(redis.exceptions.ResponseError, "unknown command 'HGETALL'"):
            client.hgetall("a")

    def test_a_token_is_a_password(self):
        server = self.server('[access.tokens.ranking]\ntoken = "s3cret"\nmethods = ["features.*"]\n')
        self.assertEqual(self.client(server, password="s3cret").dbsize(), ROWS)
        self.assertEqual(self.client(server, username="ranking", password="s3cret").dbsize(), ROWS)
        with self.assertRaises(redis.exceptions.AuthenticationError):
            self.client(server, password="other").dbsize()
        with self.assertRaises(redis.exceptions.AuthenticationError):
            self.client(server).dbsize()


STORES = """
resp_database = 0
[server.resp]
listen = "127.0.0.1:0"
[ordered.synced]
path = "synced"
resp_database = 1
"""
# Commands of a pipeline, pipelines of a sequence, and connections that send some at once.
DEPTH = 64
PIPELINES = 60
CONNECTIONS = 4
KEYS = 12
VALUES = ["1", "-5", "x", "9223372036854775807", "", "007", "two words", b"\xff\r\n\0"]
# Moments that are far from now.
SECONDS, UNIX_MS = 4102444800, 4102444800123
TIMES = {"TTL": 1, "EXPIRETIME": 1, "PTTL": 60_000, "PEXPIRETIME": 60_000}


class Sequence:
    """Random commands on some keys of their own."""

    def __init__(self, seed, prefix):
        self.random = random.Random(f"{seed} {prefix}")
        self.keys = [f"{prefix}:{number}" for number in range(KEYS)]

    def command(self):
        pick = self.random.choice
        key, other, third = (pick(self.keys) for _ in range(3))
        value, place, far = pick(VALUES), pick([0, 1, 2, 5, -1, -2, -3, 100, -100]), pick([0, 1, -1, 3, "x"])
        return pick(
            [
                ("GET", key), ("GET", key), ("GET", key), ("GET",), ("STRLEN", key), ("EXISTS", key, other, key), ("TYPE", key),
                ("SET", key, value), ("SET", key, value), ("SET", key, value, "NX"), ("SET", key, value, "XX"), ("SET", key, value, "GET"),
                ("SET", key, value, "XX", "GET"), ("SET", key, value, "KEEPTTL"), ("SET", key, value, "EX", pick([0, 500, "a"])),
                ("SET", key, value, "PX", 500_000), ("SET", key, value, "EXAT", SECONDS), ("SET", key, value, "PXAT", pick([1, UNIX_MS])),
                ("SET", key, value, "NX", "EX", 700), ("SET", key, value, "NX", "XX"), ("SET", key, value, "EX", 5, "KEEPTTL"),
                ("SETNX", key, value), ("SETEX", key, pick([900, 0]), value), ("PSETEX", key, 900_000, value), ("GETSET", key, value),
                ("GETDEL", key), ("GETEX", key), ("GETEX", key, "EX", 800), ("GETEX", key, "PERSIST"), ("GETEX", key, "EX", 1, "PERSIST"),
                ("MSET", key, value, other, "m"), ("MSET", key), ("MSETNX", key, value, other, value), ("MSETNX", key, value, key, "m"),
                ("APPEND", key, value), ("INCR", key), ("DECR", key), ("INCRBY", key, pick([7, -7, "y"])), ("DECRBY", key, value),
                ("EXPIRE", key, pick([1000, -1, 0, "z"])), ("PEXPIRE", key, 1_000_000), ("EXPIREAT", key, pick([SECONDS, 1])),
                ("PEXPIREAT", key, UNIX_MS), ("PERSIST", key), ("TTL", key), ("PTTL", key), ("EXPIRETIME", key), ("PEXPIRETIME", key),
                ("DEL", key, other, key), ("UNLINK", key), ("LPUSH", key, value), ("LPUSH", key, value, "w", "z"), ("LPUSH", key),
                ("LTRIM", key, place, far), ("LRANGE", key, place, far), ("LLEN", key), ("LINDEX", key, place), ("LRANGE", third, 0, -1),
                ("NOSUCH", key), ("ECHO", value),
            ]
        )  # fmt: skip

    def pipeline(self):
        return [self.command() for _ in range(self.random.choice([1, 3, DEPTH, 2 * DEPTH + 5]))]


def answers(client, commands, transaction=False):
    pipeline = client.pipeline(transaction=transaction)
    # Replies as they come: what redis-py makes of them is its own.
    pipeline.response_callbacks = {}
    for command in commands:
        pipeline.execute_command(*command)
    return [str(answer) if isinstance(answer, Exception) else answer for answer in pipeline.execute(raise_on_error=False)]


def are_alike(command, found, expected):
    if command[0] in TIMES and isinstance(found, int) and isinstance(expected, int) and expected > 0:
        return abs(found - expected) <= TIMES[command[0]]
    return found == expected


class Stores(unittest.TestCase):
    """Ordered stores, one in memory and one whose writes are synced."""

    def setUp(self):
        if reason := missing():
            raise unittest.SkipTest(reason)
        self.server = self.enterContext(Millpond(tables=STORES))

    def client(self, database, **options):
        host, port = self.server.resp.rsplit(":", 1)
        client = redis.Redis(host=host, port=int(port), db=database, socket_timeout=TIMEOUT_S, **options)
        self.addCleanup(client.close)
        return client

    def real(self):
        """A Redis of the test's own."""
        if not shutil.which("redis-server"):
            raise unittest.SkipTest("redis-server is not here: apt-get install redis-server")
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="millpond-redis-"))
        path = os.path.join(folder, "redis.sock")
        words = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        until = time.monotonic() + TIMEOUT_S
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(path) == 0:
                    break
            self.assertLess(time.monotonic(), until, "redis-server does not listen")
            time.sleep(0.01)

        def connect(**options):
            client = redis.Redis(unix_socket_path=path, socket_timeout=TIMEOUT_S, **options)
            self.addCleanup(client.close)
            return client

        return connect

    def compare(self, sequence, clients, real, rounds):
        for number in range(rounds):
            commands = sequence.pipeline()
            expected = answers(real, commands)
            for client in clients:
                found = answers(client, commands)
                for at, command in enumerate(commands):
                    if not are_alike(command, found[at], expected[at]):
                        self.fail(f"pipeline {number}, command {at}, {command}: {found[at]!r}, Redis says {expected[at]!r}")

    def test_random_commands_are_answered_as_by_redis(self):
        seed = random.randrange(2**32)
        print(f"test_random_commands_are_answered_as_by_redis: seed {seed}")
        real = self.real()
        for protocol in (2, 3):
            clients = [self.client(database, protocol=protocol) for database in (0, 1)]
            self.compare(Sequence(seed, f"resp{protocol}"), clients, real(protocol=protocol), PIPELINES)
        # What was left behind is the same too.
        keys = sorted(real().scan_iter())
        for client in (self.client(0), self.client(1)):
            self.assertEqual(sorted(client.scan_iter(count=7)), keys)
            self.assertEqual(client.dbsize(), len(keys))
            for kind in ("string", "list"):
                found = sorted(client.scan_iter(match="resp2*", _type=kind))
                self.assertEqual(found, sorted(real().scan_iter(match="resp2*", _type=kind)))

    def test_connections_at_once_are_each_answered_as_by_redis(self):
        seed = random.randrange(2**32)
        print(f"test_connections_at_once_are_each_answered_as_by_redis: seed {seed}")
        real, problems = self.real(), []

        def run(number, client, real):
            try:
                self.compare(Sequence(seed, f"connection{number}"), [client], real, PIPELINES // 2)
            except BaseException as problem:
                problems.append(problem)

        threads = []
        for number in range(CONNECTIONS):
            of_one = (number, self.client(number % 2), real())
            threads.append(threading.Thread(target=run, args=of_one))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]

    def test_transactions_are_answered_as_by_redis(self):
        real = self.real()
        for database in (0, 1):
            for name, client in (("store", self.client(database)), ("redis", real())):
                with self.subTest(name, database=database):
                    pipeline = client.pipeline(transaction=True)
                    pipeline.set("a", 1).incrby("a", 41).lpush("l", "x", "y").ltrim("l", 0, 0).lrange("l", 0, -1).ttl("a").get("a")
                    self.assertEqual(pipeline.execute(), [True, 42, 2, True, [b"y"], -1, b"42"])
                    client.delete("a", "l")
        client = self.client(1)
        with self.assertRaises(redis.exceptions.ResponseError):
            client.pipeline().set("a", "text").incr("a").execute()
        self.assertIsNone(client.get("a"), "a transaction takes effect whole or not at all")
        with self.assertRaisesRegex(redis.exceptions.ResponseError, "cannot be queued"):
            client.pipeline().set("a", "text").set("a", "other", nx=True).execute()
        self.assertIsNone(client.get("a"))

    def test_keys_expire(self):
        for database in (0, 1):
            client = self.client(database)
            self.assertTrue(client.set("short", "x", px=40))
            self.assertTrue(client.set("long", "x", ex=1000))
            until = time.monotonic() + TIMEOUT_S
            while client.get("short") is not None:
                self.assertLess(time.monotonic(), until)
            self.assertEqual((client.ttl("short"), client.exists("short"), client.type("short")), (-2, 0, b"none"))
            self.assertTrue(client.set("short", "y", nx=True))
            self.assertIn(client.ttl("long"), (999, 1000))
            # Increments leave the time as it is, and a put takes it away.
            client.setex("count", 1000, 5)
            self.assertEqual((client.incr("count"), client.ttl("count") > 900), (6, True))
            client.set("count", 1)
            self.assertEqual(client.ttl("count"), -1)

    def test_ranges_of_keys_are_read_in_order(self):
        client = self.client(1)
        client.mset({f"user:{number:02}": number for number in range(30)})
        (cursor, page) = client.execute_command("ORDERED.SCAN", "user:10", "user:20", "LIMIT", 4)
        self.assertEqual(page, [b"user:10", b"10", b"user:11", b"11", b"user:12", b"12", b"user:13", b"13"])
        (cursor, page) = client.execute_command("ORDERED.SCAN", "user:10", "user:20", "KEYS", "CURSOR", cursor)
        self.assertEqual((cursor, page), (None, [b"user:%d" % number for number in range(14, 20)]))
        self.assertEqual(client.command()["ordered.scan"]["arity"], -3)


if __name__ == "__main__":
    unittest.main()
