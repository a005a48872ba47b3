"""The table of `encode`, row by row, hostile objects, and summaries within the limit."""

from __future__ import annotations

import json
import unittest

from coracle_guest import channel, encode
from driver import GuestCase


class Table(GuestCase):
    def check(self, rows: dict[str, object]) -> None:
        for code, expected in rows.items():
            with self.subTest(code=code):
                self.assertEqual(self.result(code), expected)

    def test_plain_values(self) -> None:
        self.check(
            {
                "result = None": None,
                "True": True,
                "-5": -5,
                "2**53 + 1": 2**53 + 1,
                "2**64 - 1": 2**64 - 1,
                "-2**63": -(2**63),
                "1.5": 1.5,
                "'é\\u2028\\x00'": "é\u2028\x00",
                "[1, [2], (3,), range(2)]": [1, [2], [3], [0, 1]],
                "{'a': {'b': 1}}": {"a": {"b": 1}},
            }
        )

    def test_numbers_without_a_json_form(self) -> None:
        self.check(
            {
                "[float('nan'), float('inf'), -float('inf')]": ["NaN", "Infinity", "-Infinity"],
                "2**64": str(2**64),
                "-2**63 - 1": str(-(2**63) - 1),
                "10**5000": f"<int of {(10**5000).bit_length()} bits>",
                "1+2j": "(1+2j)",
                "from decimal import Decimal; Decimal('1.10')": "1.10",
                "from fractions import Fraction; Fraction(1, 3)": "1/3",
            }
        )

    def test_moments_and_names(self) -> None:
        self.check(
            {
                "import datetime as d; d.datetime(2024, 1, 2, 3, 4, tzinfo=d.timezone.utc)": "2024-01-02T03:04:00+00:00",
                "[d.date(2024, 1, 2), d.time(3, 4), d.timedelta(days=1, seconds=0.5)]": ["2024-01-02", "03:04:00", 86400.5],
                "import uuid; uuid.UUID(int=1)": "00000000-0000-0000-0000-000000000001",
                "import pathlib; [pathlib.Path('/a/b'), pathlib.PureWindowsPath('c')]": ["/a/b", "c"],
                "import enum\nclass E(enum.Enum):\n    A = (1, 2)\nclass I(enum.IntEnum):\n    B = 7\nclass S(str, enum.Enum):\n    C = 'c'\n[E.A, I.B, S.C]": [[1, 2], 7, "c"],
                "[ValueError('bad'), KeyError()]": ["bad", "KeyError"],
            }
        )

    def test_containers(self) -> None:
        self.check(
            {
                "[{3, 1, 2}, frozenset('b')]": [[1, 2, 3], ["b"]],
                "sorted(map(str, [1])) and len({1, 'a'})": 2,
                "import collections as c\nP = c.namedtuple('P', 'x y')\n[P(1, [2]), c.deque([1]), c.Counter('aab'), c.OrderedDict(a=1), c.defaultdict(int, b=2)]": [
                    {"x": 1, "y": [2]},
                    [1],
                    {"a": 2, "b": 1},
                    {"a": 1},
                    {"b": 2},
                ],
                "[c.ChainMap({'a': 1}), c.UserDict(b=2), c.UserList([3]), {'a': 1}.keys(), {'a': 1}.values()]": [{"a": 1}, {"b": 2}, [3], ["a"], [1]],
                "import dataclasses as dc, typing\n@dc.dataclass\nclass D:\n    x: int\n    c: typing.ClassVar[int] = 5\n    y: list = dc.field(default_factory=list)\n[D(1), D]": [
                    {"x": 1, "y": []},
                    "<class '__main__.D'>",
                ],
                "@dc.dataclass(slots=True)\nclass D2:\n    x: int\nD2(4)": {"x": 4},
                "import types; types.SimpleNamespace(a=1)": "namespace(a=1)",
                "types.MappingProxyType({'a': 1})": {"a": 1},
            }
        )
        self.assertCountEqual(self.result("{1, 'a', None}"), [1, "a", None])

    def test_keys(self) -> None:
        self.check(
            {
                "{1: 'a', None: 'b', (1, 2): 'c', 2.5: 'd', True: 'e'}": {"1": "e", "None": "b", "(1, 2)": "c", "2.5": "d"},
                "{1: 'a', '1': 'b', 1.5: 'c', '1 (str)': 'd'}": {"1": "a", "1 (str)": "b", "1.5": "c", "1 (str) (str)": "d"},
                "import datetime; {datetime.date(2024, 1, 2): 1}": {"2024-01-02": 1},
            }
        )

    def test_bytes(self) -> None:
        self.check(
            {
                "b'abc'": {"type": "bytes", "length": 3, "base64": "YWJj"},
                "bytearray(b'abc')": {"type": "bytes", "length": 3, "base64": "YWJj"},
                "memoryview(b'abcdef')[::2]": {"type": "bytes", "length": 3, "base64": "YWNl"},
                "import array; memoryview(array.array('H', [1]))": {"type": "bytes", "length": 2, "base64": "AQA="},
            }
        )
        large = self.result("b'x' * 10000")
        self.assertEqual((large["length"], len(large["base64"]), large["truncated"]), (10000, 4096, True))

    def test_anything_else_is_its_repr(self) -> None:
        self.assertEqual(self.result("class C:\n    def __repr__(self): return 'C!'\n[C(), len]"), ["C!", "<built-in function len>"])
        self.assertLessEqual(len(self.result("class C:\n    def __repr__(self): return 'x' * 10**6\nC()").encode()), encode.REPR_BYTES)

    def test_generators_are_not_consumed(self) -> None:
        self.assertIn("<generator object", self.result("g = (i for i in range(3))\ng"))
        self.assertEqual(self.result("next(g)"), 0)

    def test_lone_surrogates(self) -> None:
        self.assertEqual(self.result("{'k\\ud800': ['v\\udc80é']}"), {"k\\ud800": ["v\\udc80é"]})
        self.assertEqual(self.result("class C:\n    def __repr__(self): return '\\ud800'\nC()"), "\\ud800")

    def test_cycles_and_depth(self) -> None:
        self.assertEqual(self.result("a = [1]; a.append(a); a"), [1, "<cycle>"])
        self.assertEqual(self.result("d = {}; d['d'] = [d]; d"), {"d": ["<cycle>"]})
        self.assertEqual(self.result("x = [1]; [x, x]"), [[1], [1]])
        value = self.result("v = 'end'\nfor _ in range(100000): v = [v]\nv")
        depth = 0
        while isinstance(value, list):
            value, depth = value[0], depth + 1
        self.assertEqual((value, depth), ("<too deep>", encode.MAX_DEPTH))


