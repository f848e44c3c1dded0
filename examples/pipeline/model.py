"""How likely did a bird strike damage the aircraft, going by the features that the command line names? Naive Bayes.

A serve program: each slot's process learns from the data once and then scores batch after batch.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "naivebayes"))

import classify  # noqa: E402
from classify import stint  # noqa: E402


def score(records, model):
    with stint.expires(10):  # a batch takes milliseconds
        return [result(record, *model.predict(record)) for record in records]


def result(record, predicted, p):
    return {
        "strike": f"{record['Wildlife Species']} at {record['Airport Name']} on {record['Flight Date']}",
        "p": round(p if predicted == "damage" else 1 - p, 3),
    }


if __name__ == "__main__":
    classify.FEATURES = tuple(sys.argv[1:])
    stint.serve(score, init=classify.learn, preprocess=classify.check, name=f"damage by {' and '.join(sys.argv[1:])}")
