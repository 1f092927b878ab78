"""Lists in the client: what a decision says of one."""

import sys
import unittest
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import troupe  # noqa: E402


class Lists(unittest.TestCase):
    def test_decision(self):
        d = troupe.Decision.of({"event_id": "E", "mode": "online", "seq": 2, "basis_seq": 1, "durable": True, "list": [
            {"position": 0, "slot": "hero", "id": "c", "index": 2, "propensity": {"num": 1, "den": 4}},
            {"position": 1, "id": "a", "index": 0, "propensity": {"num": 1, "den": 3}}]})
        self.assertEqual(d.list, (troupe.Entry(0, "c", 2, Fraction(1, 4), "hero"), troupe.Entry(1, "a", 0, Fraction(1, 3))))
        self.assertEqual((d.action, d.propensity), ("", Fraction(1, 4)))


if __name__ == "__main__":
    unittest.main()
