"""Headless Chromium, driven through chromedriver over plain HTTP. Plain Python 3.11.

It knows nothing of reports. Its invariant: whatever ends a test, no process of it is left and its profile is gone.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

CHROMIUM = Path("/usr/bin/chromium")
CHROMEDRIVER = Path("/usr/bin/chromedriver")
PACKAGES = ("chromium", "chromium-driver")
HOW_TO = (
    f"install them with `apt-get install {' '.join(PACKAGES)}` (Debian), or set MILLPOND_SKIP_BROWSER=1 to leave out the tests "
    "that look at the report"
)
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# How long the driver may take to start, and to answer one command.
TIMEOUT_S = 60
# How many ports the driver may find taken.
PORT_TRIES = 20


class BrowserFailed(Exception):
    """The browser is missing, does not start, or refuses a command."""


def missing():
    """The programs that are not there."""
    return [str(program) for program in (CHROMIUM, CHROMEDRIVER) if not os.access(program, os.X_OK)]


def provide():
    """Sees to it that both programs are there: root on Debian gets them installed, anyone else is told how."""
    if not missing():
        return
    apt = Path("/usr/bin/apt-get")
    if os.geteuid() != 0 or not apt.exists():
        raise BrowserFailed(f"{' and '.join(missing())} missing: {HOW_TO}")
    print(f"{' and '.join(missing())} missing; installing {' and '.join(PACKAGES)} with apt-get", flush=True)

    def run(*arguments):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run([apt, *arguments], env=environment, capture_output=True, text=True, check=False)

    install = ("install", "--yes", "--no-install-recommends", *PACKAGES)
    done = run(*install)
    if done.returncode != 0:
        # Package lists that are absent or out of date are the usual reason.
        run("update")
        done = run(*install)
    if done.returncode != 0 or missing():
        raise BrowserFailed(f"apt-get could not install them: {done.stderr.strip()[-600:]}; {HOW_TO}")


class Chromium:
    """One browser with one window, from `with` to its end."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="millpond-browser-", ignore_cleanup_errors=True)
        self._driver = None
        self._base = ""

    def __enter__(self):
        try:
            self._base = f"http://127.0.0.1:{self._start_driver()}"
            session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": {
                    "binary": str(CHROMIUM),
                    "args": [*ARGUMENTS, f"--user-data-dir={self._profile.name}"],
                },
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}})
            self._base += f"/session/{session['sessionId']}"
            # The browser's own first page loads things of its own: it is left before anyone listens.
            self.open("about:blank")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", "")
        except BrowserFailed:
            # It is killed below all the same.
            pass
        finally:
            self._end()

    def _start_driver(self):
        """Starts chromedriver on a free port and returns the port.

        Asked for port 0 it lets the system choose a port for ::1 and then wants the same one for 127.0.0.1, where a connection of
        anyone may have it. So a driver that ends for its port is started again.
        """
        for _ in range(PORT_TRIES):
            port, said = self._try_driver()
            if port is not None:
                return port
            self._end_driver()
            if "port not available" not in said:
                break
        raise BrowserFailed(f"{CHROMEDRIVER} did not start: {said.strip()[-600:]}")

    def _try_driver(self):
        """Starts chromedriver once; returns its port, or None, and what it said."""
        self._driver = subprocess.Popen(
            [CHROMEDRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # A group of its own, so that a browser it leaves behind can be ended with it.
            start_new_session=True,
        )
        late = threading.Timer(TIMEOUT_S, self._driver.kill)
        late.start()
        said = ""
        try:
            for line in self._driver.stdout:
                said += line
                if found := re.search(r"started successfully on port (\d+)", line):
                    # What it says later is read and dropped, or it would block on a full pipe.
                    threading.Thread(target=self._driver.stdout.read, daemon=True).start()
                    return int(found[1]), said
        finally:
            late.cancel()
        return None, said

    def _end_driver(self):
        if self._driver is None:
            return
        try:
            os.killpg(self._driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._driver.wait()
        self._driver = None

    def _end(self):
        self._end_driver()
        self._profile.cleanup()

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        # No proxy stands between this machine and itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as refused:
            raise BrowserFailed(f"{method} {path}: {refused.read().decode(errors='replace')[:600]}") from refused
        except OSError as failed:
            raise BrowserFailed(f"{method} {path}: {failed}") from failed

    def open(self, url):
        """Loads a page, to the end of its load."""
        self._call("POST", "/url", {"url": url})

    def execute(self, script, *arguments):
        """What `script`, the body of a function, returns within the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        """The answer to a command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self):
        """(level, message) of what the page had to say since the last call."""
        return [(entry["level"], entry["message"]) for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """The addresses that were asked for since the last call."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
