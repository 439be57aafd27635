"""A value of a server's metrics: the last line printed.

    python3 gauge.py ADMIN_ADDRESS NAME_WITH_LABELS"""

import sys
import urllib.request

address, name = sys.argv[1:]
with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
    values = [line.split()[-1] for line in page.read().decode().splitlines() if line.rsplit(" ", 1)[0] == name]
if not values:
    sys.exit(f"http://{address}/metrics has no {name}")
print(values[0])
