"""The Python program of flatten_test.go: it answers with the JSON that is in its items, which are texts."""

import json

import stint


def answer(item):
    if item == "drop":
        return stint.DROP
    if item == "fail":
        return ValueError("told to")
    return json.loads(item)


stint.serve(lambda items: [answer(item) for item in items])