HOSTILE = {
    "repr raises": ("class C:\n    def __repr__(self): raise ValueError\nC()", "<C object; its repr raised ValueError>"),
    "repr exits": ("class C:\n    def __repr__(self): raise SystemExit\nC()", "<C object; its repr raised SystemExit>"),
    "repr is no text": ("class C:\n    def __repr__(self): return 5\nC()", "<C object; its repr raised TypeError>"),
    "repr recurses": ("class C:\n    def __repr__(self): return repr(self)\nC()", "<C object; its repr raised RecursionError>"),
    "class lies": ("class C:\n    @property\n    def __class__(self): raise KeyError\n    def __repr__(self): return 'ok'\nC()", "ok"),
    "attributes raise": ("class C:\n    def __getattribute__(self, n): raise ValueError(n)\n    def __repr__(self): return 'ok'\nC()", "ok"),
    "dict subclass": ("class D(dict):\n    def items(self): raise ValueError\n    def __iter__(self): raise ValueError\n    def __len__(self): return -1\nD(a=1)", {"a": 1}),
    "list subclass": ("class L(list):\n    def __iter__(self): raise ValueError\n    def __len__(self): raise ValueError\nL([1])", [1]),
    "str subclass": ("class S(str):\n    def __str__(self): return 5\n    def encode(self, *a): raise ValueError\n    def __len__(self): return 0\nS('s')", "s"),
    "int subclass": ("class I(int):\n    def __repr__(self): return 'x'\n    def __ge__(self, o): raise ValueError\nI(5)", 5),
    "float subclass": ("class F(float):\n    def __repr__(self): return 'NaN'\nF(1.5)", 1.5),
    "isoformat": ("import datetime\nclass T(datetime.date):\n    def isoformat(self): return 5\nT(2024, 1, 1)", "<T object; reading it raised TypeError>"),
    "key": ("class K:\n    def __str__(self): raise ValueError\n    def __repr__(self): raise ValueError\n{K(): 1}", {"<K object; its repr raised ValueError>": 1}),
    "str of exception": ("class E(Exception):\n    def __str__(self): raise ValueError\n[E()]", ["<E object; reading it raised ValueError>"]),
    "name of type": ("type('a\\u00e9' * 1000, (), {'__repr__': lambda s: 1/0})() and 1", 1),
    "field raises": (
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int = 1\n    y: int = 2\nd = D(); del d.y; D.y = property(lambda s: 1/0); d",
        {"x": 1, "error": "<iterating a D raised ZeroDivisionError>"},
    ),
    "set order": ("class C:\n    def __lt__(self, o): raise SystemExit\n    def __repr__(self): return 'c'\n{C(), C()}", "<set object; reading it raised SystemExit>"),
    "metaclass": ("class M(type):\n    def __eq__(self, o): raise ValueError\n    __hash__ = type.__hash__\n    def __getattribute__(self, n): raise ValueError\nclass C(metaclass=M): pass\nC()", None),
    "grows while read": ("class D(dict):\n    pass\nd = {}\nclass R:\n    def __repr__(self): d[len(d)] = 1; return 'r'\nd['r'] = R(); d", None),
    "surrogate of a repr": ("class C:\n    def __repr__(self):\n        class S(str):\n            def __len__(self): return 10**9\n        return S('short')\nC()", "short"),
}


