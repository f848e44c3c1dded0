"""Serve programs for stint: the program's side of its serve protocol, version 1.

A worker starts the program once for each slot; it loads what it needs and answers one call after
the other. One file, the standard library alone, Python 3.9 or later. Workers have it on the path of
their programs, so nothing needs to be installed.

    import stint

    def load():
        return open_model("model.bin")

    def score(texts, model):
        with stint.expires(30):                    # hangs? the process is killed and replaced
            return [model.score(text) for text in texts]

    stint.serve(score, init=load)

    $ stint run --serve 'python3 score.py' texts.jsonl -o scores.jsonl

A program that waits for a service runs many items at once in an event loop:

    async def ask(text, session):
        async with session.post(URL, json=text) as answer:
            return await answer.json()

    async def connect():
        return aiohttp.ClientSession()

    stint.serve(stint.each(ask), init=connect, concurrency=64)

`serve` takes standard input and output for the protocol. From then on what is printed, by child
processes too, goes to standard error, the worker's log, and standard input is empty. Modules that
print while they are imported are best imported in `init`.
"""

import bisect
import contextlib
import contextvars
import enum
import faulthandler
import inspect
import itertools
import json
import logging
import math
import os
import queue
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

if TYPE_CHECKING:
    import asyncio  # takes longer than all others together: serve imports it for an async def only

_Frame = Dict[str, Any]
_Timer = Tuple[float, str, int]  # monotonic deadline, action, call

_VERSION = 1
_ANSWER_LIMIT = 1.0  # seconds that the start of a timer may take
_TEXT_LIMIT = 32 << 10  # characters of an error's message, and of its stack
_LEVELS = ("debug", "info", "warn", "error")


class FrameError(ValueError):
    """A value cannot be sent: it is not JSON, or too large for a frame."""


class TimerError(RuntimeError):
    """A timer could not be started, and the block that it was for did not run."""


class ProtocolError(RuntimeError):
    """The worker sent an invalid frame, or not the one that was expected."""


class _Special(enum.Enum):  # stays itself when pickled
    DROP = "drop"


DROP = _Special.DROP
"""Return it instead of a result: the item counts as ok and has no line in the output."""


class Info(NamedTuple):
    """Who this program is; outside of a worker nameless and all zeros."""

    worker: str
    slot: int  # from 0, kept over replacements of the program
    incarnation: int  # how often it has been replaced
    max_restarts: int  # how often in a row it may be
    seed: int  # the slot's own, the same after a replacement


info = Info(
    os.environ.get("STINT_WORKER", ""),
    *(int(os.environ.get(f"STINT_{name}", 0)) for name in ("SLOT", "INCARNATION", "MAX_RESTARTS", "SEED")),
)


class Stopping(NamedTuple):
    """The job or the worker will end."""

    reason: str
    grace: float  # seconds left for the call


