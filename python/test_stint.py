"""Drives real programs over pipes, with a worker that is played by the test.

    python3 -m unittest discover -s python
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import stint

PATIENCE = 60  # seconds after which a test gives up waiting

PRELUDE = """
import os, sys, threading, time, stint

def gate():
    os.read(os.open("gate", os.O_RDONLY), 1)
"""


class Worker:
    """Plays the worker for one program, whose frames it keeps in `frames`."""

    def __init__(self, command, directory, environment=None, answers=True, deaf=False):
        self.frames, self.stderr, self.broken = [], "", None
        self._answers = answers  # whether timers are acknowledged
        self._deaf = deaf  # whether nothing is read after the first frame
        self._taken = 0
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.path.dirname(os.path.abspath(stint.__file__)),
                "PYTHONDONTWRITEBYTECODE": "1",
                **(environment or {}),
            },
        )
        self._readers = [threading.Thread(target=reader) for reader in (self._read_frames, self._read_stderr)]
        for reader in self._readers:
            reader.start()

    def hello(self, concurrency=1, limits=None, version=1):
        limits = {"frame": 64 << 20, "scope": 200, "timers": 10_000, **(limits or {})}
        self.send(
            {"type": "hello", "version": version, "worker": "box", "slot": 0, "incarnation": 0, "max_restarts": 10,
             "seed": 0, "concurrency": concurrency, "limits": limits, "unknown": True}
        )  # fmt: skip

    def send(self, frame):
        self.write(json.dumps(frame).encode() + b"\n")

    def write(self, data):
        with self._sending:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def hang_up(self):
        with self._sending:
            self.process.stdin.close()

    def take(self, kind):
        """The next frame of the kind; those of other kinds before it are passed over."""
        with self._changed:
            self._wait(lambda: any(frame["type"] == kind for frame in self.frames[self._taken :]), kind)
            while True:
                self._taken += 1
                if self.frames[self._taken - 1]["type"] == kind:
                    return self.frames[self._taken - 1]

    def ready(self, **hello):
        self.hello(**hello)
        return self.take("ready")

    def call(self, number, *items):
        """The answer to a call: its results, of however many frames, or its error."""
        self.send({"type": "call", "id": number, "items": items})
        return self.results(number)

    def results(self, number):
        results = []
        while True:
            frame = self.take("results")
            assert frame["id"] == number, frame
            if "error" in frame:
                return frame["error"]
            results += frame["results"]
            if not frame.get("more"):
                return results

    def timers(self):
        """The frames about timers, in short, with their hundreds of seconds."""
        return [
            (frame["type"], frame["scope"], *([round(frame["after"], -2)] if "after" in frame else []))
            for frame in self.frames
            if frame["type"] in ("acquire", "release")
        ]

    def wrote(self, text):
        """Waits until standard error has the text."""
        with self._changed:
            self._wait(lambda: text in self.stderr, text)

    def bye(self):
        """Ends the program well. Returns its status."""
        self.send({"type": "bye"})
        return self.ended()

    def ended(self):
        status = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        assert not self.broken, self.broken
        return status

    def kill(self):
        self.process.kill()
        self.ended()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition() and not self.broken and time.monotonic() < deadline:
            if not any(reader.is_alive() for reader in self._readers):
                break
            self._changed.wait(1)  # looks now and then, as a reader's end is not signalled
        assert condition() and not self.broken, (what, self.broken, self.frames, self.stderr)

    def _read_frames(self):
        for line in self.process.stdout:
            try:
                frame = json.loads(line, parse_constant=int)  # NaN is not valid JSON
                kind = frame["type"]
            except (ValueError, TypeError, KeyError):
                self.broken = line
                continue
            if kind == "acquire" and self._answers:
                self.send({"type": "acquired", "id": frame["id"]})
            if self._deaf:
                self.process.stdout.close()
            with self._changed:
                self.frames.append(frame)
                self._changed.notify_all()
            if self._deaf:
                return

    def _read_stderr(self):
        for line in self.process.stderr:
            with self._changed:
                self.stderr += line.decode()
                self._changed.notify_all()


class ProgramTest(unittest.TestCase):
    maxDiff = None

    def start(self, program, **options):
        """A worker with a program, which has `gate()` to wait until the test opens it."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "program.py").write_text(PRELUDE + textwrap.dedent(program))
        os.mkfifo(self.directory / "gate")
        worker = Worker(["program.py"], self.directory, **options)
        self.addCleanup(worker.kill)
        return worker

    def open_gate(self):
        gate = os.open(self.directory / "gate", os.O_RDWR)
        self.addCleanup(os.close, gate)
        os.write(gate, b"x" * 100)


