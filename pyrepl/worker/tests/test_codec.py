"""JSON, both ways."""

from __future__ import annotations

import json
import unittest
from typing import Any

from ..codec import decode, encode

VALUES: list[Any] = [
    None, True, False, 0, -1, 1 << 80, "", "a", 'é中\U0001f600\n\t"\\\x00\x7f', "\ud800", [],
    [1, [2]], {}, {"a": [None, {"b": "c"}], "é": 1}, (1, "2"),
]


class TestCodec(unittest.TestCase):
    def test_encode_is_json(self) -> None:
        for value in VALUES:
            with self.subTest(value=value):
                text = encode(value)
                self.assertTrue(text.isascii())
                self.assertNotIn("\n", text)
                want = list(value) if type(value) is tuple else value
                self.assertEqual(json.loads(text), want)

    def test_decode_reverses(self) -> None:
        for value in VALUES:
            with self.subTest(value=value):
                want = list(value) if type(value) is tuple else value
                self.assertEqual(decode(encode(value)), want)
                self.assertEqual(decode(json.dumps(value)), want)
                self.assertEqual(decode(json.dumps(value, ensure_ascii=False)), want)

    def test_numbers_of_bool_and_subclasses(self) -> None:
        self.assertEqual(encode([True, 1]), "[true, 1]")