def serve(
    call: Callable[..., Any],
    *,
    init: Optional[Callable[[], Any]] = None,
    preprocess: Optional[Callable[..., Any]] = None,
    close: Optional[Callable[..., None]] = None,
    name: Optional[str] = None,
    concurrency: Optional[int] = None,
) -> None:
    """Answers the worker's calls until it sends bye or closes standard input. For the main thread.

    `call(items)` returns a result for each item, in order: any JSON value, `DROP`, or an exception
    for the item that it is about. An exception that it raises fails the call as a whole, which is
    then retried and halved. If it returns a generator, every result is sent as it comes, and
    kept if the process dies at the next one. If the worker hands over single items
    (`--call-items 0`) it is `call(item)`, returns the one result, and may raise that item's error.
    With `--concurrency` n it runs in up to n threads at once.

    `init()` runs before the first call. What it returns is a last argument of the other functions:
    `call(items, state)`, `preprocess(item, state)`, `close(cause, state)`. Without it they have none.

    `preprocess(item)` runs for each item before a call, and the call gets what it returns. An item
    that it raises for fails with that error and is not in the call's list.

    `close(cause)` runs after the last call, with None after a clean end and otherwise with the
    exception; it does not run if `init` has failed, or when the process is killed.

    The call may be an `async def`, or of `stint.each(fn)` the function. All calls then run in one event loop, in the
    main thread, and so do `init` and `close`, which may be `async def`, too. The items of a call of `stint.each(fn)` run
    at once, up to `concurrency` of them (by default all): the worker need not know, and its `--concurrency` is best left
    out. An async generator sends each result as it comes. What blocks the loop holds up all items: `expires`
    does while the worker answers.

    `name` is for people, by default the script's. If `init` raises, the worker gets the error and
    the program exits with status 1; if the worker breaks the protocol, with 2.
    """
    global _program, asyncio
    asynchronous = _is_async(call)
    if asynchronous:
        import asyncio
    if concurrency is not None and (not asynchronous or concurrency < 1):
        raise ValueError(f"concurrency={concurrency!r}: use a number from 1 on, and for an async def only")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the worker
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
        _program = program = _Program(call, preprocess)
        name = name or os.path.basename(sys.argv[0])
        if asynchronous:
            cause = asyncio.run(_Loop(program, concurrency).run(init, close, name))
        else:
            program.prepare(init, name)
            cause = program.run()
            if close:
                close(cause, *program.state)
        _program = None
        if cause is not None:
            raise cause
    except ProtocolError as error:
        print(f"stint: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the worker is gone
        sys.exit(1)


class RetryAfter(Exception):
    """Raised for an item, says that it should be tried again after `seconds`; by a call, that all of its items should.

    It holds up nothing but the item's place in the order, and costs no attempt until the item has waited
    for 10 minutes in all: one that would have to wait longer has failed, with the message. If a service
    asks for fewer requests, raise SlowDown. `seconds` is a finite number from 0 on, or it is a ValueError.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        try:
            valid = math.isfinite(seconds) and seconds >= 0
        except (TypeError, OverflowError):
            valid = False
        if not valid:
            raise ValueError(f"RetryAfter: seconds is {seconds!r}: use a finite number from 0 on")
        super().__init__(message)
        self.seconds = seconds


class SlowDown(Exception):
    """Raised by a call, says that a service asks for fewer requests, and for none in the next `seconds`.

    The item, or the call, has not failed: it comes again after that. If many calls end so, nothing else is
    begun for that time either, and the rate of the whole job is lowered, and comes back by itself.
    """

    def __init__(self, seconds: float, message: str = "slow down") -> None:
        super().__init__(message)
        self.seconds = seconds


class each:
    """Makes a call of a function of one item: `stint.serve(stint.each(fn))`.

    An exception is its item's alone, and every result is sent as it comes. With an `init` it is
    `fn(item, state)`. If `fn` is an `async def`, the items of a call run at once.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, items: List[Any], *state: Any) -> Iterator[Any]:
        for item in items:
            yield _outcome(self.function, item, *state)


def expires(
    seconds: float, scope: Optional[str] = None, action: str = "kill"
) -> "contextlib._GeneratorContextManager[None]":
    """A context manager, or decorator, whose block has `seconds` to end: `with stint.expires(1.5):`.

    If it takes longer, the worker writes this process's stacks to its log, kills and replaces it,
    and the call counts as expired; with the action "report" a message is logged and no more. Raises
    TimerError, and does not run the block, if the worker does not start the timer within a
    second, and outside of `serve`.

    The timer's key in the worker is its scope, by default the caller's file and line, "score.py#41".
    To enter a scope again, in recursion or another thread, gives it the new deadline. When one of
    its blocks ends while others run, the earliest of their deadlines holds, and has expired at once
    if it is past; with the last block the timer ends.
    """
    if scope is None:
        caller = sys._getframe(1)
        scope = f"{os.path.basename(caller.f_code.co_filename)}#{caller.f_lineno}"
    return _block(scope, seconds, action)


def stopping() -> Optional[Stopping]:
    """Why and how soon the call should end; None while no stop is requested."""
    program = _program
    return program.stopping() if program else None


def request_stop(why: Union[str, BaseException]) -> None:
    """Requests a stop of the job whose call is running: with a reason, or with an error."""
    if isinstance(why, str):
        _send("request-stop", reason=why, **_of_call())
    else:
        _send("request-stop", error=_error(why), **_of_call())


def slow_down(seconds: float) -> None:
    """Requests what SlowDown does, without an end of the call. Not in `init`."""
    _send("slow-down", after=seconds, **_of_call())


