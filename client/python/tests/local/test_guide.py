"""The first examples of the guide and of the README do what they say there."""

import contextlib
import io
import re
import unittest

from package import PACKAGE

DOCUMENTS = [PACKAGE / "README.md", PACKAGE.parents[1] / "docs" / "python.md"]


class Guide(unittest.TestCase):
    def test_its_first_example_prints_what_it_says(self):
        for document in DOCUMENTS:
            with self.subTest(document.name):
                code = re.search(r"```python\n(import millpond\n.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)[1]
                said = [line.partition("# ")[2] for line in code.splitlines() if re.search(r"print\(.*# [{\d]", line)]
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, str(document), "exec"), {})  # noqa: S102
                self.assertTrue(said)
                for line in said:
                    self.assertIn(line, printed.getvalue().splitlines())


if __name__ == "__main__":
    unittest.main()
