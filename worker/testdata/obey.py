"""The Python program among the handlers of conformance_test.go: it does what its items say (see obey_test.go)."""

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


def wait(path, lines):
    while count(path) < lines:
        time.sleep(0.01)


def leave(status):
    print("last words", flush=True)
    os._exit(status)


def obey(item, size):
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
    if do == "nap":
        time.sleep(int(arg) / 1000)
    if do == "hang":
        time.sleep(1000)
    if do in ("join", "quit"):
        note(arg)
        wait(arg, 4)
    if do == "quit":
        leave(3)
    if do == "await":
        wait(arg, 3)
    if do == "slower" and note(arg) == 1:
        raise stint.SlowDown(0.15)
    if do == "later" and note(arg) == 1:
        raise stint.RetryAfter(0.15)
    return item


def outcome(item, size):
    try:
        return obey(item, size)
    except (Bad, stint.RetryAfter) as error:
        return error


def call(items):
    if isinstance(items, str):
        return obey(items, 0)
    results = []
    for item in items:
        if item.startswith("fail "):
            raise Whole(item[len("fail "):])
        if item != "short":
            results.append(outcome(item, len(items)))
        if item == "long":
            results.append(item)
    return results


stint.serve(call)