def cost(amount: float = 0, *, tokens_in: int = 0, tokens_out: int = 0, tokens_cached: int = 0) -> None:
    """Counts what the call has used of a service that is paid for: money, in the currency of the job's budget, or tokens.

    `tokens_in` are those of the request, with `tokens_cached`, those of them that the service had in its cache. All are
    0 or more. The job's report has the sums, and they count for its `--max-cost`, `--max-tokens` and `--tpm`.
    """
    tokens = {"tokens_in": tokens_in, "tokens_out": tokens_out, "tokens_cached": tokens_cached}
    if not 0 <= amount < float("inf") or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in tokens.values()):
        raise ValueError(f"cost({amount!r}, {tokens!r}): use an amount and whole numbers of tokens from 0 on")
    _send("cost", cost=amount, **tokens, **_of_call())


def traceparent() -> str:
    """Returns the span of the call as the header `traceparent` has it, for OpenTelemetry's propagators; "" if nobody traces.

    Outside of `serve` it is that of the environment, TRACEPARENT.
    """
    return _trace.get() or os.environ.get("TRACEPARENT", "")


def log(level: str, message: str, /, **fields: Any) -> None:
    """Writes to the worker's log: "debug", "info", "warn" or "error", fields of JSON values.

    Outside of `serve` it writes to standard error.
    """
    if level not in _LEVELS:
        raise ValueError(f"unknown level {level!r}: one of {', '.join(_LEVELS)}")
    if _program:
        _send("log", level=level, message=message, fields=fields, **_of_call())
    else:
        print(f"{level}: {message}", file=sys.stderr)


class LogHandler(logging.Handler):
    """Writes `logging` records to the worker's log: `logging.getLogger().addHandler(stint.LogHandler())`."""

    def emit(self, record: logging.LogRecord) -> None:
        level = _LEVELS[bisect.bisect((logging.INFO, logging.WARNING, logging.ERROR), record.levelno)]
        try:
            log(level, self.format(record), logger=record.name)
        except Exception:
            self.handleError(record)


def count(name: str, value: float = 1) -> None:
    """Adds to a counter of the worker's metrics."""
    _send("metric", name=name, kind="counter", value=value)


def gauge(name: str, value: float) -> None:
    """Sets a gauge of the worker's metrics."""
    _send("metric", name=name, kind="gauge", value=value)


# The implementation.

_program: Optional["_Program"] = None  # while it serves
_call = contextvars.ContextVar("call", default=0)  # that is being answered; 0: none
_trace = contextvars.ContextVar("trace", default="")  # its span


def _of_call() -> _Frame:
    """Says in a frame which of the calls under way it is about."""
    number = _call.get()
    return {"call": number} if number else {}


def _send(type: str, /, **fields: Any) -> None:
    """Sends a frame that nobody waits for; outside of serve it goes nowhere."""
    program = _program
    if program:
        program.pipes.send(type, **fields)


def _forget() -> None:
    """Cuts a forked child off: the frames are its parent's."""
    global _program
    if _program:
        _program.pipes.close()
        _program = None


os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def _block(scope: str, seconds: float, action: str) -> Iterator[None]:
    if not _program:
        raise TimerError(f"{scope}: no worker holds timers here, outside of stint.serve")
    timers = _program.timers
    timer, answer = timers.acquire(scope, seconds, action)
    try:
        timers.wait(scope, answer)
        yield
    finally:
        timers.release(scope, timer)


def _outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns, or the exception that it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return error


def _error(error: BaseException) -> _Frame:
    frame = {"type": type(error).__name__, "message": str(error)[:_TEXT_LIMIT]}
    if error.__traceback__:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        frame["stack"] = stack[-_TEXT_LIMIT:]
    return frame


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _later(request: RetryAfter) -> _Frame:
    """The fields that have an item, or the rest of a call, tried again."""
    error = {"error": _error(request.__cause__ or request)} if request.__cause__ or str(request) else {}
    return {"retry_after": float(request.seconds), **error}


def _encode(value: Any) -> bytes:
    try:
        text = _encoder.encode(value)
    except Exception as error:
        raise FrameError(f"not a JSON value: {error}") from error
    return text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes JSON's \udXXX


# The fields that are read of the frames to the program. None: may be missing.
_FIELDS: Dict[str, Dict[str, Tuple[Optional[type], ...]]] = {
    "hello": {"version": (int,), "concurrency": (int, None), "limits": (dict, None)},
    "call": {"id": (int,), "items": (list, None), "traceparent": (str, None)},  # or item, of any type
    "acquired": {"id": (int,), "error": (dict, None)},
    "stopping": {"reason": (str, None), "grace": (int, float, None)},
}


