"""Takes a picture of a job in the web UI, with headless Chromium.

    python3 docs/pictures/webui.py stint docs/pictures/webui.png

It starts a server, a worker and a job over examples/data, waits until it has completed (a page that still changes is never done for a
headless browser), has Chromium (that of Debian, or another one in CHROMIUM) draw the page with what the job says of itself, and ends
everything.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 120  # seconds until something must have happened


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, holds):
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.2)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: webui.py STINT PICTURE")
    stint, picture = str(Path(shutil.which(sys.argv[1]) or sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("there is no Chromium on this machine: install it, or name it in CHROMIUM")
    running = []
    with tempfile.TemporaryDirectory(prefix="strikes-") as work:
        shutil.copytree(ROOT / "examples", Path(work, "examples"))
        port, ui = free_port(), free_port()
        env = {"PATH": os.environ["PATH"], "HOME": work, "TEMPORAL_ADDRESS": f"127.0.0.1:{port}"}

        def start(*args):
            running.append(subprocess.Popen([stint, *args], cwd=work, env=env, stderr=subprocess.DEVNULL))

        def ask(*args):
            return subprocess.run([stint, *args], cwd=work, env=env, capture_output=True, text=True)

        try:
            start("server", "--port", str(port), "--ui-port", str(ui))
            until("the server", lambda: ask("list").returncode == 0)
            start("worker", "--pool", "strikes", "--allow", ".", "--exec", "awk '/American kestrel/ { exit 7 } 1'", "--slots", "2")
            ask("start", "--pool", "strikes", "--name", "strikes", "examples/data/birdstrikes.csv", "-o", "strikes.jsonl", "--batch-items", "500",
                "--wait")
            run = json.loads(ask("status", "strikes", "--json").stdout)["run"]
            page = f"http://127.0.0.1:{ui}/namespaces/default/workflows/strikes/{run}/user-metadata"
            subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,860",
                            "--virtual-time-budget=20000", f"--user-data-dir={work}/chromium", f"--screenshot={picture}", page],
                           check=True, stderr=subprocess.DEVNULL, timeout=LIMIT)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()
    print(f"{picture}: {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
