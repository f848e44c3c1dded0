"""The Python programs among the handlers of conformance_test.go: they do what their items say (see obey_test.go).

The argument says which one: none calls functions, "async" coroutines, and "each" one for each item.
"""

import asyncio
import os
import sys
import time

import stint


class Bad(Exception):
    pass


class Whole(Exception):
    pass


def count(path):
    try:
        with open(path) as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


def note(path):
    with open(path, "a") as file:
        file.write("x\n")
    return count(path)


def leave(status):
    print("last words", flush=True)
    os._exit(status)


def pauses(item):
    """The times, in seconds, that the item waits, one after the other."""
    do, _, arg = item.partition(" ")
    if do == "nap":
        yield int(arg) / 1000
    if do == "hang":
        yield 1000
    if do in ("join", "quit"):
        note(arg)
    lines = {"join": 4, "quit": 4, "await": 3}.get(do, 0)
    while lines and count(arg) < lines:
        yield 0.01


def act(item, size):
    """What comes of the item once it has waited."""
    do, _, arg = item.partition(" ")
    if do == "null":
        return None
    if do == "drop":
        return stint.DROP
    if do == "size":
        return size
    if do == "error":
        raise Bad(arg)
    if do == "tally":
        note(arg)
        raise Bad("tallied")
    if do == "third" and note(arg) < 3:
        raise Bad("not yet")
    if do == "exit":
        leave(int(arg))
    if do == "die":
        note(arg)
        leave(3)
    if do == "spend":
        stint.cost(int(arg) / 1e6, tokens_in=int(arg), tokens_out=1)
    if do == "quit":
        leave(3)
    if do == "slower" and note(arg) == 1:
        raise stint.SlowDown(0.15)
    if do == "later" and note(arg) == 1:
        raise stint.RetryAfter(0.15)
    return item


def obey(item, size):
    for seconds in pauses(item):
        time.sleep(seconds)
    return act(item, size)


async def obey_async(item, size=0):
    for seconds in pauses(item):
        await asyncio.sleep(seconds)
    return act(item, size)


def check(items):
    for item in items:
        if item.startswith("fail "):
            raise Whole(item[len("fail "):])


def answer(items, outcomes):
    """The list that answers a call."""
    results = []
    for item, outcome in zip(items, outcomes):
        if item != "short":
            results.append(outcome)
        if item == "long":
            results.append(item)
    return results


def outcome(item, size):
    try:
        return obey(item, size)
    except (Bad, stint.RetryAfter) as error:
        return error


async def outcome_async(item, size):
    try:
        return await obey_async(item, size)
    except (Bad, stint.RetryAfter) as error:
        return error


def call(items):
    if isinstance(items, str):
        return obey(items, 0)
    check(items)
    return answer(items, [outcome(item, len(items)) for item in items])


async def call_async(items):
    if isinstance(items, str):
        return await obey_async(items)
    check(items)
    return answer(items, [await outcome_async(item, len(items)) for item in items])


if "each" in sys.argv:
    stint.serve(stint.each(obey_async), concurrency=64)
else:
    stint.serve(call_async if "async" in sys.argv else call)