class _Undecodable(NamedTuple):
    """An item that Python cannot decode: nested too deep for its recursion limit, or a number of too many digits."""

    error: Exception


# What counts when the text of JSON is cut into members: strings, brackets and commas.
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_NAME = re.compile(r'\s*"([^"\\]*)"\s*:')


def _members(text: str) -> Iterator[str]:
    """The texts of the members of a JSON object or array."""
    depth = begin = 0
    for token in _TOKENS.finditer(text):
        kind = text[token.start()]
        if kind in "[{":
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif kind in "]}":
            depth -= 1
        if depth == 0 and kind in "]}" or depth == 1 and kind == ",":
            if text[begin : token.start()].strip():
                yield text[begin : token.start()]
            begin = token.end()
    if depth:
        raise ValueError("the brackets do not match")


def _item(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return _Undecodable(error.with_traceback(None))


def _singly(line: bytes) -> _Frame:
    """Decodes a frame and each of its items by itself: one that cannot be decoded costs only itself."""
    frame: _Frame = {}
    for member in _members(line.decode()):
        name = _NAME.match(member)
        if name is None:
            raise ValueError("a member without a name")
        text = member[name.end() :]
        if name[1] == "items":
            frame["items"] = [_item(item) for item in _members(text)]
        else:
            frame[name[1]] = _item(text) if name[1] == "item" else json.loads(text)
    return frame


def _loads(line: bytes) -> _Frame:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _singly(line)


def _decode(line: bytes) -> _Frame:
    try:
        frame = _loads(line)
        fields = {"type": (str,), **_FIELDS.get(frame["type"], {})}
        if all(type(frame[name]) in types if name in frame else None in types for name, types in fields.items()):
            return frame
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise ProtocolError(f"the worker sent no valid frame: {line[:200]!r}")


class _Pipes:
    """Frames in and out, on descriptors that neither user code nor child processes have."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdout.flush()
        sys.stdout = sys.stderr
        self._writing = threading.Lock()
        self.limit = 64 << 20  # bytes of a frame, its line end included

    def frames(self) -> Iterator[_Frame]:
        """The worker's frames; a line without its end is one that a dying worker began."""
        with open(self._in, "rb", closefd=False) as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield _decode(line)

    def send(self, type: str, /, **fields: Any) -> None:
        self.write(_encode({"type": type, **fields}))

    def write(self, frame: bytes) -> None:
        line = memoryview(frame + b"\n")
        if len(line) > self.limit:
            raise FrameError(f"{len(line):,} bytes are too many for a frame of {self.limit:,}")
        with self._writing:
            while line:
                line = line[os.write(self._out, line) :]

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)
        self._in = self._out = -1


class _Timers:
    """The timers of the blocks under way. Blocks of one scope share the one that the worker holds."""

    def __init__(self, pipes: _Pipes, scope_limit: int) -> None:
        self._pipes = pipes
        self._scope_limit = scope_limit  # bytes
        self._ids = itertools.count(1)
        self._answers: Dict[int, queue.SimpleQueue] = {}
        self._held: Dict[str, List[_Timer]] = {}
        self._changing = threading.Lock()  # the frames go out in the order of the changes

    def acquire(self, scope: str, seconds: float, action: str) -> Tuple[_Timer, queue.SimpleQueue]:
        """Asks for a timer. Returns it, and the queue that will get the answer."""
        if len(scope.encode("utf-8", "replace")) > self._scope_limit:
            raise TimerError(f"a scope's name may have {self._scope_limit} bytes: {scope[:50]!r}…")
        if not math.isfinite(seconds) or action not in ("kill", "report"):
            raise TimerError(f"{scope}: no timer has {seconds} seconds and the action {action!r}")
        timer = (time.monotonic() + seconds, action, _call.get())
        answer: queue.SimpleQueue = queue.SimpleQueue()
        with self._changing:
            number = next(self._ids)
            self._answers[number] = answer
            self._held.setdefault(scope, []).append(timer)
            self._pipes.send("acquire", id=number, scope=scope, after=seconds, action=action, **_of_call())
        return timer, answer

    def answer(self, number: int, error: Optional[_Frame]) -> None:
        """Takes the worker's answer, for which nobody may be waiting any more."""
        if number in self._answers:
            self._answers.pop(number).put(error)

    def wait(self, scope: str, answer: queue.SimpleQueue) -> None:
        try:
            error = answer.get(timeout=_ANSWER_LIMIT)
        except queue.Empty:
            raise TimerError(f"{scope}: the worker did not answer in {_ANSWER_LIMIT:g} s") from None
        if error is not None:
            raise TimerError(f"{scope}: {error.get('message') or error.get('type')}")

    def release(self, scope: str, timer: _Timer) -> None:
        """Ends a block's timer; the earliest deadline of the scope's other blocks holds from now on."""
        with self._changing:
            held = self._held[scope]
            held.remove(timer)
            if held:
                deadline, action, call = min(held)
                after = deadline - time.monotonic()
                of = {"call": call} if call else {}
                self._pipes.send("acquire", id=next(self._ids), scope=scope, after=after, action=action, **of)
            else:
                del self._held[scope]
                self._pipes.send("release", scope=scope)


