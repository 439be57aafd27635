"""Stamps and narrated commands: what is reused, what is built again, what is printed meanwhile. Plain Python 3.11."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import narrate
from stamp import Stamp, digest_files


class Reuse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = Path(folder.name)
        self.source = self.directory / "source"
        self.source.write_text("one")
        (self.directory / "made").write_text("from one")
        self.stamp().write()

    def stamp(self):
        return Stamp(self.directory, digest_files([self.source]), ("made",))

    def test_the_same_inputs_and_outputs_are_current(self):
        self.assertTrue(self.stamp().is_current())

    def test_another_input_a_changed_output_or_a_lost_one_is_not(self):
        self.source.write_text("two")
        self.assertFalse(self.stamp().is_current())
        self.source.write_text("one")
        self.assertTrue(self.stamp().is_current())
        (self.directory / "made").write_text("by hand")
        self.assertFalse(self.stamp().is_current())
        (self.directory / "made").unlink()
        self.assertFalse(self.stamp().is_current())

    def test_a_forgotten_or_torn_stamp_is_not(self):
        stamp = self.stamp()
        stamp.path.write_text(stamp.path.read_text()[:20])
        self.assertFalse(stamp.is_current())
        stamp.forget()
        self.assertFalse(stamp.is_current())


class Narration(unittest.TestCase):
    def run_python(self, script):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), mock.patch("narrate.HEARTBEAT_S", 0.05):
            output = narrate.run([sys.executable, "-u", "-c", script], "counting")
        return output, printed.getvalue()

    def test_output_comes_through_and_silence_is_filled(self):
        output, printed = self.run_python("import time; print('one'); time.sleep(0.5); print('two')")
        self.assertEqual(output, "one\ntwo\n")
        self.assertIn("  one\n", printed)
        self.assertIn("... counting", printed)

    def test_a_failing_or_missing_command_is_an_error(self):
        with self.assertRaisesRegex(narrate.CommandFailed, "counting: .* ended with status 7"):
            self.run_python("import sys; sys.exit(7)")
        with self.assertRaisesRegex(narrate.CommandFailed, "cannot start no-such-program"):
            narrate.run(["no-such-program"], "counting")


if __name__ == "__main__":
    unittest.main()
