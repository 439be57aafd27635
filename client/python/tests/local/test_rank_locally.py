"""The demo's ranker in this process: a small one, trained on generated data, scores as offline and ranks as a server does."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

from package import PACKAGE

import millpond

ROOT = PACKAGE.parents[1]
EXAMPLE = ROOT / "examples" / "movielens"
SCRIPT = PACKAGE / "examples" / "rank_locally.py"
TIMEOUT_S = 120
# Behind the package: the example has a module `millpond` of its own.
sys.path += [str(ROOT / "tests" / "interop"), str(EXAMPLE), str(SCRIPT.parent)]

import export  # noqa: E402
import generated  # noqa: E402
import offline  # noqa: E402
import rank_locally  # noqa: E402
import ranker  # noqa: E402
from events import cut  # noqa: E402
from millpond_server import missing, program  # noqa: E402
from rows import rows, vocabulary  # noqa: E402


def train(folder):
    """Writes what the demo's trainer writes, of generated users and films."""
    users, films = generated.users(30), generated.films(90)
    vocab = vocabulary(users, films)
    parts = {user: cut(ordered) for user, ordered in generated.events(11).items()}
    training = {user: before for user, (before, _) in parts.items()}
    held_out = {user: after for user, (_, after) in parts.items() if after}
    train_rows = rows(vocab, training, training)
    parameters = ranker.train(vocab, train_rows, ranker.Hyperparameters(learning_rate=5e-3, weight_decay=1e-4, epochs=4), seed=1)
    export.write_all(folder, parameters, vocab, train_rows, films, training, held_out)
    export.write_lines(folder / "offline_scores.jsonl", ({"scores": scores} for scores in offline.score_requests(folder)))


def build(folder):
    """Makes table and store of it with the binary, as the demo does."""
    commands = [
        ["features", "build", "--input", folder / "embeddings.parquet", "--out", folder / "tables", "--name", "embeddings"],
        ["ordered", "load", folder / "events", folder / "events.jsonl"],
    ]
    for command in commands:
        subprocess.run([program(), *command], check=True, capture_output=True, timeout=TIMEOUT_S)
    shutil.copyfile(EXAMPLE / "local.toml", folder / "local.toml")


class RankLocally(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise AssertionError(why)
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        train(cls.folder)
        build(cls.folder)

    def run_script(self, folder=None):
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        return subprocess.run(
            [sys.executable, SCRIPT, folder or self.folder], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )

    def test_scores_equal_those_computed_offline(self):
        found = self.run_script()
        self.assertEqual((found.returncode, found.stderr), (0, ""), found.stdout)
        requests = rank_locally.read_lines(self.folder / "heldout.jsonl")
        films = sum(len(request["items"]) for request in requests)
        self.assertIn(f"ranked {films} films of {len(requests)} users; largest difference from an offline score: ", found.stdout)
        self.assertEqual(found.stdout.count("user "), rank_locally.SHOWN_USERS)

    def test_a_folder_without_the_demo_is_named(self):
        found = self.run_script(self.folder / "tables")
        self.assertEqual((found.returncode, found.stdout), (1, ""))
        self.assertIn("tables has no local.toml; run `make demo`", found.stderr)

    def test_another_score_is_found(self):
        path = self.folder / "offline_scores.jsonl"
        kept = path.read_text()
        self.addCleanup(path.write_text, kept)
        lines = rank_locally.read_lines(path)
        lines[-1]["scores"][-1] += 0.01
        export.write_lines(path, lines)
        found = self.run_script()
        self.assertEqual(found.returncode, 1)
        self.assertIn("scores may differ by 0.0001, not by 1.0e-02", found.stderr)

    def test_the_ranking_is_that_of_a_server(self):
        requests = rank_locally.read_lines(self.folder / "heldout.jsonl")
        with millpond.Pipeline(self.folder / "local.toml") as pipe:
            here = [rank_locally.rank(pipe, request, top=5) for request in requests]
        text = (EXAMPLE / "movielens.toml").read_text()
        config = self.folder / "server.toml"
        config.write_text(text.replace(":13500", ":0").replace(":13590", ":0"))
        server = millpond.serve(config)
        self.addCleanup(server.stop)
        with millpond.Client(server.address) as client:
            for request, expected in zip(requests, here, strict=True):
                answer = client.call("rank", {"user": request["user"], "items": request["items"], "top": 5})
                self.assertEqual(list(zip(answer["items"], answer["scores"], strict=True)), expected)

    def test_its_stages_are_those_of_the_server(self):
        def stages(name, renamed):
            text = (EXAMPLE / name).read_text()
            for old, new in renamed.items():
                text = text.replace(old, new)
            return tomllib.loads(text)["pipelines"]["rank"]["stages"]

        as_inputs = {"user.id": "inputs.user", '"user.': '"inputs.', 'from = "items"': 'from = "inputs.films"'}
        self.assertEqual(stages("local.toml", {}), stages("movielens.toml", as_inputs))


if __name__ == "__main__":
    unittest.main()
