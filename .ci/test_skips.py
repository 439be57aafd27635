"""Which skips are found, and which of them fail. Plain Python 3.11."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import skips

PROGRAM = Path(skips.__file__)
CARGO = """\
running 3 tests
test frame::tests::one ... ok
test metrics::tests::cost ... ignored, a measurement
test src/lib.rs - Frame (line 3) ... ignored
test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured
"""
MODULE = "import unittest\nraise unittest.SkipTest('no numpy')\n"
CASES = """\
import unittest
class Case(unittest.TestCase):
    def test_runs(self):
        pass
    @unittest.skip("by a line above it")
    def test_by_a_decorator(self):
        pass
    def test_by_parts(self):
        with self.subTest("IPv6"):
            self.skipTest("no IPv6")
class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no server")
    def test_never(self):
        pass
"""


def run(*words, ci):
    """(exit status, output) of the program."""
    done = subprocess.run([sys.executable, PROGRAM, *map(str, words)], capture_output=True, text=True, env={"CI": ci}, check=False)
    return done.returncode, done.stdout


class Skips(unittest.TestCase):
    def folder(self, **files):
        made = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in files.items():
            (made / f"{name}.py").write_text(text)
        return made

    def test_what_cargo_ignores(self):
        passed, found = skips.run_command([sys.executable, "-c", f"print({CARGO!r})"])
        self.assertTrue(passed)
        self.assertEqual(
            found,
            [("metrics::tests::cost", "a measurement"), ("src/lib.rs - Frame (line 3)", "no reason is given")],
        )
        self.assertEqual(skips.run_command([sys.executable, "-c", "exit(3)"]), (False, []))

    def test_what_unittest_skips(self):
        status, said = run("unittest", self.folder(test_cases=CASES, test_module=MODULE), ci="")
        self.assertEqual(status, 0, said)
        for name in ("test_cases.Case.test_by_a_decorator", "test_cases.Case.test_by_parts", "test_cases.Whole", "test_module"):
            self.assertIn(f"skipped, which would fail in CI: {name}: ", said)
        self.assertNotIn("test_runs", said)

    def test_in_ci_a_skip_fails(self):
        for text in (CASES, MODULE):
            status, said = run("unittest", self.folder(test_it=text), ci="true")
            self.assertEqual(status, 1)
            self.assertIn("SKIPPED, and CI skips nothing", said)

    def test_no_tests_at_all_fail(self):
        self.assertEqual(run("unittest", self.folder(), ci="")[0], 1)

    def test_failures_fail(self):
        text = "import unittest\nclass C(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n"
        self.assertEqual(run("unittest", self.folder(test_it=text), ci="")[0], 1)

    def test_the_list_decides(self):
        skipped, reasons = [("a", "why not"), ("b", "because")], {"a": "nobody can"}
        for in_ci, expected in ((True, False), (False, True)):
            lines, may_be = skips.verdict(skipped, reasons, in_ci)
            self.assertEqual((len(lines), may_be), (2, expected))
            self.assertIn("a: nobody can", lines[0])
        self.assertEqual(skips.verdict([], reasons, True), ([], True))

    def test_the_list_is_read(self):
        self.assertTrue(all(skips.allowed().values()))
        for text in ('[[skip]]\ntest = "a"\n', '[[skip]]\ntest = "a"\nreason = ""\n', '[[skip]]\ntest = "a"\nreason = "b"\nmore = 1\n'):
            path = self.folder() / "list.toml"
            path.write_text(text)
            with self.subTest(text), self.assertRaises(ValueError):
                skips.allowed(path)


if __name__ == "__main__":
    unittest.main()
