"""The demo's side of the server: its configuration, its ports, its client, its child process. Plain Python 3.11."""

import http.server
import json
import socket
import stat
import sys
import tempfile
import threading
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import millpond
from events import HISTORY_MAX
from keys import BLOCKS
from narrate import CommandFailed

CONFIG = Path(__file__).resolve().parent / "movielens.toml"


class Configuration(unittest.TestCase):
    def setUp(self):
        self.stages = tomllib.loads(CONFIG.read_text())["pipelines"]["rank"]["stages"]

    def test_the_model_input_is_in_the_order_of_the_blocks(self):
        by_name = {stage["name"]: stage for stage in self.stages}
        slots = []
        for column in by_name["x"]["assemble"]["columns"]:
            lookup = by_name[column]["lookup"]
            hashed = by_name[lookup["keys"]]["hash"]
            slots.append("history" if hashed["from"] == "recent" else hashed["slot"])
            self.assertEqual(lookup["pool"], "mean" if hashed["from"] == "recent" else "none")
        self.assertEqual(tuple(slots), BLOCKS)

    def test_the_scan_reads_as_many_events_as_the_trainer_did(self):
        scan = next(stage["scan"] for stage in self.stages if "scan" in stage)
        self.assertEqual((scan["limit"], scan["prefix"]), (HISTORY_MAX, "u/{user.id}/"))

    def test_ports_that_are_taken_are_replaced(self):
        moved = {13500: 13500, 13590: 40001}
        with mock.patch("millpond.say") as said:
            text, port, admin = millpond.place(CONFIG.read_text(), choose=moved.__getitem__)
        said.assert_called_once_with("port 13590 is in use; taking 40001")
        placed = tomllib.loads(text)
        self.assertEqual((port, admin), (13500, 40001))
        self.assertEqual((placed["server"]["listen"], placed["admin"]["listen"]), ("127.0.0.1:13500", "127.0.0.1:40001"))
        self.assertEqual(placed["pipelines"], tomllib.loads(CONFIG.read_text())["pipelines"])

    def test_a_configuration_without_both_addresses_is_refused(self):
        with self.assertRaisesRegex(CommandFailed, "has 1 listen addresses"):
            millpond.place('listen = "127.0.0.1:1"\n', choose=lambda wanted: wanted)

    def test_free_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            wanted = taken.getsockname()[1]
            self.assertNotEqual(millpond.free_port(wanted), wanted)
        self.assertEqual(millpond.free_port(wanted), wanted)


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every call with what the test put into `answer`, keeping what it was asked in `asked`."""

    protocol_version = "HTTP/1.1"
    answer = (200, b"{}")
    asked = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, json.loads(body)))
        status, text = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Client(unittest.TestCase):
    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Answering)
        Answering.asked = []
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.client = millpond.Client(self.server.server_port)

        def stop():
            self.client.close()
            self.server.shutdown()
            thread.join()
            self.server.server_close()

        self.addCleanup(stop)

    def answer(self, status, text):
        Answering.answer = (status, text if isinstance(text, bytes) else json.dumps(text).encode())

    def test_rank_sends_the_contract_and_keeps_the_order(self):
        self.answer(200, {"items": ["9", "4"], "scores": [0.75, 0.5], "model": "ranker", "versions": {"embeddings": 1}})
        self.assertEqual(self.client.rank({"id": "1"}, ["4", "9", "2"], top=2), [("9", 0.75), ("4", 0.5)])
        self.assertEqual(Answering.asked, [
            ("/service/rank", {"pipeline": "rank", "user": {"id": "1"}, "items": ["4", "9", "2"], "top": 2})])

    def test_answers_for_other_items_are_refused(self):
        for items in (["4"], ["4", "4"], ["4", "5"]):
            self.answer(200, {"items": items, "scores": [0.5] * len(items)})
            with self.assertRaisesRegex(CommandFailed, "2 of the 2 items expected"):
                self.client.rank({"id": "1"}, ["4", "9"])

    def test_errors_carry_the_servers_words(self):
        self.answer(429, {"code": 30101, "ex": "queue full", "retryable": True})
        with self.assertRaisesRegex(CommandFailed, "429.*queue full"):
            self.client.rank({"id": "1"}, ["4"])
        self.answer(200, b"<html>")
        with self.assertRaisesRegex(CommandFailed, "not JSON"):
            self.client.call("rank", {})

    def test_no_server(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            client = millpond.Client(unused.getsockname()[1])
            with self.assertRaisesRegex(CommandFailed, "no answer"):
                client.call("rank", {})


class Child(unittest.TestCase):
    """`Server` against a script in the place of the binary: how a child ends is the same for any program."""

    def server(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "program"
        program.write_text(f"#!{sys.executable}\n{script}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        log = Path(folder.name) / "log"
        server = millpond.Server(millpond.Binary(program), "x.toml", 1, millpond.free_port(0), log)
        self.addCleanup(server.__exit__)
        return server

    def test_dying_before_ready_shows_the_log(self):
        server = self.server("import sys; print('table is truncated'); sys.exit(3)")
        with self.assertRaisesRegex(CommandFailed, "(?s)status 3 before it was ready.*table is truncated"):
            server.wait_ready()

    def test_a_stop_with_another_status_than_0_is_an_error(self):
        ready = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit({})); print(1, flush=True); time.sleep(60)"
        for status in (0, 4):
            server = self.server(ready.format(status))
            while not server.log.read_bytes():
                self.assertIsNone(server.child.poll())
            if status == 0:
                server.stop()
                self.assertEqual(server.child.returncode, 0)
            else:
                with self.assertRaisesRegex(CommandFailed, "status 4 after SIGTERM"):
                    server.stop()

    def test_a_missing_binary_says_how_to_build_it(self):
        with self.assertRaisesRegex(CommandFailed, "cargo build -p millpond-cli"):
            millpond.Binary("no/such/millpond")


if __name__ == "__main__":
    unittest.main()
