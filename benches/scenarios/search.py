"""search.py MILLPOND FOLDER CAPACITY...: searches servers of these capacities, each into a folder below FOLDER.

Prints how far off the worst answer is, as a share of its capacity, and leaves the longest search's seconds in FOLDER/searches.txt.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

millpond, folder, *capacities = sys.argv[1:]
offs, times = [], []
for capacity in map(int, capacities):
    out = Path(folder, f"search-{capacity}")
    words = [millpond, "press", "search", "benches/scenarios/searched.toml", "--quiet", "--out", str(out)]
    began = time.monotonic()
    subprocess.run([*words, "--set", f"grid.rate=[{capacity}]"], stdout=sys.stderr)
    times.append(time.monotonic() - began)
    found = json.loads((out / "result.json").read_text())["search"]
    # The answer is an interval; its worse end counts.
    offs.append(max(abs(found[key] - capacity) / capacity for key in ("rate_met", "rate_missed")))
Path(folder, "searches.txt").write_text(f"{max(times)}\n")
print(max(offs))