class _Answer:
    """The answer to a call, in frames as large as allowed, or with a frame for what there is whenever it is flushed.

    Of too many results, one more than there are items is sent, in the last frame.
    """

    def __init__(self, pipes: _Pipes, call: int, items: int) -> None:
        self._pipes, self._call, self._left = pipes, call, items
        self._head, self._more, self._end = b'{"type":"results","id":%d,"results":[' % call, b'],"more":true}', b"]}"
        self._room = pipes.limit - len(self._head) - len(self._more) - 1
        self._waiting: List[bytes] = []
        self._size = 0

    def add(self, outcome: Any) -> bool:
        """Adds an outcome. Returns whether more are wanted."""
        if isinstance(outcome, SlowDown):
            self._pipes.send("slow-down", after=outcome.seconds, call=self._call)
            return False  # this item and those after it are repeated
        result = _result(outcome, self._room)
        if self._size + len(result) > self._room:
            self._write(self._more)
        self._waiting.append(result)
        self._size += len(result) + 1
        self._left -= 1
        return self._left >= 0

    def flush(self) -> None:
        """Sends what there is, unless it is one too many."""
        if self._waiting and self._left >= 0:
            self._write(self._more)

    def end(self) -> None:
        self._write(self._end)

    def _write(self, end: bytes) -> None:
        self._pipes.write(self._head + b",".join(self._waiting) + end)
        self._waiting, self._size = [], 0


def _result(outcome: Any, room: int) -> bytes:
    if outcome is DROP:
        return b'{"drop":true}'
    if isinstance(outcome, RetryAfter):
        return _encode(_later(outcome))
    if isinstance(outcome, BaseException):
        return b'{"error":%b}' % _encode(_error(outcome))
    try:
        result = b'{"value":%b}' % _encode(outcome)
        if len(result) > room:
            raise FrameError(f"{len(result):,} bytes are too many for a frame")
        return result
    except FrameError as error:
        return _result(error, room)


def _check_results(results: Any, *more: type) -> None:
    if not isinstance(results, (list, tuple, *more)):
        raise TypeError(f"a call returns a list of results or a generator, not {type(results).__name__}")


def _merge(results: Iterator[Any], refused: Dict[int, Exception]) -> Iterator[Any]:
    """The results in the order of the items, with the errors of the refused ones at their places."""
    for position in itertools.count():
        if position in refused:
            yield refused[position]
            continue
        try:
            yield next(results)
        except StopIteration:
            return


