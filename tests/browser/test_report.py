"""The HTML report, looked at in headless Chromium: nothing missing, nothing said on the console, nothing asked of a network.

What a reader of its source cannot see is checked here: sizes, overlaps, overflow, contrast, print. Plain Python 3.11; Chromium
and chromedriver are Debian's. MILLPOND_SKIP_BROWSER=1 leaves it out.
"""

import base64
import contextlib
import os
import tempfile
import unittest
from pathlib import Path

import reports
from chromium import Chromium, provide

LOOKED_AT = (Path(__file__).resolve().parent / "looked_at.js").read_text(encoding="utf-8")
# A wide window, a narrow one and a phone, between which the page is laid out differently; the dark one differs in colour only.
LOOKS = (("light", 1400), ("light", 800), ("light", 380), ("dark", 800))
PDF_BYTES_MIN = 10_000
# The rest is usually the same fault in other pictures.
FAULTS_SHOWN = 12


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("MILLPOND_SKIP_BROWSER") == "1":
            raise unittest.SkipTest("MILLPOND_SKIP_BROWSER=1: nobody looks at the report")
        provide()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="millpond-reports-")))
        cls.browser = cls.enterClassContext(Chromium())
        cls.measured = cls.folder / "run"
        reports.measure(cls.measured)
        cls.content = reports.result(cls.measured)

    def derived(self, name, content):
        return reports.derived(self.folder / name, content)

    @contextlib.contextmanager
    def opened(self, page):
        """Opens `page`; at the end nothing may have been complained of, and nothing else loaded."""
        self.browser.open("about:blank")
        self.browser.console()
        self.browser.requests()
        self.browser.open(page.as_uri())
        yield self.browser
        complaints = [message for level, message in self.browser.console() if level in ("WARNING", "SEVERE")]
        self.assertEqual(complaints, [])
        self.assertEqual(self.browser.requests(), [page.as_uri()])

    def look(self, browser, figures):
        """Looks at the open page in every way of `LOOKS`."""
        for scheme, width in LOOKS:
            with self.subTest(scheme=scheme, width_px=width):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                browser.devtools("Emulation.setEmulatedMedia", media="", features=[feature])
                browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                self.assertEqual(browser.execute("return window.innerWidth"), width)
                dark = browser.execute("return matchMedia('(prefers-color-scheme: dark)').matches")
                self.assertEqual(dark, scheme == "dark")
                faults = browser.execute(f"{LOOKED_AT}\nreturn faults(arguments[0])", figures)
                if faults:
                    self.fail(f"{len(faults)} faults:\n" + "\n".join(faults[:FAULTS_SHOWN]))

    def test_one_run(self):
        with self.opened(reports.drawn(self.measured)) as browser:
            timelines = [f"figure-timeline-{point['number']}" for point in self.content["points"]]
            self.assertEqual(len(timelines), 3)
            self.look(browser, ["figure-percentiles", "figure-throughput", *timelines])

    def test_two_runs(self):
        before = self.derived("before", reports.before(self.content))
        figures = ["percentiles", "throughput"]
        for run in (1, 2):
            figures += [f"{name}-run-{run}" for name in ("percentiles", "throughput", "timeline-1", "timeline-3")]
        with self.opened(reports.drawn(self.measured, before)) as browser:
            self.look(browser, [f"figure-{name}" for name in figures])

    def test_long_names_many_loads_and_wide_axes(self):
        for targets in (1, 2):
            folder = self.derived(f"crowded-{targets}", reports.crowded(self.content, targets))
            with self.subTest(targets=targets), self.opened(reports.drawn(folder)) as browser:
                timelines = [f"figure-timeline-{number}" for number in (1, 10 * targets)]
                self.look(browser, ["figure-percentiles", "figure-throughput", *timelines])

    def test_partial_results(self):
        for state, failure in (("running", None), ("interrupted", None), ("failed", "the server ended")):
            folder = self.derived(state, reports.partial(self.content, state, failure))
            with self.subTest(state), self.opened(reports.drawn(folder)) as browser:
                self.look(browser, [])
                for figure in ("percentiles", "throughput"):
                    said = browser.execute("return document.getElementById(arguments[0]).innerText", f"figure-{figure}")
                    self.assertIn("nothing to draw", said)
                if failure:
                    self.assertIn(failure, browser.execute("return document.body.innerText"))

    def test_print(self):
        # More points than are unfolded at first, on a screen set to dark: paper is white and cannot be unfolded.
        page = reports.drawn(self.derived("printed", reports.crowded(self.content, targets=1)))
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        with self.opened(page) as browser:
            browser.devtools("Emulation.setEmulatedMedia", media="print", features=[dark])
            self.assertEqual(
                browser.execute("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)"
            )
            heights = browser.execute(
                "return [...document.querySelectorAll('.card-body')].map((one) => one.getBoundingClientRect().height)"
            )
            self.assertEqual(len(heights), 10)
            self.assertGreater(min(heights), 100)
            pdf = base64.b64decode(browser.devtools("Page.printToPDF", printBackground=False)["data"])
            self.assertEqual(pdf[:5], b"%PDF-")
            self.assertGreater(len(pdf), PDF_BYTES_MIN)


if __name__ == "__main__":
    unittest.main()