class Hostile(GuestCase):
    def test_objects(self) -> None:
        for name, (code, expected) in HOSTILE.items():
            with self.subTest(name):
                value = self.result(code)
                if expected is not None:
                    self.assertEqual(value, expected)
        self.assertEqual(self.result("1"), 1)

    def test_other_values_are_not_affected(self) -> None:
        self.assertEqual(self.result("class C:\n    def __repr__(self): 1/0\n[1, C(), 2]"), [1, "<C object; its repr raised ZeroDivisionError>", 2])

    def test_output_of_a_repr_is_not_lost(self) -> None:
        self.result("class C:\n    def __repr__(self): print('from repr', end=''); return ''\nC()")
        self.assertEqual(self.guest.stdout(), "from repr")

    def test_memory(self) -> None:
        error = self.error("class C:\n    def __repr__(self): raise MemoryError\nC()")
        self.assertEqual(error["code"], "memory")


class Summaries(GuestCase):
    def summary(self, code: str, limit: int) -> object:
        done = self.guest.run(code, result_bytes=limit)
        self.assertTrue(done["ok"], done)
        self.assertIs(done["result_truncated"], True)
        self.assertLessEqual(len(json.dumps(done["result"], ensure_ascii=False, separators=(",", ":")).encode()), limit)
        return done["result"]

    def test_exactly_the_limit_is_not_too_large(self) -> None:
        self.assertEqual(self.guest.run("'x' * 98", result_bytes=100), {"ok": True, "exit_code": 0, "result": "x" * 98})
        self.summary("'x' * 99", 100)
        self.summary("'é' * 50", 100)

    def test_lists(self) -> None:
        self.assertEqual(self.summary("list(range(10**6))", 200), {"type": "list", "length": 10**6, "items": [0, 1, 2, 3, 4]})
        self.assertEqual(self.summary("range(10**12)", 200), {"type": "range", "length": 10**12, "items": [0, 1, 2, 3, 4]})

    def test_text(self) -> None:
        value = self.summary("'a' * 5000 + 'z' * 5000", 1000)
        assert isinstance(value, dict)
        self.assertEqual((value["type"], value["length"], value["head"][0], value["tail"][-1]), ("str", 10000, "a", "z"))

    def test_objects(self) -> None:
        value = self.summary("{f'k{i}': i for i in range(1000)}", 2000)
        assert isinstance(value, dict)
        self.assertEqual((value["type"], value["length"], len(value["keys"])), ("dict", 1000, 50))
        self.assertEqual(value["items"], {f"k{i}": i for i in range(5)})

    def test_nested(self) -> None:
        value = self.summary("[{'id': i, 'body': 'x' * 10000} for i in range(100)]", 3000)
        assert isinstance(value, dict)
        self.assertEqual(value["length"], 100)
        self.assertEqual(value["items"][0]["items"]["id"], 0)
        self.assertEqual(value["items"][0]["items"]["body"]["length"], 10000)

    def test_every_limit_holds(self) -> None:
        values = ["'x' * 10**5", "'\\n\"' * 10**5", "'\\ud800é' * 10**5", "list(range(10**5))", "{str(i) * 50: [i] * 50 for i in range(1000)}", "[['é' * 999] * 99] * 99", "b'x' * 10**5", "{('k' * 10000): 1}"]
        for code in values:
            for limit in (4, 10, 30, 64, 100, 150, 300, 1000, 5000):
                with self.subTest(code=code, limit=limit):
                    if code.startswith("b'") and limit >= 5000:
                        continue
                    self.summary(code, limit)

    def test_endless_and_hostile_containers(self) -> None:
        self.summary("class L(list):\n    pass\na = L(); a.extend([a] * 10**5); a", 100)
        self.summary("class C:\n    def __repr__(self): 1/0\n[C()] * 10**4", 300)

    def test_a_limit_beyond_the_frame_is_lowered(self) -> None:
        done = self.guest.run("'x' * 9_000_000", result_bytes=2**62)
        self.assertIs(done["result_truncated"], True)
        self.assertEqual(len(self.guest.run("'x' * 8_000_000", result_bytes=2**62)["result"]), 8_000_000)


class Documentation(unittest.TestCase):
    def test_encoding_twice_changes_nothing(self) -> None:
        plain, truncated = encode.encode({"a": [1, 2.5, None, "é"]}, 1000)
        self.assertFalse(truncated)
        self.assertEqual(encode.encode(plain, 1000)[0], plain)
        self.assertEqual(channel.loads(channel.dumps(plain)), plain)
