"""Runs tests and lists the ones that were skipped. With CI=true a skip fails unless skips.toml allows it, with its reason.

    python3 .ci/skips.py unittest FOLDER       the Python tests of FOLDER, by this interpreter
    python3 .ci/skips.py COMMAND ARGUMENT...   any command that prints lines as `cargo test` does

Standard library only, Python 3.11. Its invariant: the exit status is 0 only when the tests ran, passed, and left out nothing
that CI may not leave out.
"""

import os
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

LIST = Path(__file__).resolve().parent / "skips.toml"
# As `cargo test` prints an ignored test; doc tests have spaces in their names.
IGNORED = re.compile(r"^test (?P<name>.+) \.\.\. ignored(?:, (?P<reason>.*))?$")


def allowed(path=LIST):
    """{name of a test: why CI may leave it out}."""
    reasons = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("skip", []):
        unknown = entry.keys() - {"test", "reason"}
        if unknown or not entry.get("test") or not entry.get("reason"):
            raise ValueError(f"{path}: a skip has a test and a reason, and nothing else: {entry}")
        reasons[entry["test"]] = entry["reason"]
    return reasons


def verdict(skips, reasons, in_ci):
    """(lines to print, whether all of it may be): `skips` are (name, reason) pairs."""
    lines, may_be = [], True
    for name, why in skips:
        if name in reasons:
            lines.append(f"skipped, as .ci/skips.toml allows: {name}: {reasons[name]}")
        elif in_ci:
            may_be = False
            lines.append(f"SKIPPED, and CI skips nothing that .ci/skips.toml does not allow: {name}: {why}")
        else:
            lines.append(f"skipped, which would fail in CI: {name}: {why}")
    return lines, may_be


def name_of(test):
    """The name of a test or of its subtest, without the parameters: `test_client.Sockets.test_families`."""
    # A module that raises SkipTest when it is imported stands as one test that is called like the module.
    if type(test).__name__ == "ModuleSkipped":
        return test._testMethodName
    # A class that does is named by what holds it: `setUpClass (test_client.Sockets)`.
    described = getattr(test, "description", None)
    if found := re.fullmatch(r"setUp(?:Class|Module) \((.+)\)", described or ""):
        return found[1]
    return getattr(test, "test_case", test).id()


def run_unittest(folder):
    """Runs a folder's tests: (whether they passed, their skips)."""
    suite = unittest.defaultTestLoader.discover(folder, pattern="test_*.py")
    found = suite.countTestCases()
    result = unittest.TextTestRunner(stream=sys.stderr).run(suite)
    if not found:
        print(f"skips.py: {folder} has no tests", flush=True)
    return result.wasSuccessful() and found > 0, [(name_of(test), why) for test, why in result.skipped]


def run_command(words):
    """Runs a command and shows its output: (whether it ended well, the tests that it ignored)."""
    skips = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace") as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            if found := IGNORED.match(line.rstrip("\n")):
                skips.append((found["name"], found["reason"] or "no reason is given"))
    return child.returncode == 0, skips


def main(words):
    if not words:
        sys.exit(__doc__)
    reasons = allowed()
    if words[0] == "unittest":
        if len(words) != 2:
            sys.exit("skips.py: unittest takes one folder")
        passed, skips = run_unittest(words[1])
    else:
        passed, skips = run_command(words)
    lines, may_be = verdict(skips, reasons, os.environ.get("CI", "").lower() in ("1", "true"))
    for line in lines:
        print(line, flush=True)
    sys.exit(0 if passed and may_be else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