class ServeTest(ProgramTest):
    def test_state_and_clean_end(self):  # W5
        worker = self.start("""
            def close(cause, state):
                stint.log("info", f"closed {state} {cause!r}")

            stint.serve(lambda items, state: [state + item for item in items], init=lambda: 40, close=close)
            print("after")
            stint.log("warn", "alone")
        """)
        self.assertEqual(worker.ready(), {"type": "ready", "name": "program.py", "stack": "USR1"})
        self.assertEqual(worker.call(1, 1, 2), [{"value": 41}, {"value": 42}])
        self.assertEqual(worker.call(2, 3), [{"value": 43}])
        self.assertEqual(worker.bye(), 0)
        self.assertEqual(worker.take("log")["message"], "closed 40 None")
        self.assertEqual(worker.stderr, "after\nwarn: alone\n")

    def test_name_and_no_state(self):
        worker = self.start("stint.serve(lambda items: items, name='echo 1.0')")
        self.assertEqual(worker.ready()["name"], "echo 1.0")
        self.assertEqual(worker.call(1, None, "é", {"a": [1.5]}), [{"value": v} for v in (None, "é", {"a": [1.5]})])
        worker.hang_up()
        self.assertEqual((worker.ended(), worker.stderr), (0, ""))

    def test_cost(self):  # H3
        worker = self.start("""
            def call(items):
                stint.cost(0.00002, tokens_in=7, tokens_out=2, tokens_cached=3)
                stint.cost(1)
                for wrong in ({"amount": -1}, {"amount": float("nan")}, {"tokens_in": 1.5}, {"tokens_out": -1}, {"tokens_in": True}):
                    try:
                        stint.cost(**wrong)
                        return []
                    except ValueError:
                        pass
                return items

            stint.serve(call)
        """)
        worker.ready()
        self.assertEqual(worker.call(5, 1), [{"value": 1}])
        costs = [frame for frame in worker.frames if frame["type"] == "cost"]
        self.assertEqual(costs[0], {"type": "cost", "cost": 0.00002, "tokens_in": 7, "tokens_out": 2, "tokens_cached": 3, "call": 5})
        self.assertEqual([cost["cost"] for cost in costs], [0.00002, 1])

    def test_traceparent(self):  # M8
        worker = self.start("stint.serve(lambda items: [stint.traceparent() for _ in items])")
        worker.ready()
        worker.send({"type": "call", "id": 5, "items": [1], "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        self.assertEqual(worker.take("results")["results"], [{"value": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}])
        self.assertEqual(worker.call(6, 1), [{"value": ""}])

    def test_outcomes(self):  # B7, B8
        worker = self.start(r"""
            def colour(name):
                raise LookupError(f"no such colour: {name}")

            def call(items):
                try:
                    colour("mauve")
                except LookupError as error:
                    raised = error
                return [None, stint.DROP, raised, ValueError("new"), "\ud800 é", float("nan"), [1e999], {1}, 1]

            stint.serve(call)
        """)
        worker.ready()
        null, drop, raised, new, text, nan, infinity, a_set, one = worker.call(1, *range(9))
        self.assertEqual([null, drop, one], [{"value": None}, {"drop": True}, {"value": 1}])
        self.assertEqual([raised["error"]["type"], new["error"]["type"]], ["LookupError", "ValueError"])
        self.assertEqual([raised["error"]["message"], new["error"]["message"]], ["no such colour: mauve", "new"])
        self.assertIn("in colour", raised["error"]["stack"])
        self.assertNotIn("stack", new["error"])
        self.assertEqual(text, {"value": "\ud800 é"})
        for outcome in (nan, infinity, a_set):
            self.assertEqual(outcome["error"]["type"], "FrameError")
            self.assertIn("not a JSON value", outcome["error"]["message"])

    def test_drop_survives_pickling(self):
        import pickle

        self.assertIs(pickle.loads(pickle.dumps(stint.DROP)), stint.DROP)

    def test_failed_call(self):  # B6
        worker = self.start("""
            def call(items):
                if items == ["bad"]:
                    raise RuntimeError("out of memory")
                return {"none": "list", "short": [1]}[items[0]] if items[0] in ("none", "short") else items

            stint.serve(call)
        """)
        worker.ready()
        error = worker.call(1, "bad")
        self.assertEqual((error["type"], error["message"]), ("RuntimeError", "out of memory"))
        self.assertIn("in call", error["stack"])
        self.assertIn("a list of results", worker.call(2, "none")["message"])
        self.assertEqual(worker.call(3, "short", 2, 3), [{"value": 1}])
        self.assertEqual(worker.call(4, "good"), [{"value": "good"}])

    def test_each(self):
        worker = self.start("stint.serve(stint.each(lambda item, ten: ten // item), init=lambda: 10)")
        worker.ready()
        five, error, ten = worker.call(1, 2, 0, 1)
        self.assertEqual([five, ten], [{"value": 5}, {"value": 10}])
        self.assertEqual(error["error"]["type"], "ZeroDivisionError")
        self.assertIn("lambda", error["error"]["stack"])

    def test_single_items(self):  # B1
        for call in ("len", "stint.each(len)"):
            with self.subTest(call=call):
                worker = self.start(f"stint.serve({call})")
                worker.ready()
                worker.send({"type": "call", "id": 1, "item": ["a", "list"]})
                self.assertEqual(worker.results(1), [{"value": 2}])
                worker.send({"type": "call", "id": 2, "item": 5})
                (result,) = worker.results(2)
                self.assertEqual(result["error"]["type"], "TypeError")

    def test_an_item_that_cannot_be_decoded_costs_only_itself(self):  # D11
        worker = self.start("stint.serve(lambda items: [len(str(item)) for item in items], preprocess=lambda item: item)")
        worker.ready()
        deep = "[" * 100_000 + "]" * 100_000
        text = r'["]},[\"",1]'
        worker.write(('{"type":"call","id":1,"items":[1, %s ,{"a":[%s]},%s,"x"],"csv":false}\n' % (deep, deep, text)).encode())
        first, second, third, fourth, fifth = worker.results(1)
        self.assertEqual((first, fourth, fifth), ({"value": 1}, {"value": len(str(json.loads(text)))}, {"value": 1}))
        for refused in second, third:
            self.assertEqual(refused["error"]["type"], "RecursionError")
        worker.write(('{"type":"call","id":2,"item":%s}\n' % deep).encode())
        self.assertEqual(worker.results(2)[0]["error"]["type"], "RecursionError")
        self.assertEqual(worker.call(3, "still here"), [{"value": 10}])
        self.assertEqual(worker.bye(), 0)

    def test_async_calls_share_a_loop(self):
        # The first call is answered last: each waits for the one after it.
        worker = self.start(
            """
            import asyncio
            async def load():
                return {n: asyncio.Event() for n in range(4)}
            async def call(items, events):
                events[items[0]].set()
                await events[min(items[0] + 1, 3)].wait()
                return [threading.current_thread() is threading.main_thread(), *items[1:]]
            async def close(cause, events):
                await asyncio.sleep(0)
                print("closed", cause, len(events))
            stint.serve(call, init=load, close=close)
            """
        )
        worker.ready(concurrency=4)
        for number in range(4):
            worker.send({"type": "call", "id": 1 + number, "items": [number, "x"]})
        for number in range(4):
            frame = worker.take("results")
            self.assertEqual(frame["results"], [{"value": True}, {"value": "x"}])
        self.assertEqual({frame["id"] for frame in worker.frames if frame["type"] == "results"}, {1, 2, 3, 4})
        self.assertEqual(worker.bye(), 0)
        self.assertIn("closed None 4", worker.stderr)

    def test_async_each(self):
        # All items of a call run at once, and their results come in order, as soon as they can.
        worker = self.start(
            """
            import asyncio
            running = most = 0
            async def one(item):
                global running, most
                running += 1
                most = max(most, running)
                try:
                    if item == "wait":
                        while most < 4:
                            await asyncio.sleep(0)
                    if item == "gate":
                        await asyncio.to_thread(gate)
                    if item == "bad":
                        raise ValueError("no such item")
                    if item == "cancelled":
                        raise asyncio.CancelledError()
                    return {"most": most} if item == "most" else item
                finally:
                    running -= 1
            stint.serve(stint.each(one))
            """
        )
        worker.ready()
        results = worker.call(1, "wait", "bad", "wait", "wait", "cancelled")
        self.assertEqual([result.get("value") for result in results], ["wait", None, "wait", "wait", None])
        self.assertEqual(results[1]["error"]["type"], "ValueError")
        self.assertEqual(results[4]["error"]["type"], "CancelledError")
        worker.send({"type": "call", "id": 2, "items": ["first", "gate", "last"]})
        frame = worker.take("results")
        self.assertEqual((frame["results"], frame["more"]), ([{"value": "first"}], True))
        self.open_gate()
        self.assertEqual(worker.results(2), [{"value": "gate"}, {"value": "last"}])
        worker.send({"type": "call", "id": 3, "item": "single"})
        self.assertEqual(worker.results(3), [{"value": "single"}])
        self.assertEqual(worker.bye(), 0)

    def test_async_concurrency(self):
        worker = self.start(
            """
            import asyncio
            running = most = 0
            async def one(item):
                global running, most
                running += 1
                most = max(most, running)
                for _ in range(10):
                    await asyncio.sleep(0)
                running -= 1
                return most
            stint.serve(stint.each(one), concurrency=3)
            """
        )
        worker.ready(concurrency=2)
        for number in (1, 2):
            worker.send({"type": "call", "id": number, "items": list(range(20))})
        values = []
        while len(values) < 40:
            values += [result["value"] for result in worker.take("results")["results"]]
        self.assertEqual(max(values), 3)
        self.assertEqual(worker.bye(), 0)

    def test_async_failures(self):
        worker = self.start(
            """
            async def call(items):
                if items == ["slow"]:
                    raise stint.SlowDown(1.5)
                if items == ["later"]:
                    raise stint.RetryAfter(2)
                if items == ["bad"]:
                    raise KeyError("x")
                if items == ["few"]:
                    return []
                if items == ["none"]:
                    return None
                return [stint.DROP if item == "drop" else item for item in items]
            stint.serve(call, preprocess=lambda item: item if item != "refused" else 1 / 0)
            """
        )
        worker.ready()
        self.assertEqual(worker.call(1, "slow"), [])
        self.assertEqual(worker.frames[1]["after"], 1.5)
        worker.send({"type": "call", "id": 2, "items": ["later"]})
        self.assertEqual(worker.take("results")["retry_after"], 2)
        self.assertEqual(worker.call(3, "bad")["type"], "KeyError")
        self.assertEqual(worker.call(4, "few"), [])
        self.assertEqual(worker.call(5, "none")["type"], "TypeError")
        results = worker.call(6, "a", "refused", "drop")
        self.assertEqual((results[0], results[1]["error"]["type"], results[2]),
                         ({"value": "a"}, "ZeroDivisionError", {"drop": True}))  # fmt: skip
        self.assertEqual(worker.call(7, "refused")[0]["error"]["type"], "ZeroDivisionError")
        self.assertEqual(worker.bye(), 0)

    def test_async_generator(self):
        worker = self.start(
            """
            async def call(items):
                for item in items:
                    if item == "end":
                        os._exit(7)
                    yield item
            stint.serve(call, preprocess=lambda item: item if item != "refused" else 1 / 0)
            """
        )
        worker.ready()
        results = worker.call(1, "a", "refused", "b")
        self.assertEqual([result.get("value") for result in results], ["a", None, "b"])
        worker.send({"type": "call", "id": 2, "items": ["kept", "end"]})
        frame = worker.take("results")
        self.assertEqual((frame["results"], frame["more"]), ([{"value": "kept"}], True))
        self.assertEqual(worker.ended(), 7)

    def test_async_ends(self):
        for end in ("raise SystemExit(5)", "os._exit(5)"):
            worker = self.start(f"async def call(items):\n    {end}\nstint.serve(call)")
            worker.ready()
            worker.send({"type": "call", "id": 1, "items": [1]})
            self.assertEqual(worker.ended(), 5, end)
        worker = self.start("async def init():\n    1 / 0\nasync def call(items): pass\nstint.serve(call, init=init)")
        self.assertEqual(worker.ready()["error"]["type"], "ZeroDivisionError")
        self.assertEqual(worker.ended(), 1)

    def test_concurrency_is_for_async(self):
        for call, concurrency in ((lambda items: items, 3), (stint.each(len), 3)):
            with self.assertRaisesRegex(ValueError, "concurrency=3"):
                stint.serve(call, concurrency=concurrency)

    def test_preprocess(self):  # B5
        worker = self.start("""
            def positive(item, state):
                if item < 0:
                    raise ValueError(f"negative: {item}")
                return item * state

            def call(items, state):
                assert items, "called without any item"
                return [len(items)] * len(items)

            stint.serve(call, init=lambda: 1, preprocess=positive)
        """)
        worker.ready()
        first, refused, third, last = worker.call(1, 5, -1, 6, -2)
        self.assertEqual([first, third], [{"value": 2}, {"value": 2}])
        self.assertEqual(refused["error"]["message"], "negative: -1")
        self.assertEqual(last["error"]["message"], "negative: -2")
        (refused,) = worker.call(2, -3)
        self.assertEqual(refused["error"]["message"], "negative: -3")
        worker.send({"type": "call", "id": 3, "item": -4})
        self.assertEqual(worker.results(3)[0]["error"]["type"], "ValueError")

    def test_preprocess_with_wrong_length(self):  # B6
        worker = self.start("""
            def even(item):
                if item % 2:
                    raise ValueError("odd")

            stint.serve(lambda items: items[1:], preprocess=even)
        """)
        worker.ready()
        self.assertEqual(len(worker.call(1, 0, 1, 2, 3)), 2)
        self.assertEqual(len(worker.call(2, 0, 1)), 0)

    def test_stream_is_kept_when_the_process_dies(self):  # K2
        worker = self.start("""
            def call(items):
                yield items[0]
                yield stint.DROP
                gate()
                os._exit(7)

            stint.serve(call)
        """)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": ["a", "b", "c"]})
        for result in ({"value": "a"}, {"drop": True}):
            self.assertEqual(worker.take("results"), {"type": "results", "id": 1, "results": [result], "more": True})
        self.open_gate()
        self.assertEqual(worker.ended(), 7)

    def test_stream_fails_or_is_too_long(self):
        worker = self.start("""
            def call(items):
                yield "first"
                while items[0] == "endless":
                    yield "more"
                raise OSError("the end")

            stint.serve(call)
        """)
        worker.ready()
        self.assertEqual(len(worker.call(1, "endless", 2, 3)), 4)
        self.assertEqual(worker.call(2, "fails", 2)["message"], "the end")
        *too_long, first, _ = worker.frames[1:]
        self.assertEqual([len(frame["results"]) for frame in too_long], [1, 1, 1, 1])
        self.assertEqual(first["results"], [{"value": "first"}])

    def test_large_results_are_split(self):
        worker = self.start("stint.serve(lambda sizes: ['x' * size for size in sizes])")
        limit = 1 << 16
        worker.ready(limits={"frame": limit})
        sizes = [30_000] * 9 + [limit, 1]
        *fit, large, small = worker.call(1, *sizes)
        self.assertEqual(fit + [small], [{"value": "x" * size} for size in sizes[:9] + [1]])
        self.assertIn("too many for a frame", large["error"]["message"])
        self.assertEqual([len(frame["results"]) for frame in worker.frames[1:]], [2, 2, 2, 2, 3])

    def test_too_many_results_are_not_split(self):  # B6: no frame may come once the worker has seen too many
        worker = self.start("stint.serve(lambda items: ['x' * 1000] * 100)")
        worker.ready(limits={"frame": 4000})
        self.assertEqual(len(worker.call(1, *range(6))), 7)
        self.assertEqual([len(frame["results"]) for frame in worker.frames[1:]], [3, 3, 1])

    def test_results_of_exactly_a_frame(self):
        worker = self.start("stint.serve(lambda sizes: ['x' * size for size in sizes])")
        limit = 1 << 16
        worker.ready(limits={"frame": limit})
        rest = len('{"type":"results","id":1,"results":[{"value":""}],"more":true}\n')
        results = worker.call(1, limit - rest, limit - rest + 1)
        self.assertEqual([*results[0], *results[1]], ["value", "error"])

    def test_a_log_too_large(self):
        worker = self.start("""
            def call(items):
                try:
                    stint.log("info", "x" * 70_000)
                except stint.FrameError as error:
                    return [str(error)]

            stint.serve(call)
        """)
        worker.ready(limits={"frame": 1 << 16})
        (result,) = worker.call(1, 1)
        self.assertIn("too many for a frame of 65,536", result["value"])

    def test_prints_do_not_reach_the_protocol(self):
        worker = self.start("""
            import atexit, subprocess
            print("before")
            old = sys.stdout
            atexit.register(print, "at exit")

            def call(items):
                print("in call")
                print("by the old stdout", file=old, flush=True)
                os.write(1, b"by descriptor\\n")
                os.system("echo by a shell")
                open_files = subprocess.run(["sh", "-c", "cat; ls /proc/self/fd"], stdout=subprocess.PIPE).stdout
                try:
                    input()
                except EOFError:
                    return [sorted(map(int, open_files.split()))]

            stint.serve(call)
            print("after")
        """)
        worker.ready()
        (result,) = worker.call(1, 1)
        self.assertLessEqual(max(result["value"]), 3)  # ls itself has the folder open
        self.assertEqual(worker.bye(), 0)
        printed = ["before", "in call", "by the old stdout", "by descriptor", "by a shell", "after", "at exit"]
        self.assertEqual(worker.stderr.splitlines(), printed)

    def test_forked_child_is_cut_off(self):
        worker = self.start("""
            def call(items):
                child = os.fork()
                if not child:
                    stint.log("info", "from the child")
                    stint.count("children")
                    try:
                        with stint.expires(1):
                            pass
                    except stint.TimerError:
                        os._exit(42)
                return [os.waitpid(child, 0)[1] >> 8]

            stint.serve(call)
        """)
        worker.ready()
        self.assertEqual(worker.call(1, 1), [{"value": 42}])
        self.assertEqual(worker.bye(), 0)
        self.assertEqual([frame["type"] for frame in worker.frames], ["ready", "results"])
        self.assertTrue(worker.stderr.endswith("info: from the child\n"), worker.stderr)  # 3.12 warns of forks

    def test_stacks_on_a_signal(self):  # T15
        worker = self.start("""
            def hangs(items):
                stint.log("info", "hangs")
                gate()
                return items

            stint.serve(hangs)
        """)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": [1]})
        worker.take("log")
        worker.process.send_signal(signal.SIGUSR1)
        worker.wrote("in hangs")
        worker.wrote("in _listen")
        self.open_gate()
        self.assertEqual(worker.results(1), [{"value": 1}])

    def test_interrupt_is_ignored_and_term_is_not(self):  # W8
        worker = self.start("stint.serve(lambda items: items)")
        worker.ready()
        worker.process.send_signal(signal.SIGINT)
        self.assertEqual(worker.call(1, 1), [{"value": 1}])
        worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(worker.ended(), -signal.SIGTERM)

    def test_concurrency(self):  # B9
        worker = self.start("""
            both = threading.Barrier(2, timeout=60)

            def call(items):
                both.wait()
                if items == ["slow"]:
                    gate()
                return items

            stint.serve(call, close=lambda cause: stint.log("info", repr(cause)))
        """)
        worker.ready(concurrency=2)
        for number, item in enumerate(["slow", "quick"], 1):
            worker.send({"type": "call", "id": number, "items": [item]})
        self.assertEqual(worker.results(2), [{"value": "quick"}])
        worker.send({"type": "bye"})
        self.open_gate()
        self.assertEqual(worker.results(1), [{"value": "slow"}])
        self.assertEqual(worker.take("log")["message"], "None")
        self.assertEqual(worker.ended(), 0)

    def test_cause_of_the_end(self):  # W5
        for concurrency in (1, 3):
            with self.subTest(concurrency=concurrency):
                worker = self.start("""
                    stint.serve(lambda items: sys.exit(9), close=lambda cause: print("cause", repr(cause)))
                """)
                worker.ready(concurrency=concurrency)
                worker.send({"type": "call", "id": 1, "items": [1]})
                self.assertEqual(worker.ended(), 9)
                self.assertEqual(worker.stderr, "cause SystemExit(9)\n")

    def test_init_fails(self):  # W3, W4, W5
        worker = self.start("""
            def load():
                stint.log("info", "loading")
                open("model.bin")

            stint.serve(lambda items, model: items, init=load, close=lambda cause, model: print("closed"))
        """)
        error = worker.ready()["error"]
        self.assertEqual(error["type"], "FileNotFoundError")
        self.assertIn("model.bin", error["message"])
        self.assertIn("in load", error["stack"])
        self.assertEqual((worker.ended(), worker.stderr), (1, ""))
        self.assertEqual([frame["type"] for frame in worker.frames], ["log", "ready"])

    def test_input_ends_in_a_call(self):
        worker = self.start("""
            def call(items):
                stint.log("info", "called")
                gate()
                return items

            stint.serve(call, close=lambda cause: print("cause", repr(cause)))
        """)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": [1]})
        worker.take("log")
        worker.write(b'{"type":"ca')  # the beginning of a frame of a dying worker is not a frame
        worker.hang_up()
        self.open_gate()
        self.assertEqual(worker.results(1), [{"value": 1}])
        self.assertEqual((worker.ended(), worker.stderr), (0, "cause None\n"))

    def test_output_is_closed(self):
        worker = self.start("""
            stint.serve(lambda items: items, close=lambda cause: print("cause", type(cause).__name__))
        """, deaf=True)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": [1]})
        self.assertEqual((worker.ended(), worker.stderr), (1, "cause BrokenPipeError\n"))

    def test_broken_frames(self):
        lines = [b"what?", b"[]", b"5", b'{"kind":"call"}', b'{"type":5}', b'{"type":"call","items":[]}', b"\xff",
                 b'{"type":"call","id":"1","items":[]}', b'{"type":"call","id":1,"items":{}}',
                 b'{"type":"acquired"}', b'{"type":"stopping","grace":"long"}', b"[" * 100_000, b""]  # fmt: skip
        for line in lines:
            with self.subTest(line=line[:40]):
                worker = self.start("""
                    stint.serve(lambda items: items, close=lambda cause: print(type(cause).__name__))
                """)
                worker.ready()
                worker.write(line + b"\n")
                self.assertEqual(worker.ended(), 2)
                closed, message = worker.stderr.splitlines()
                self.assertEqual(closed, "ProtocolError")
                self.assertEqual(message, f"stint: the worker sent no valid frame: {(line + bytes([10]))[:200]!r}")

    def test_no_hello(self):
        for line, message in [
            (b"", "no hello from a worker"),
            (b'{"type":"bye"}\n', "no hello from a worker"),
            (b'{"type":"hello","version":2}\n', "the worker speaks version 2"),
            (b"hello\n", "no valid frame"),
        ]:
            with self.subTest(line=line):
                worker = self.start("stint.serve(print, close=print)")
                worker.write(line)
                worker.hang_up()
                self.assertEqual(worker.ended(), 2)
                self.assertIn(message, worker.stderr)
                self.assertNotIn("Traceback", worker.stderr)

    def test_the_unknown_is_ignored(self):
        worker = self.start("stint.serve(lambda items: items)")
        worker.send({"type": "hello", "version": 1})
        worker.take("ready")
        worker.send({"type": "news", "id": "x"})
        worker.send({"type": "acquired", "id": 99})
        worker.send({"type": "call", "id": 1, "items": [1], "hint": {}})
        self.assertEqual(worker.results(1), [{"value": 1}])
        self.assertEqual(worker.bye(), 0)

    def test_stopping(self):  # S13
        worker = self.start("""
            def call(items):
                stint.log("info", repr(stint.stopping()))
                deadline = time.monotonic() + 60
                while items == ["wait"] and not stint.stopping() and time.monotonic() < deadline:
                    time.sleep(0.001)
                stop = stint.stopping()
                return [stop and [stop.reason, stop.grace]]

            stint.serve(call)
        """)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": ["wait"]})
        self.assertEqual(worker.take("log")["message"], "None")
        worker.send({"type": "stopping", "reason": "interrupted", "grace": 119.5})
        ((reason, grace),) = (result["value"] for result in worker.results(1))
        self.assertEqual(reason, "interrupted")
        self.assertTrue(0 < grace < 119.5, grace)
        self.assertEqual(worker.call(2, "other job"), [{"value": None}])

    def test_RetryAfter_refuses_what_is_no_time(self):
        for seconds in (-1, float("nan"), float("inf"), "3", None):
            with self.assertRaisesRegex(ValueError, "use a finite number"):
                stint.RetryAfter(seconds)
        self.assertEqual(stint.RetryAfter(0).seconds, 0)

    def test_an_item_or_a_call_can_be_tried_again_later(self):
        worker = self.start("""
            def one(item):
                if item == "call":
                    raise stint.RetryAfter(0.5)
                return item

            def call(items):
                if items == ["whole", "call"]:
                    raise stint.RetryAfter(3) from OSError("quota")
                return [stint.RetryAfter(1.5, "429") if item == "later" else one(item) for item in items]

            stint.serve(call)
        """)
        worker.ready()
        error = {"type": "RetryAfter", "message": "429"}
        later = {"retry_after": 1.5, "error": error}
        self.assertEqual(worker.call(1, "a", "later", "b"), [{"value": "a"}, later, {"value": "b"}])
        worker.send({"type": "call", "id": 2, "items": ["whole", "call"]})
        quota = {"type": "OSError", "message": "quota"}
        self.assertEqual(worker.take("results"), {"type": "results", "id": 2, "retry_after": 3.0, "error": quota})
        worker.send({"type": "call", "id": 3, "items": ["call"]})
        self.assertEqual(worker.take("results"), {"type": "results", "id": 3, "retry_after": 0.5})

    def test_what_a_call_can_say(self):
        worker = self.start("""
            import logging
            logging.getLogger().addHandler(stint.LogHandler())
            logging.getLogger().setLevel(logging.DEBUG)

            def call(items):
                stint.request_stop("disk almost full")
                stint.request_stop(OSError("disk full"))
                stint.slow_down(2.5)
                stint.log("warn", "old model", path="model.bin", level=3)
                stint.count("calls")
                stint.count("tokens", 812)
                stint.gauge("load", 0.5)
                try:
                    stint.log("fatal", "?")
                except ValueError as error:
                    logging.getLogger("model").exception("oh: %s", error)
                logging.debug("details")
                logging.critical("worse")
                return items

            stint.serve(call)
        """)
        worker.ready()
        worker.call(1, 1)
        _, reason, error, slow, warn, calls, tokens, load, logged, debug, critical, _ = worker.frames
        self.assertEqual(reason, {"type": "request-stop", "reason": "disk almost full", "call": 1})
        disk = {"type": "OSError", "message": "disk full"}
        self.assertEqual(error, {"type": "request-stop", "error": disk, "call": 1})
        self.assertEqual(slow, {"type": "slow-down", "after": 2.5, "call": 1})
        fields = {"path": "model.bin", "level": 3}
        message = {"type": "log", "level": "warn", "message": "old model"}
        self.assertEqual(warn, {**message, "fields": fields, "call": 1})
        self.assertEqual(calls, {"type": "metric", "name": "calls", "kind": "counter", "value": 1})
        self.assertEqual(tokens, {"type": "metric", "name": "tokens", "kind": "counter", "value": 812})
        self.assertEqual(load, {"type": "metric", "name": "load", "kind": "gauge", "value": 0.5})
        self.assertEqual((logged["level"], logged["fields"]), ("error", {"logger": "model"}))
        self.assertRegex(logged["message"], "(?s)^oh: unknown level 'fatal': .*Traceback.*ValueError")
        self.assertEqual([debug["level"], critical["level"]], ["debug", "error"])

    def test_info(self):  # W1
        environment = {
            "STINT_WORKER": "box", "STINT_SLOT": "3", "STINT_INCARNATION": "2", "STINT_MAX_RESTARTS": "10",
            "STINT_SEED": "45",
        }  # fmt: skip
        worker = self.start("stint.serve(lambda items: [stint.info, stint.info.slot])", environment=environment)
        worker.ready()
        self.assertEqual(worker.call(1, 1, 2), [{"value": ["box", 3, 2, 10, 45]}, {"value": 3}])

    def test_outside_of_serve(self):
        self.assertEqual(stint.info, stint.Info("", 0, 0, 0, 0))
        self.assertIsNone(stint.stopping())
        stint.request_stop("nobody hears this")
        stint.count("nothing")
        self.assertEqual(list(stint.each(abs)([-1, 2])), [1, 2])


class TimerTest(ProgramTest):
    def scope(self, marker):
        """The scope of the line with the marker."""
        lines = (self.directory / "program.py").read_text().splitlines()
        (line,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))
        return f"program.py#{line}"

    def test_scope_is_the_callers_line(self):  # T3
        worker = self.start("""
            def call(items):
                with stint.expires(100):  # one
                    with stint.expires(200):  # two
                        timed()
                with stint.expires(300, "named", action="report"):
                    return items

            @stint.expires(400)  # decorated
            def timed():
                pass

            stint.serve(call)
        """)
        worker.ready()
        worker.call(1, 1)
        one, two, decorated = map(self.scope, ("one", "two", "decorated"))
        self.assertEqual(worker.timers(), [
            ("acquire", one, 100), ("acquire", two, 200), ("acquire", decorated, 400), ("release", decorated),
            ("release", two), ("release", one), ("acquire", "named", 300), ("release", "named"),
        ])  # fmt: skip
        self.assertEqual([frame["action"] for frame in worker.frames if "action" in frame], ["kill"] * 3 + ["report"])
        self.assertEqual([frame["id"] for frame in worker.frames if frame["type"] == "acquire"], [1, 2, 3, 4])

    def test_released_on_every_way_out(self):  # T4
        worker = self.start("""
            def call(items):
                for scope in ("continue", "break"):
                    with stint.expires(10, scope):
                        if scope == "continue":
                            continue
                        break
                with stint.expires(10, "raise"):
                    raise KeyError("the block's")

            stint.serve(call)
        """)
        worker.ready()
        self.assertEqual(worker.call(1, 1)["message"], "\"the block's\"")
        released = [frame["scope"] for frame in worker.frames if frame["type"] == "release"]
        self.assertEqual(released, ["continue", "break", "raise"])

    def test_recursion(self):  # T2
        worker = self.start("""
            def descend(seconds):
                if seconds:
                    with stint.expires(seconds[0], "down"):
                        descend(seconds[1:])

            stint.serve(stint.each(descend))
        """)
        worker.ready()
        worker.call(1, [1000, 3000, 2000])
        worker.call(2, [500])
        acquired = [("acquire", "down", seconds) for seconds in (1000, 3000, 2000, 1000, 1000)]
        end = ("release", "down")
        self.assertEqual(worker.timers(), [*acquired, end, ("acquire", "down", 500), end])
        first, *_, last = (frame["after"] for frame in worker.frames[1:6])
        self.assertTrue(last < first, "the time that has passed was given anew")

    def test_threads_share_a_scope(self):  # T2
        worker = self.start("""
            def call(items):
                with stint.expires(items[0], "shared"):
                    stint.log("info", "in")
                    gate() if items[0] == 1000 else None
                return items

            stint.serve(call)
        """)
        worker.ready(concurrency=2)
        worker.send({"type": "call", "id": 1, "items": [1000]})
        worker.take("log")
        self.assertEqual(worker.call(2, 2000), [{"value": 2000}])
        self.open_gate()
        self.assertEqual(worker.results(1), [{"value": 1000}])
        shared = [("acquire", "shared", seconds) for seconds in (1000, 2000, 1000)]
        self.assertEqual(worker.timers(), [*shared, ("release", "shared")])
        acquired = [frame["call"] for frame in worker.frames if frame["type"] == "acquire"]
        self.assertEqual(acquired, [1, 2, 1], "whose deadline it is")
        self.assertEqual([frame["call"] for frame in worker.frames if frame["type"] == "log"], [1, 2])

    def test_many_scopes_of_many_threads(self):  # T13
        worker = self.start("""
            def nested(depth):
                if depth:
                    with stint.expires(60, f"{threading.get_ident()} {depth}"):
                        nested(depth - 1)

            def call(items):
                for _ in range(20):
                    nested(10)
                return items

            stint.serve(call)
        """)
        worker.ready(concurrency=4)
        for number in range(1, 9):
            worker.send({"type": "call", "id": number, "items": [number]})
        answers = [worker.take("results") for _ in range(8)]
        self.assertEqual(sorted(answer["results"][0]["value"] for answer in answers), list(range(1, 9)))
        timers = [timer[0] for timer in worker.timers()]
        self.assertEqual((timers.count("acquire"), timers.count("release")), (1600, 1600))

    def test_no_answer(self):  # T12
        worker = self.start(TRY, answers=False)
        worker.ready()
        kind, message, ran, waited = worker.call(1, 100)[0]["value"]
        self.assertEqual((kind, message, ran), ("TimerError", "tried: the worker did not answer in 1 s", False))
        self.assertTrue(1 <= waited < 5, waited)
        self.assertEqual(worker.timers(), [("acquire", "tried", 100), ("release", "tried")])
        worker.send({"type": "acquired", "id": 1})  # too late
        self.assertEqual(worker.call(2, -1)[0]["value"][0], "TimerError")

    def test_refused(self):  # T4
        worker = self.start(TRY, answers=False)
        worker.ready()
        worker.send({"type": "call", "id": 1, "items": [10]})
        error = {"type": "ScopeError", "message": "10,000 timers are held already"}
        worker.send({"type": "acquired", "id": worker.take("acquire")["id"], "error": error})
        kind, message, ran, _ = worker.results(1)[0]["value"]
        self.assertEqual((kind, message, ran), ("TimerError", "tried: 10,000 timers are held already", False))

    def test_refused_here(self):  # T12
        worker = self.start(TRY.replace('"tried"', "*arguments"))
        worker.ready(limits={"scope": 8})
        for number, (arguments, error) in enumerate([
            ([1, "ééééx"], "a scope's name may have 8 bytes: 'ééééx'…"),
            ([1, "éééé", "term"], "éééé: no timer has 1 seconds and the action 'term'"),
            ([1, "éééé"], None),
            ([-1, "éééé"], None),
        ], 1):  # fmt: skip
            with self.subTest(arguments=arguments):
                _, message, ran, _ = worker.call(number, arguments)[0]["value"]
                self.assertEqual((message, ran), (error, error is None))
        worker.write(b'{"type":"call","id":9,"items":[[Infinity,"long"]]}\n')
        self.assertEqual(worker.results(9)[0]["value"][0], "TimerError")
        self.assertEqual(len(worker.timers()), 4)

    def test_in_init(self):
        worker = self.start("""
            def load():
                with stint.expires(100, "load"):
                    pass

            stint.serve(lambda items, _: items, init=load)
        """)
        worker.ready()
        self.assertEqual(worker.timers(), [("acquire", "load", 100), ("release", "load")])

    def test_outside_of_serve(self):  # T4
        with self.assertRaisesRegex(stint.TimerError, r"^test_stint\.py#\d+: no worker holds timers here"):
            with stint.expires(1):
                self.fail("the block has run")


# Reports how a block ends.
TRY = """
def call(items):
    arguments = items[0] if isinstance(items[0], list) else [items[0]]
    seconds, *arguments = arguments
    ran, start = False, time.monotonic()
    try:
        with stint.expires(seconds, "tried"):
            ran = True
    except Exception as error:
        return [[type(error).__name__, str(error), ran, time.monotonic() - start]]
    return [["", None, ran, 0]]

stint.serve(call)
"""

if __name__ == "__main__":
    unittest.main()