class _Program:
    """One run of serve. A thread listens to the worker while the main thread, and others, answer calls."""

    def __init__(self, call: Callable[..., Any], preprocess: Optional[Callable[..., Any]]) -> None:
        self.call, self._preprocess = call, preprocess
        self.state: Tuple[Any, ...] = ()
        self.pipes = _Pipes()
        self._frames = self.pipes.frames()
        hello = next(self._frames, None)
        if not hello or hello["type"] != "hello":
            raise ProtocolError("no hello from a worker: start this program with stint run --serve '…'")
        if hello["version"] != _VERSION:
            raise ProtocolError(f"the worker speaks version {hello['version']}, this program {_VERSION}")
        limits = hello.get("limits", {})
        self.pipes.limit = limits.get("frame", self.pipes.limit)
        self.timers = _Timers(self.pipes, limits.get("scope", 200))
        self._concurrency = hello.get("concurrency", 1)
        self._lock = threading.Lock()
        self._open = 0  # calls that have come and are not answered
        self._threads: List[threading.Thread] = []  # beside the main one: as many as calls are under way at once
        self._calls: "queue.SimpleQueue[Optional[_Frame]]" = queue.SimpleQueue()  # None: no more
        self.causes: List[BaseException] = []  # of an end that is not clean
        self.take: Callable[[_Frame], None] = self._to_threads  # what comes of a call, in the thread that listens
        self.ended: Callable[[], None] = lambda: self._calls.put(None)  # no more calls come
        self._stop: Optional[Stopping] = None  # with a monotonic deadline for its grace

    def listen(self) -> None:
        threading.Thread(target=self._listen, name="stint", daemon=True).start()

    def prepare(self, init: Optional[Callable[[], Any]], name: str) -> None:
        self.listen()
        with self.preparing(name):
            self.state = (init(),) if init else ()

    @contextlib.contextmanager
    def preparing(self, name: str) -> Iterator[None]:
        """Says that the program is ready, or why it is not, and ends it then."""
        try:
            yield
        except Exception as error:
            self.pipes.send("ready", error=_error(error))
            sys.exit(1)
        self.pipes.send("ready", name=name, stack="USR1")

    def run(self) -> Optional[BaseException]:
        """Answers calls until the end. Returns what caused it, None for a clean one."""
        self._work()
        while self._threads:
            self._threads.pop().join()
        return self.causes[0] if self.causes else None

    def stopping(self) -> Optional[Stopping]:
        stop = self._stop
        return stop and stop._replace(grace=max(0.0, stop.grace - time.monotonic()))

    def _listen(self) -> None:
        try:
            for frame in self._frames:
                if frame["type"] == "bye":
                    break
                self._receive(frame)
            self._end()
        except Exception as error:
            self._end(error)

    def _receive(self, frame: _Frame) -> None:
        if frame["type"] == "call":
            self._stop = None  # it was about the calls before
            self.take(frame)
        elif frame["type"] == "acquired":
            self.timers.answer(frame["id"], frame.get("error"))
        elif frame["type"] == "stopping":
            self._stop = Stopping(frame.get("reason", ""), time.monotonic() + frame.get("grace", 0))

    def _to_threads(self, frame: _Frame) -> None:
        """Passes a call on, to another thread if none is free."""
        with self._lock:
            self._open += 1
            if self._open > len(self._threads) + 1 and len(self._threads) + 1 < self._concurrency:
                thread = threading.Thread(target=self._work)
                thread.start()
                self._threads.append(thread)
        self._calls.put(frame)

    def _end(self, cause: Optional[BaseException] = None) -> None:
        if cause is not None:
            self.causes.append(cause)
        self.ended()

    def _work(self) -> None:
        try:
            for frame in iter(self._calls.get, None):
                try:
                    self._answer(frame)
                finally:
                    with self._lock:
                        self._open -= 1
            self._end()  # for the next thread
        except BaseException as cause:
            self._end(cause)

    def _answer(self, frame: _Frame) -> None:
        with self.answering(frame):
            if "items" in frame:
                answer = _Answer(self.pipes, frame["id"], len(frame["items"]))
                outcomes, stream = self._many(frame["items"])
                for outcome in outcomes:
                    if not answer.add(outcome):
                        break
                    if stream:
                        answer.flush()
            else:
                answer = _Answer(self.pipes, frame["id"], 1)
                answer.add(self._one(frame["item"]))
            answer.end()

    @contextlib.contextmanager
    def answering(self, frame: _Frame) -> Iterator[None]:
        """Answers for a call that raises."""
        _call.set(frame["id"])
        _trace.set(frame.get("traceparent", ""))
        try:
            yield
        except SlowDown as request:
            self.pipes.send("slow-down", after=request.seconds, call=frame["id"])
            self.pipes.send("results", id=frame["id"], results=[])
        except RetryAfter as request:
            self.pipes.send("results", id=frame["id"], **_later(request))
        except Exception as error:
            self.pipes.send("results", id=frame["id"], error=_error(error))

    def _one(self, item: Any) -> Any:
        call = self.call.function if isinstance(self.call, each) else self.call
        return _outcome(lambda: call(self.prepared(item), *self.state))

    def _many(self, items: List[Any]) -> Tuple[Iterator[Any], bool]:
        """The results of a list of items, and whether each is to be sent as it comes."""
        accepted, refused = self.sift(items)
        results = self.call(accepted, *self.state) if accepted else []
        _check_results(results, Iterator)
        return _merge(iter(results), refused), isinstance(results, Iterator)

    def sift(self, items: List[Any]) -> Tuple[List[Any], Dict[int, Exception]]:
        """The items as the call gets them, and by position the errors of those that it does not get."""
        accepted: List[Any] = []
        refused: Dict[int, Exception] = {}
        for position, item in enumerate(items):
            try:
                accepted.append(self.prepared(item))
            except Exception as error:
                refused[position] = error
        return accepted, refused

    def prepared(self, item: Any) -> Any:
        if type(item) is _Undecodable:
            raise item.error
        return self._preprocess(item, *self.state) if self._preprocess else item


