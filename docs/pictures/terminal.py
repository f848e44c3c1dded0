"""Draws what commands of stint print to a terminal, as an SVG.

    python3 docs/pictures/terminal.py stint > docs/pictures/terminal.svg

It runs them in a copy of examples/, in a terminal of its own (a pty), and draws what is on the screen at the end. Only Python's standard
library is needed, and the program.
"""

import fcntl
import html
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COLUMNS = 118
COMMANDS = [
    "timeout -s KILL 3 stint run --exec cat --job-rate 1500 examples/data/birdstrikes.csv -o again.jsonl",
    "stint run --exec cat --job-rate 1500 examples/data/birdstrikes.csv -o again.jsonl",
    """stint run --name birds --exec "awk '/Savannah/ { exit 7 } 1'" examples/data/birdstrikes.csv -o birds.jsonl""",
    "stint redrive birds --exec cat",
]


class Screen:
    """Lines of text; carriage returns and the codes that erase a line are obeyed, colours are not drawn."""

    def __init__(self):
        self.lines, self.column = [""], 0

    def write(self, text):
        for code, char in re.findall(r"(\x1b\[[0-9;?]*[A-Za-z])|([\s\S])", text):
            line = self.lines[-1]
            if code.endswith("K"):
                self.lines[-1] = "" if "2" in code else line[: self.column]
            elif code:
                pass
            elif char == "\r":
                self.column = 0
            elif char == "\n":
                self.lines.append("")
                self.column = 0
            else:
                line = line.ljust(self.column)
                self.lines[-1] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1


def run(command, screen, cwd, env):
    """Runs a command in a terminal of its own and writes what it prints to the screen."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    shell = subprocess.Popen(["bash", "-c", command], stdin=child, stdout=child, stderr=child, cwd=cwd, env=env)
    os.close(child)
    text = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # nobody has the terminal open any more
            break
        if not piece:
            break
        text += piece
    os.close(parent)
    shell.wait()
    shown = text.decode(errors="replace")
    shown = re.sub(r"bash: line 1:.*Killed.*", "Killed", shown)
    shown = re.sub(r"web UI: \S+\r?\n", "", shown)  # another port each time
    screen.write(shown)


def svg(lines):
    """Draws the lines, with prompts and errors in colours of their own."""
    height, width, top = 19, 8.45, 44
    w, h = int(COLUMNS * width) + 32, top + height * len(lines) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img">',
        "<title>stint in a terminal</title>",
        f'<rect width="{w}" height="{h}" rx="8" fill="#16181d"/>',
        *(f'<circle cx="{20 + 18 * i}" cy="18" r="6" fill="{c}"/>' for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" xml:space="preserve">',
    ]
    for i, line in enumerate(lines):
        colour = "#d7dae0"
        if line.startswith("$ "):
            colour = "#8fd18f"
        elif re.match(r"\s+(first failed|failures|\d+ ×)", line):
            colour = "#f0a868"
        elif line.startswith("  "):
            colour = "#a4abb8"
        shown = html.escape(line.replace(" ", "\u00a0"))
        out.append(f'<text x="16" y="{top + height * i + 10}" fill="{colour}">{shown}</text>')
    return "\n".join([*out, "</g>", "</svg>", ""])


def main():
    program = shutil.which(sys.argv[1] if len(sys.argv) > 1 else "stint")
    if not program:
        sys.exit("usage: terminal.py STINT, the program")
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        shutil.copytree(ROOT / "examples", work / "clone" / "examples")
        (work / "bin").mkdir()
        (work / "bin" / "stint").symlink_to(Path(program).resolve())
        env = {"PATH": f"{work / 'bin'}:{os.environ['PATH']}", "HOME": directory, "TERM": "xterm", "LANG": "C.UTF-8"}
        screen = Screen()
        for command in COMMANDS:
            screen.write(f"$ {command}\r\n")
            run(command, screen, work / "clone", env)
            if screen.lines[-1]:
                screen.write("\r\n")
            screen.write("\r\n")
    lines = [line.rstrip() for line in screen.lines]
    while not lines[-1]:
        lines.pop()
    sys.stdout.write(svg(lines))


if __name__ == "__main__":
    main()
