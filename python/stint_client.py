"""A client of stint's feeds, over `stint feed serve`. It needs nothing but Python 3.9.

    from stint_client import Feed

    with Feed("http://127.0.0.1:8080", "risk", token="...") as feed:
        feed.put({"text": "a bird"}, {"text": "another"}, wait=5)
        print(feed.call({"text": "a third one"}, timeout=10))
        for result in feed.stream(items):
            ...
        print(feed.state()["backlog"])
        for result, cursor in feed.results():
            ...

Items and results are JSON values. Errors are subclasses of `FeedError`, named as those of stint's client for Go. After an
UnavailableError a request may be sent again. After an UncertainError it may have been carried out: what is sent again may be
done twice. A Feed may be used by any number of threads.
"""

import builtins
import collections
import http.client
import io
import json
import selectors
import socket
import ssl
import threading
import time
import urllib.parse

__all__ = ["Feed", "FeedError"]

# A list of items that is accepted or refused as a whole has so many at most, and so many bytes; an item, too.
MAX_ITEMS = 1000
MAX_BYTES = 1 << 20
# How many seconds the gateway itself waits for a server that is away, and between two signs of life in results.
SERVER_PATIENCE = 60
ALIVE_EVERY = 15
# Items of a stream that cannot be sent, and whose errors have not been taken yet: so many at most.
MAX_REFUSED = 64
# How many seconds a stream's threads wait for the connection, until they look whether the stream has been left.
LOOK_EVERY = 1

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class FeedError(Exception):
    """The base of all errors. `detail` is what the gateway says of it, a dict."""

    def __init__(self, message, detail=None):
        super().__init__(message)
        self.detail = detail or {}


def _error(name, doc, *bases):
    kind = type(name, (FeedError, *bases), {"__doc__": doc, "__module__": __name__})
    __all__.append(name)
    return kind


FullError = _error("FullError", "The feed's capacity is taken.")
ClosedError = _error("ClosedError", "The feed takes no more items.")
StoppedError = _error("StoppedError", "The feed is stopping, or has stopped.")
FailedError = _error("FailedError", "The feed has failed.")
NotFoundError = _error("NotFoundError", "There is no such feed.")
NotFeedError = _error("NotFeedError", "The job is not a feed.")
TooLargeError = _error("TooLargeError", "An item, or a list, is larger than the feed can ever take.")
InvalidItemError = _error("InvalidItemError", "An item is not a JSON value.", ValueError)
InvalidRequestError = _error("InvalidRequestError", "The request makes no sense.", ValueError)
UnauthorizedError = _error("UnauthorizedError", "The token is wrong or missing.")
ForbiddenError = _error("ForbiddenError", "The gateway does not answer to this host or page.")
TimeoutError = _error("TimeoutError", "There was no outcome in time. An accepted item keeps its place.", builtins.TimeoutError)
UnservedError = _error("UnservedError", "No worker serves the feed's pool.")
UncertainError = _error("UncertainError", "It is not known what has become of the request: of items, whether they were accepted.")
UnavailableError = _error("UnavailableError", "The gateway, or its server, does not answer. Nothing was done: try again.", ConnectionError)
BusyError = _error("BusyError", "The gateway has too many requests under way.")
ItemError = _error("ItemError", "The handler failed for the item: `detail` has kind, type and message.")
DroppedError = _error("DroppedError", "The handler gave no result for the item.")
DiscardedError = _error("DiscardedError", "A reset has removed the item.")
StoredError = _error("StoredError", "The outcome is in the feed's store, which the gateway cannot read.")
DecodeError = _error("DecodeError", "The result could not be read.")

_KINDS = {name: globals()[name] for name in __all__ if name not in ("Feed", "FeedError")}
# Kinds of errors of single items that are not the handler's, and the error if its type is not known.
_ITEM_KINDS = {"discarded": DiscardedError, "stored": StoredError, "refused": InvalidItemError, "decode": DecodeError}


def _named(error):
    """The error that an answer names."""
    return _KINDS.get(error.get("type"), FeedError)(error["message"], error)


