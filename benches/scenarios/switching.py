"""switching.py ADDRESS TOKEN TABLE PROGRAM ARGUMENT...: becomes PROGRAM, a server, while a child has it switch between versions 1 and 2 every second.

A switch that is refused ends the server, so that no figure is of a server that did not switch.
"""

import json
import os
import signal
import sys
import time
import urllib.request


def switch(address, token, table, version):
    body = json.dumps({"table": table, "version": version, "_token": token}).encode()
    request = urllib.request.Request(f"http://{address}/service/features.activate", body)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["active"]


def main(address, token, table):
    server, version = os.getppid(), 1
    while os.getppid() == server:
        time.sleep(1)
        try:
            if switch(address, token, table, version) != version:
                os.kill(server, signal.SIGKILL)
        except OSError as error:
            # Before it listens, and after its end, nobody answers; a refusal is another matter.
            if isinstance(error, urllib.error.HTTPError) and os.getppid() == server:
                os.kill(server, signal.SIGKILL)
        else:
            version = 3 - version


if __name__ == "__main__":
    if os.fork() == 0:
        main(*sys.argv[1:4])
    else:
        os.execv(sys.argv[4], sys.argv[4:])
