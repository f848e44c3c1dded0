"""Predicts from the circumstances of a bird strike whether the aircraft was damaged: naive Bayes.

A serve program: each slot's process learns from the data once and then classifies batch after batch.
"""

import csv
import math
import sys
from collections import Counter
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXAMPLES.parent / "python"))

import stint  # noqa: E402

FEATURES = ("Phase of flight", "Wildlife Size", "Wildlife Species", "Time of day")
DAMAGE = "Effect Amount of damage"
LEARN_BEFORE = "1999"  # the later strikes are new to the model


class Model:
    """How often each value of each feature goes with each class."""

    def __init__(self, records):
        self.classes = Counter()
        self.counts = {feature: {} for feature in FEATURES}  # value → class → records
        for record in records:
            outcome = actual(record)
            self.classes[outcome] += 1
            for feature, values in self.counts.items():
                values.setdefault(record[feature], Counter())[outcome] += 1

    def predict(self, record):
        """The likelier class and its probability. A value never seen before says nothing."""
        scores = {}
        for outcome, total in self.classes.items():
            scores[outcome] = math.log(total)
            for feature, values in self.counts.items():
                if record[feature] in values:  # one is added to every count, so that none is zero
                    seen = values[record[feature]][outcome]
                    scores[outcome] += math.log((seen + 1) / (total + len(values)))
        best = max(scores, key=scores.get)
        return best, 1 / sum(math.exp(score - scores[best]) for score in scores.values())


def actual(record):
    return "none" if record[DAMAGE] == "None" else "damage"


def learn():
    with open(EXAMPLES / "data" / "birdstrikes.csv", newline="", encoding="utf-8") as file:
        model = Model(record for record in csv.DictReader(file) if record["Flight Date"] < LEARN_BEFORE)
    stint.log("info", "learned", records=sum(model.classes.values()))
    return model


def check(record, model):
    """Refuses a record without a value that the model uses; only that record fails."""
    missing = [field for field in FEATURES if not record.get(field)]
    if missing:
        raise ValueError(f"the record has no {', no '.join(missing)}")
    return record


def classify(records, model):
    with stint.expires(10):  # a batch takes milliseconds
        return [result(record, *model.predict(record)) for record in records]


def result(record, predicted, p):
    known = {"actual": actual(record)} if DAMAGE in record else {}  # of a strike just reported it is not
    return {
        "date": record.get("Flight Date"),
        "species": record["Wildlife Species"],
        "predicted": predicted,
        **known,
        "p": round(p, 3),
    }


if __name__ == "__main__":
    stint.serve(classify, init=learn, preprocess=check, name="naive Bayes of bird strikes")
