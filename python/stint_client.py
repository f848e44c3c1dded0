"""A client of stint's feeds, over `stint gateway`. It needs nothing but Python 3.9.

    from stint_client import Feed

    with Feed("http://127.0.0.1:8080", "risk", token="...") as feed:
        feed.put({"text": "a bird"}, {"text": "another"}, wait=5)
        print(feed.call({"text": "a third one"}, timeout=10))
        for result in feed.stream(items):
            ...
        print(feed.state()["backlog"])
        for result, cursor in feed.results():
            ...

Items and results are JSON values. Errors are subclasses of `FeedError`, named as those of stint's client for Go. A Feed
may be used by any number of threads.
"""

import builtins
import http.client
import json
import socket
import threading
import urllib.parse

__all__ = ["Feed", "FeedError"]

# A list of items that is accepted or refused as a whole has so many at most, and about so many bytes.
MAX_ITEMS = 1000
MAX_BYTES = 1 << 20


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
InvalidItemError = _error("InvalidItemError", "An item is no JSON value.", ValueError)
InvalidRequestError = _error("InvalidRequestError", "The request makes no sense.", ValueError)
UnauthorizedError = _error("UnauthorizedError", "The token is wrong or missing.")
ForbiddenError = _error("ForbiddenError", "The gateway does not answer to this host or page.")
TimeoutError = _error("TimeoutError", "There was no outcome in time. An accepted item keeps its place.", builtins.TimeoutError)
UnservedError = _error("UnservedError", "No worker serves the feed's pool.")
UncertainError = _error("UncertainError", "It is not known whether items were accepted.")
UnavailableError = _error("UnavailableError", "The gateway, or the server behind it, does not answer.", ConnectionError)
BusyError = _error("BusyError", "The gateway has too many requests under way.")
ItemError = _error("ItemError", "The handler failed for the item: `detail` has kind, type and message.")
DroppedError = _error("DroppedError", "The handler gave no result for the item.")
DiscardedError = _error("DiscardedError", "A reset has removed the item.")
StoredError = _error("StoredError", "The outcome is in the feed's store, which the gateway cannot read.")
DecodeError = _error("DecodeError", "The result could not be read.")

_KINDS = {name: globals()[name] for name in __all__ if name not in ("Feed", "FeedError")}
# Errors of single items in an answer of several: the kinds that are not the handler's.
_ITEM_KINDS = {"discarded": DiscardedError, "stored": StoredError, "refused": InvalidItemError, "decode": DecodeError}


def _failure(status, body):
    """The error of an answer that is none."""
    try:
        detail = json.loads(body)["error"]
        message, name = detail["message"], detail.get("type", "")
    except (ValueError, KeyError, TypeError):
        detail, name = {}, ""
        message = "status %d: %s" % (status, body[:200].decode("utf-8", "replace"))
    return _KINDS.get(name, FeedError)(message, detail)


