"""Takes a picture of a job in the web UI, or on stint's page, with headless Chromium.

    python3 docs/pictures/webui.py stint docs/pictures/webui.png
    python3 docs/pictures/webui.py stint docs/pictures/pipeline.png pipeline
    python3 docs/pictures/webui.py stint docs/pictures/page.png page

It starts a server, workers and a job over examples/data, waits until it has completed (a page that still changes is never done for a
headless browser), has Chromium (that of Debian, or another one in CHROMIUM) draw the page with what the job says of itself, and ends
everything. The second job is that of examples/pipeline; the third one is drawn on
stint's page, which needs no waiting: the server makes it.
"""

import json
import os
import re
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


def strikes(stint):
    """A job with one pool, some of whose items fail."""
    stint.worker("strikes", "--exec", "awk '/American kestrel/ { exit 7 } 1'", "--slots", "2")
    stint.ask("start", "--pool", "strikes", "--name", "strikes", "examples/data/birdstrikes.csv", "-o", "strikes.jsonl", "--batch-items", "500", "--wait")


def looked_at(stint):
    """A job that takes some seconds, some of whose items fail."""
    stint.worker("strikes", "--serve", "python3 fails.py", "--slots", "3")
    Path(stint.work, "fails.py").write_text(FAILS)
    stint.ask("start", "--pool", "strikes", "--name", "strikes", "examples/data/birdstrikes.csv", "-o", "strikes.jsonl", "--batch-items", "200", "--attempts", "1", "--wait")


FAILS = """
import random, sys, time
sys.path.insert(0, "python")
import stint

class RateLimited(Exception): pass

def one(record):
    if "kestrel" in str(record):
        return ValueError(f"no model for {record['Wildlife Species']!r}, {record['Wildlife Size']}")
    if "Grackle" in str(record).title():
        return RateLimited(f"the service has refused request {random.randrange(9999)} after {random.randrange(9)} s")
    return record

def score(records):
    time.sleep(random.lognormvariate(-1.5, 0.7))
    return [one(r) for r in records]

stint.serve(score)
"""


def pipeline(stint):
    """The example, with a worker for each of its pools."""
    file, _, pools = Path(stint.work, "examples/pipeline/pipeline.yaml").read_text().partition("pools:\n")
    Path(stint.work, "pipeline.yaml").write_text(file)
    for line in pools.splitlines():
        pool, kind, command = re.fullmatch(r'  (\w+): \{(exec|serve): "?(.*?)"?(?:, slots: \d+)?\}', line).groups()
        stint.worker(pool, "--" + kind, command, "--slots", "1")
    stint.ask("start", "-f", "pipeline.yaml", "--name", "pipeline", "--wait")


JOBS = {"strikes": (strikes, "1280,860"), "pipeline": (pipeline, "1280,985"), "page": (looked_at, "1280,1000")}


class Stint:
    """The program, in a directory of its own with the examples."""

    def __init__(self, program, work):
        self.program, self.work, self.running = program, work, []
        shutil.copytree(ROOT / "examples", Path(work, "examples"))
        shutil.copytree(ROOT / "python", Path(work, "python"))
        self.port, self.ui = free_port(), free_port()
        self.env = {"PATH": os.environ["PATH"], "HOME": work, "TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}"}

    def start(self, *args):
        self.running.append(subprocess.Popen([self.program, *args], cwd=self.work, env=self.env, stderr=subprocess.DEVNULL))

    def ask(self, *args):
        return subprocess.run([self.program, *args], cwd=self.work, env=self.env, capture_output=True, text=True)

    def server(self):
        self.start("server", "--port", str(self.port), "--ui-port", str(self.ui))
        until("the server", lambda: self.ask("list").returncode == 0)

    def worker(self, pool, *args):
        self.start("worker", "--pool", pool, "--allow", ".", *args)

    def page(self, kind):
        name = "strikes" if kind == "page" else kind
        if kind == "page":
            return f"http://127.0.0.1:{self.ui}/stint/jobs/{name}"
        run = json.loads(self.ask("status", name, "--json").stdout)["run"]
        return f"http://127.0.0.1:{self.ui}/namespaces/default/workflows/{name}/{run}/user-metadata"

    def end(self):
        for process in reversed(self.running):
            process.terminate()
            process.wait()


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] and sys.argv[3] not in JOBS:
        sys.exit("usage: webui.py STINT PICTURE [strikes|pipeline|page]")
    program, picture = str(Path(shutil.which(sys.argv[1]) or sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
    name = (sys.argv[3:] or ["strikes"])[0]
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("there is no Chromium on this machine: install it, or name it in CHROMIUM")
    with tempfile.TemporaryDirectory(prefix="strikes-") as work:
        stint = Stint(program, work)
        run, size = JOBS[name]
        try:
            stint.server()
            run(stint)
            subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}",
                            "--timeout=5000" if name == "page" else "--virtual-time-budget=20000", f"--user-data-dir={work}/chromium", f"--screenshot={picture}", stint.page(name)],
                           check=True, stderr=subprocess.DEVNULL, timeout=LIMIT)
        finally:
            stint.end()
    print(f"{picture}: {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