def _is_async(call: Callable[..., Any]) -> bool:
    function = call.function if isinstance(call, each) else call
    functions = (function, getattr(function, "__call__", None))  # an object may have an async __call__
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in functions)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class _Loop:
    """One run of serve with calls that are coroutines: each is a task of the main thread's event loop."""

    def __init__(self, program: _Program, concurrency: Optional[int]) -> None:
        self._program, self._concurrency = program, concurrency
        self._tasks: "set[asyncio.Task[None]]" = set()  # of calls

    async def run(self, init: Optional[Callable[[], Any]], close: Optional[Callable[..., Any]], name: str) -> Any:
        """Answers calls until the end. Returns what caused it, None for a clean one."""
        program, loop, ended = self._program, asyncio.get_running_loop(), asyncio.Event()
        self._gate = asyncio.Semaphore(self._concurrency) if self._concurrency else _Open()
        program.take = lambda frame: self._post(loop, self._begin, frame)
        program.ended = lambda: self._post(loop, ended.set)
        program.listen()  # init may have timers
        with program.preparing(name):
            program.state = (await _awaited(init()),) if init else ()
        await ended.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        cause = program.causes[0] if program.causes else None
        if close:
            await _awaited(close(cause, *program.state))
        return cause

    @staticmethod
    def _post(loop: "asyncio.AbstractEventLoop", function: Callable[..., Any], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits for the call any more
            loop.call_soon_threadsafe(function, *arguments)

    def _begin(self, frame: _Frame) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(frame))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:  # such as a frame that cannot be written
            self._program.causes.append(task.exception())
            self._program.ended()

    async def _answer(self, frame: _Frame) -> None:
        program = self._program
        with program.answering(frame):
            items = frame["items"] if "items" in frame else [frame["item"]]
            answer = _Answer(program.pipes, frame["id"], len(items))
            if "items" not in frame:
                answer.add(await self._one(items[0]))
            elif isinstance(program.call, each):
                await self._each(items, answer)
            else:
                await self._many(items, answer)
            answer.end()

    async def _one(self, item: Any) -> Any:
        """The outcome of an item."""
        program = self._program
        function = program.call.function if isinstance(program.call, each) else program.call
        try:
            prepared = program.prepared(item)
            async with self._gate:
                return await function(prepared, *program.state)
        except (Exception, asyncio.CancelledError) as error:
            return error

    async def _each(self, items: List[Any], answer: _Answer) -> None:
        """Runs all items at once, and sends what is done of them in their order."""
        tasks = [asyncio.ensure_future(self._one(item)) for item in items]
        try:
            for task in tasks:
                if not task.done():
                    answer.flush()
                if not answer.add(await task):
                    break
        finally:
            for task in tasks:
                task.cancel()

    async def _many(self, items: List[Any], answer: _Answer) -> None:
        program = self._program
        accepted, refused = program.sift(items)
        if not accepted:
            results: Any = []
        elif inspect.isasyncgenfunction(program.call):
            await self._stream(program.call(accepted, *program.state), refused, answer)
            return
        else:
            async with self._gate:
                results = await program.call(accepted, *program.state)
        _check_results(results)
        for outcome in _merge(iter(results), refused):
            if not answer.add(outcome):
                break

    async def _stream(self, results: Any, refused: Dict[int, Exception], answer: _Answer) -> None:
        """Sends what an async generator yields, as it comes."""
        try:
            async with self._gate:
                for position in itertools.count():
                    outcome = refused[position] if position in refused else await results.__anext__()
                    if not answer.add(outcome):
                        return
                    answer.flush()
        except StopAsyncIteration:
            pass
        finally:
            await results.aclose()


class _Open:
    """A gate that everybody may pass."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: Any) -> None:
        pass