def _encode(item):
    try:
        return json.dumps(item, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as err:
        raise InvalidItemError("an item is no JSON value: %s" % err) from err


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
    the gateway, and how long it may be silent beyond what a request allows."""

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
        """Puts items, and returns how many: all of them. Up to 1,000 items of 1 MiB are accepted or refused together; of
        more, the error's `accepted` says how many, from the first, are in the feed. `wait` is how many seconds each list
        waits for room."""
        accepted = 0
        for count, body in _lists(items):
            try:
                self._ask("POST", "/put?wait=%dms" % round(wait * 1000), body, "application/x-ndjson", wait)
            except FeedError as err:
                err.accepted = accepted
                raise
            accepted += count
        return accepted

    def call(self, item, timeout=60):
        """Puts an item and returns its result. Errors: FullError (it does not wait for room), ItemError, DroppedError,
        TimeoutError and others."""
        path = "/call?timeout=%dms" % max(1, round(timeout * 1000))
        return json.loads(self._ask("POST", path, _encode(item), "application/json", timeout))

    def stream(self, items, timeout=60, errors="raise", with_items=False):
        """Yields the results of items in their order. It takes items as the feed has room for them, and any number of them. `errors`
        is "raise": an item's error is raised at its place, and ends the stream; or "yield": it is yielded instead of a result.
        With `with_items` it yields pairs (item, result). `timeout` limits the wait for the next outcome. Leaving early ends the
        feeding; what was accepted is done."""
        if errors not in ("raise", "yield"):
            raise InvalidRequestError('invalid errors %r: use "raise" or "yield"' % (errors,))
        return self._stream(iter(items), timeout, errors == "raise", with_items)

    def _stream(self, items, timeout, raises, with_items):
        connection = self._connection(timeout)
        sender = _Sender(connection, items, with_items)
        try:
            try:
                connection.putrequest("POST", self._path + "/call?timeout=%dms" % max(1, round(timeout * 1000)))
                for key, value in {**self._headers, "Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"}.items():
                    connection.putheader(key, value)
                connection.endheaders()
                sender.start()
                answer = connection.getresponse()
                if answer.status != 200:
                    raise _failure(answer.status, answer.read())
                for line in answer:
                    result = self._outcome(json.loads(line), raises)
                    yield (sender.sent.pop(0), result) if with_items else result
            except (OSError, http.client.HTTPException) as err:
                raise sender.failure or UnavailableError("the gateway does not answer: %s" % err) from err
            if sender.failure:
                raise sender.failure
        finally:
            sender.leave()

    @staticmethod
    def _outcome(line, raises):
        error = line.get("error")
        if error is None:
            if not line.get("dropped"):
                return line.get("result")
            failure = DroppedError("the handler gave no result for item %s" % line.get("item"), line)
        elif "index" not in line:
            raise _KINDS.get(error.get("type"), FeedError)(error["message"], error)
        else:
            failure = _ITEM_KINDS.get(error["kind"], ItemError)(error["message"], {**error, "item": line.get("item")})
        if raises:
            raise failure
        return failure

    def results(self, session=0, cursor=None, follow=True):
        """Yields what the feed has recorded, in the order of its items, as pairs (result, cursor): a later call with that cursor
        goes on after the result. Failed and dropped items have none. `session` picks the results of one session. It ends when the
        feed has ended; without `follow`, at what is committed so far, which a feed does every ten seconds or so. The gateway must
        have access to the feed's store, or the error is a StoredError."""
        query = {"follow": "true" if follow else "false"}
        if session:
            query["session"] = session
        if cursor:
            query["cursor"] = cursor
        connection = self._connection(0)
        try:
            try:
                connection.request("GET", self._path + "/results?" + urllib.parse.urlencode(query), headers=self._headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    raise _failure(answer.status, answer.read())
                for line in answer:
                    if not line.strip():
                        continue  # it says only that the answer goes on
                    value = json.loads(line)
                    if "error" in value:
                        error = value["error"]
                        raise _KINDS.get(error.get("type"), FeedError)(error["message"], error)
                    yield value["result"], value["cursor"]
            except (OSError, http.client.HTTPException) as err:
                if isinstance(err, FeedError):
                    raise
                raise UnavailableError("the gateway does not answer: %s" % err) from err
        finally:
            connection.close()

    def state(self):
        """Returns what is known of the feed: accepted, backlog, capacity, session, idle, full and more."""
        return json.loads(self._ask("GET", "", None, None, 0))

    def reset(self):
        """Begins the next session: what waits is discarded. Returns the session and how many items that were."""
        return json.loads(self._ask("POST", "/reset", b"", None, 0))

    def close(self):
        """Closes the feed: it takes no more items, and completes when it has done all. It can be repeated."""
        self._ask("POST", "/close", b"", None, 0)

    def _connection(self, patience):
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(self._parts.hostname, self._parts.port, timeout=self._connect + patience)

    def _ask(self, method, path, body, media, patience):
        connection = self._connection(patience)
        try:
            try:
                connection.request(method, self._path + path, body, {**self._headers, **({"Content-Type": media} if media else {})})
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before it had read everything
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as err:
            raise UnavailableError("the gateway does not answer: %s" % err) from err
        finally:
            connection.close()
        if answer.status >= 300:
            raise _failure(answer.status, text)
        return text


class _Sender:
    """Sends the items of a stream, in a thread of its own, while the answer is read."""

    def __init__(self, connection, items, keeps):
        self.connection, self.items, self.keeps = connection, items, keeps
        self.sent, self.failure, self.left, self.sock = [], None, False, None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.sock = self.connection.sock  # the connection forgets it when an answer says that it will be closed
        self.thread.start()

    def _run(self):
        try:
            for item in self.items:
                if self.left:
                    return
                line = _encode(item) + b"\n"
                if self.keeps:
                    self.sent.append(item)
                self.sock.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            self.sock.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # the reader knows why
        except BaseException as err:  # of the items: the stream ends with it
            self.failure = err
            self._cut()

    def _cut(self):
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed

    def leave(self):
        self.left = True
        self._cut()
        self.connection.close()
        if self.thread.is_alive():
            self.thread.join(1)  # it may wait for the next item