def _failure(status, body, lost):
    """The error of an answer that is none. `lost` is its class if it is not the gateway's own, but of a proxy that may have
    passed the request on."""
    try:
        return _named(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        message = "status %d: %s" % (status, body[:200].decode("utf-8", "replace"))
        return (lost if status >= 500 else FeedError)(message)


def _silent(kind, err):
    """The error of a request without an answer, or without all of it."""
    why = "its answer has broken off" if isinstance(err, http.client.IncompleteRead) else str(err) or type(err).__name__
    doubt = "; it is not known whether the request was carried out" if kind is UncertainError else ""
    return kind("the gateway does not answer: " + why + doubt)


def _encode(item):
    try:
        line = json.dumps(item, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidItemError("an item is not a JSON value: %s" % err) from err
    if len(line) > MAX_BYTES:
        text = "an item of %d bytes is too large, it may have %d: put where it is, a path or a URL, and have the handler read it"
        raise TooLargeError(text % (len(line), MAX_BYTES), {"max_items": MAX_ITEMS, "max_bytes": MAX_BYTES})
    return line


def _outcome(line):
    """What a line of an answer has for an item: its result, or its error."""
    error = line.get("error")
    if error is None:
        if not line.get("dropped"):
            return line.get("result")
        return DroppedError("the handler gave no result for item %s" % line.get("item"), line)
    kind = ItemError  # the type is the handler's
    if error["kind"] in _ITEM_KINDS:
        kind = _KINDS.get(error.get("type"), _ITEM_KINDS[error["kind"]])
    return kind(error["message"], {**error, "item": line.get("item")})


def _lines(answer):
    """Yields the lines of an answer, in lists of what has come at once. An answer without its end is an IncompleteRead; the
    answer's own readline() takes that for the end."""
    begun = []  # pieces of a line that goes on
    while True:
        piece = answer.read1()
        if not piece:
            break
        first, *others = piece.split(b"\n")
        begun.append(first)
        if others:
            yield [b"".join(begun), *others[:-1]]
            begun = [others[-1]]
    if answer.length or any(begun):
        raise http.client.IncompleteRead(b"".join(begun))


def _lists(items):
    """Joins items to bodies, each of them one list, and yields each with its number of items."""
    lines, size = [], 0
    for item in items:
        line = _encode(item) + b"\n"
        if lines and (len(lines) == MAX_ITEMS or size + len(line) > MAX_BYTES):
            yield len(lines), b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield len(lines), b"".join(lines)


class Feed:
    """A feed behind a gateway. `url` is the gateway's, `name` the job's. `connect` is how many seconds it may take to reach
    the gateway, and how long it may be silent beyond what a request allows: what that waits for itself, and a minute for a
    server that is away.

    If the gateway cannot be reached, or says that it has done nothing, the error is an UnavailableError. If there is no answer
    to a request that has been sent, it is an UncertainError; of state, results and close, which can be repeated, it is an
    UnavailableError."""

    def __init__(self, url, name, token=None, connect=30):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequestError("invalid URL %r: use http://HOST:PORT" % url)
        self._parts, self._connect = parts, connect
        self._path = parts.path.rstrip("/") + "/v1/feeds/" + urllib.parse.quote(name, safe="")
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def put(self, *items, wait=0):
        """Puts items, and returns how many: all of them. Up to 1,000 items of 1 MiB in sum are accepted or refused together;
        of more, the error's `accepted` says how many, from the first, are in the feed for certain. `wait` is how many seconds
        each list waits for room. Errors: FullError, TooLargeError, InvalidItemError, UncertainError and others. After an
        UncertainError the list that follows the accepted items may be in the feed, as a whole."""
        accepted = 0
        try:
            for count, body in _lists(items):
                self._ask("POST", "/put?wait=%dms" % round(wait * 1000), body, "application/x-ndjson", SERVER_PATIENCE + wait)
                accepted += count
        except FeedError as err:
            err.accepted = accepted
            raise
        return accepted

    def call(self, item, timeout=60):
        """Puts an item and returns its result. Errors: FullError (it does not wait for room), TooLargeError, InvalidItemError,
        ItemError, DroppedError, TimeoutError, UncertainError (the item may be in the feed) and others."""
        path = "/call?timeout=%dms" % max(1, round(timeout * 1000))
        return json.loads(self._ask("POST", path, _encode(item), "application/json", timeout))

    def stream(self, items, timeout=60, errors="raise", with_items=False):
        """Yields the results of items in their order. It takes items, in a thread of its own, as the feed has room for them, and
        any number of them. `errors` is "raise": an item's error is raised at its place, and ends the stream; or "yield": it is
        yielded instead of a result. An item that is not a JSON value, or is larger than 1 MiB, has its error at its place, too.
        With `with_items` it yields pairs (item, result).

        Any other error ends the stream, after all outcomes that came before it. What `items` raises is raised here, after the
        outcomes of the items before it. If the gateway does not answer any more, the error is an UncertainError if there are items
        that were sent and have no outcome: what is yielded is done, and these may be. Otherwise it is an UnavailableError:
        what is yielded is all that was done.

        `timeout` limits the wait for the next outcome. Items may pause for up to ten minutes; then the gateway ends the stream with a
        TimeoutError. It also ends one whose results cannot be sent for 30 s, because nobody takes them. Leaving early ends the
        feeding; what was accepted is done."""
        if errors not in ("raise", "yield"):
            raise InvalidRequestError('invalid errors %r: use "raise" or "yield"' % (errors,))
        return self._stream(iter(items), timeout, errors == "raise", with_items)

    def _stream(self, items, timeout, raises, with_items):
        connection = self._connected(0)
        stream = _Stream(connection, items, raises, with_items, self._connect + SERVER_PATIENCE + timeout)
        try:
            try:
                connection.putrequest("POST", self._path + "/call?timeout=%dms" % max(1, round(timeout * 1000)))
                for key, value in {**self._headers, "Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"}.items():
                    connection.putheader(key, value)
                connection.endheaders()
            except (OSError, http.client.HTTPException) as err:
                raise _silent(UnavailableError, err) from err
            stream.start()
            for item, outcome in iter(stream.next, None):
                if raises and isinstance(outcome, FeedError):
                    raise outcome
                yield (item, outcome) if with_items else outcome
        finally:
            stream.leave()

    def results(self, session=0, cursor=None, follow=True):
        """Yields what the feed has recorded, in the order of its items, as pairs (result, cursor): a later call with that cursor
        goes on after the result. Failed and dropped items have none. `session` picks the results of one session. It ends when the
        feed has ended; without `follow`, at what is committed so far, which a feed does every ten seconds or so. The gateway must
        have access to the feed's store, or the error is a StoredError. If the gateway ends, or does not answer any more, it is an
        UnavailableError: go on with the last cursor."""
        query = {"follow": "true" if follow else "false"}
        if session:
            query["session"] = session
        if cursor:
            query["cursor"] = cursor
        connection = self._connected(ALIVE_EVERY)
        try:
            try:
                connection.request("GET", self._path + "/results?" + urllib.parse.urlencode(query), headers=self._headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    raise _failure(answer.status, answer.read(), UnavailableError)
                for lines in _lines(answer):
                    for line in lines:
                        if line.strip():  # a blank one says only that the answer goes on
                            yield self._recorded(line)
            except (OSError, http.client.HTTPException) as err:
                if isinstance(err, FeedError):
                    raise
                raise _silent(UnavailableError, err) from err
        finally:
            connection.close()

    @staticmethod
    def _recorded(line):
        try:
            value = json.loads(line)
            if "error" not in value:
                return value["result"], value["cursor"]
            error = _named(value["error"])
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise UnavailableError("invalid line in the gateway's answer: %r" % line[:200]) from err
        raise error

    def state(self):
        """Returns what is known of the feed: accepted, backlog, capacity, session, idle, full and more."""
        return json.loads(self._ask("GET", "", None, None, SERVER_PATIENCE, UnavailableError))

    def reset(self):
        """Begins the next session: what waits is discarded. Returns the session and how many items that were. After an
        UncertainError the session may have begun: see state()."""
        return json.loads(self._ask("POST", "/reset", b"", None, SERVER_PATIENCE))

    def close(self):
        """Closes the feed: it takes no more items, and completes when it has done all. It can be repeated."""
        self._ask("POST", "/close", b"", None, SERVER_PATIENCE, UnavailableError)

    def _connected(self, patience):
        """Returns a connection. As long as there is none, nothing can have been carried out."""
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname, self._parts.port, timeout=self._connect)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as err:
            connection.close()
            raise UnavailableError("the gateway cannot be reached: %s" % (str(err) or type(err).__name__)) from err
        connection.sock.settimeout(self._connect + patience)
        return connection

    def _ask(self, method, path, body, media, patience, lost=UncertainError):
        """Returns the answer to a request. `lost` is the class of the error if it is not known what has become of it."""
        connection = self._connected(patience)
        whole = False  # without its last byte no request is carried out
        try:
            try:
                connection.request(method, self._path + path, body, {**self._headers, **({"Content-Type": media} if media else {})})
                whole = True
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before it had read everything
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as err:
            raise _silent(lost if whole else UnavailableError, err) from err
        finally:
            connection.close()
        if answer.status >= 300:
            raise _failure(answer.status, text, lost)
        return text


class _Stream:
    """A stream under way. One thread takes items and sends them, another receives the answer; the caller's takes what is next."""

    def __init__(self, connection, items, raises, keeps, patience):
        self.connection, self.items, self.raises, self.keeps, self.patience = connection, items, raises, keeps, patience
        self.sock = connection.sock
        self.using = threading.Lock()  # the connection
        self.changed = threading.Condition()  # all that follows
        # The sender's.
        self.sent = 0  # items that have been sent, if only in part
        self.kept = collections.deque()  # of these, the ones without an outcome, if they are yielded
        self.refused = collections.deque()  # items that cannot be sent: how many were sent before, the item, the error
        self.ended = False  # there are no more items
        self.failure = None  # of the items: why
        self.unsent = None  # why sending has ended
        # The receiver's.
        self.lines = collections.deque()
        self.over = False  # there is no more of the answer
        self.broken = None  # why, if it has no end
        self.refusal = None  # status and text of an answer that is an error
        self.heard = 0  # when something came
        # The caller's.
        self.done = 0  # items that were sent and have their outcome
        self.expected = None  # since when an outcome, or the end, is waited for
        self.left = False
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._receive)]

    def start(self):
        self.sock.setblocking(False)
        for thread in self.threads:
            thread.start()

    def leave(self):
        with self.changed:
            self.left = True
            self.changed.notify_all()
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # that of TLS would let the sender go on in plain text
        except OSError:
            pass  # it is closed
        for thread in self.threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(1)  # the sender may wait for the next item
        self.connection.close()

    def next(self):
        """Returns the next item, or None if they are not kept, with its result or its error. None: there are no more. Any other
        error is raised."""
        with self.changed:
            self.expected = None
            while True:
                if self.refused and self.refused[0][0] == self.done:
                    self.changed.notify_all()
                    return self.refused.popleft()[1:]
                if self.failure is not None and self.done == self.sent:
                    raise self.failure
                if self.lines:
                    return self._taken(self.lines.popleft())
                if self.over:
                    return self._end()
                self._wait()

    def _wait(self):
        if self.done == self.sent and not self.ended:
            self.changed.wait()  # nothing is due before the next item, which may take any time
            return
        now = time.monotonic()
        if self.expected is None:
            self.expected = now
        rest = max(self.expected, self.heard) + self.patience - now
        if rest <= 0:
            raise _silent(self._lost(), self.unsent or socket.timeout("timed out")) from self.unsent
        self.changed.wait(rest)

    def _taken(self, line):
        if not self.lines:
            self.changed.notify_all()
        try:
            value = json.loads(line)
            outcome = _named(value["error"]) if "error" in value and "index" not in value else _outcome(value)
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise self._lost()("invalid line in the gateway's answer: %r" % line[:200]) from err
        if "error" in value and "index" not in value:
            raise self._ending(outcome)
        if self.done == self.sent:
            raise FeedError("the gateway's answer has more outcomes than there are items")
        self.done += 1
        return (self.kept.popleft() if self.keeps else None), outcome

    def _end(self):
        """Returns if the answer has ended as it should have."""
        if self.refusal is not None:
            status, text = self.refusal
            raise self._ending(_failure(status, text, self._lost()), status)
        if self.broken is None and self.ended and self.done == self.sent:
            return
        why = self.broken or self.unsent or ConnectionError("its answer has ended before the items")
        raise _silent(self._lost(), why) from why

    def _lost(self):
        """The class of the error if there is no more of the answer: the items in hand may be done."""
        return UncertainError if self.done < self.sent else UnavailableError

    def _ending(self, err, status=None):
        """The error that ends the stream, of one in the answer. A gateway that ends is unavailable, whatever it has in hand; of
        a server that does not answer, 502, it knows better."""
        if isinstance(err, UnavailableError) and self._lost() is UncertainError and status != 502:
            message = "%s; it is not known what has become of the items sent" % err
            return UncertainError(message, {"type": "UncertainError", "message": message, "reason": err.detail})
        return err

    def _send(self):
        failure = None
        try:
            for item in self.items:
                try:
                    line = _encode(item)
                except FeedError as err:
                    if not self._refuse(item, err):
                        return
                    if self.raises:
                        break
                    continue
                if not self._count(item) or not self._write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line)):
                    return
        except BaseException as err:  # of the items
            failure = err
        with self.changed:
            self.failure, self.ended = failure, True
            self.changed.notify_all()
        self._write(b"0\r\n\r\n")

    def _refuse(self, item, err):
        with self.changed:
            self.changed.wait_for(lambda: len(self.refused) < MAX_REFUSED or self.left or self.over)
            self.refused.append((self.sent, item if self.keeps else None, err))
            self.changed.notify_all()
            return not (self.left or self.over)

    def _count(self, item):
        """Counts an item before it is sent, and reports whether it may be."""
        with self.changed:
            if self.left or self.over:
                return False
            if self.keeps:
                self.kept.append(item)
            self.sent += 1
            if self.sent == self.done + 1:
                self.changed.notify_all()  # from now on an outcome is due
            return True

    def _write(self, data):
        """Sends data, and reports whether it has been sent. It takes as long as the gateway does: it reads no faster than the
        feed takes items."""
        rest = memoryview(data)
        while rest:
            try:
                sent = self.use(self.sock.send, rest, selectors.EVENT_WRITE)
            except OSError as err:
                self.unsent = err
                return False
            if sent is None:
                return False
            rest = rest[sent:]
        return True

    def use(self, method, data, event):
        """Sends or receives as much as the connection takes or has, and waits until that is something. Returns how much; None:
        the stream has been left. Of TLS's connections only one thread may use one at a time, so none waits while it does."""
        while not self.left:
            try:
                with self.using:
                    return method(data)
            except BlockingIOError:
                awaited = event
            except ssl.SSLWantReadError:
                awaited = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                awaited = selectors.EVENT_WRITE
            with _Selector() as selector:
                selector.register(self.sock, awaited)
                selector.select(LOOK_EVERY)
        return None

    def _receive(self):
        broken = None
        try:
            answer = http.client.HTTPResponse(_Incoming(self), method="POST")
            answer.begin()
            if answer.status != 200:
                self.refusal = answer.status, answer.read()
            else:
                for lines in _lines(answer):
                    self._hand([line for line in lines if line.strip()])
        except Exception as err:  # of the connection, or of what is not HTTP
            broken = err
        with self.changed:
            self.broken, self.over = broken, True
            self.changed.notify_all()

    def _hand(self, lines):
        """Hands lines to the caller, and waits until they have been taken."""
        with self.changed:
            self.lines.extend(lines)
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.lines or self.left)


class _Incoming(io.RawIOBase):
    """What comes over a stream's connection, for as long as the stream is not left. For HTTPResponse it is a socket."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream

    def makefile(self, _mode):
        return io.BufferedReader(self)

    def readable(self):
        return True

    def readinto(self, into):
        size = self.stream.use(self.stream.sock.recv_into, into, selectors.EVENT_READ)
        self.stream.heard = time.monotonic()
        return size or 0
