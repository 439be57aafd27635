"""A client of Redis that others wrote against a real Millpond server: redis-py, in RESP2 and RESP3. Plain Python 3.11."""

import subprocess
import tempfile
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


if __name__ == "__main__":
    unittest.main()
