"""Drives the classifier over the data.

    python3 -m unittest discover -s examples/naivebayes
"""

import collections
import csv
import unittest

import classify
from test_stint import Worker

with open(classify.EXAMPLES / "data" / "birdstrikes.csv", newline="", encoding="utf-8") as file:
    RECORDS = list(csv.DictReader(file))


class ClassifyTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker(["classify.py"], classify.EXAMPLES / "naivebayes")
        self.addCleanup(self.worker.kill)
        self.worker.ready()

    def test_all_records(self):
        results = [result["value"] for result in self.worker.call(1, *RECORDS)]
        self.assertEqual(
            results[0],
            {"date": "1990-01-08", "species": "Turkey vulture", "predicted": "damage", "actual": "none", "p": 0.884},
        )
        new = (result for result in results if result["date"] >= classify.LEARN_BEFORE)
        table = collections.Counter((result["predicted"], result["actual"]) for result in new)
        expected = {"damage": {"damage": 109, "none": 144}, "none": {"damage": 283, "none": 3192}}
        self.assertEqual(table, {(p, a): n for p, row in expected.items() for a, n in row.items()})

    def test_bad_records_fail_alone(self):
        good, empty = RECORDS[0], {**RECORDS[1], "Wildlife Species": "", "Time of day": ""}
        one, two, three = self.worker.call(1, good, empty, "no record")
        self.assertEqual(one["value"]["actual"], "none")
        self.assertEqual(two["error"]["message"], "the record has no Wildlife Species, no Time of day")
        self.assertEqual(three["error"]["type"], "AttributeError")


if __name__ == "__main__":
    unittest.main()
