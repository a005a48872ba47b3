"""Tools as functions: importing, calling, results, errors, media."""

from __future__ import annotations

import base64
import os
from typing import Any

import broker
from broker import Refused, echo, install, serve, value
from driver import GuestCase


class ToolCase(GuestCase):
    def setUp(self) -> None:
        super().setUp()
        install(self.guest)

    def answer(self, code: str, how: broker.Answer = echo) -> dict[str, Any]:
        self.guest.start(code)
        return serve(self.guest, how)

    def value(self, code: str, how: broker.Answer = echo) -> Any:
        done = self.answer(code, how)
        self.assertTrue(done["ok"], done)
        return done.get("result")

    def failure(self, code: str, how: broker.Answer = echo) -> dict[str, Any]:
        done = self.answer(code, how)
        self.assertFalse(done["ok"], done)
        return done["error"]


class Calling(ToolCase):
    def test_wire_names_are_used_and_only_given_arguments_are_sent(self) -> None:
        self.assertEqual(
            self.value("from servers.demo import echo\necho(text='a', class_='b')"),
            {"server": "demo-server", "tool": "echo", "arguments": {"text": "a", "class": "b"}},
        )

    def test_additional_arguments_are_sent(self) -> None:
        self.assertEqual(self.value("from servers.demo import class_\nclass_(x=1, y=[2])")["arguments"], {"x": 1, "y": [2]})

    def test_none_is_sent_and_unset_is_not(self) -> None:
        code = "from servers.demo import echo\nfrom coracle import UNSET\n[echo(text=None)['arguments'], echo(text='a', times=UNSET)['arguments']]"
        self.assertEqual(self.value(code), [{"text": None}, {"text": "a"}])

    def test_a_package_loads_only_what_is_used(self) -> None:
        code = "import sys\nfrom servers.demo import echo\n['servers.demo.echo' in sys.modules, 'servers.demo.class_' in sys.modules]"
        self.assertEqual(self.value(code), [True, False])

    def test_a_tool_stays_a_tool_however_it_is_imported(self) -> None:
        code = (
            "import servers.demo.echo\nfrom servers import demo\nfrom servers.demo import echo\nimport servers.demo\n"
            "[callable(echo), echo is demo.echo, servers.demo.echo is echo, servers.demo.echo(text='x')['tool'], sorted(demo.__all__)]"
        )
        self.assertEqual(self.value(code), [True, True, True, "echo", ["class_", "echo"]])

    def test_missing_tools_and_servers_are_reported_with_suggestions(self) -> None:
        tool = "there is no tool 'ecko' in servers.demo; did you mean echo?"
        server = "there is no server 'dem'; did you mean demo?"
        cases = {
            "from servers.demo import ecko": tool,
            "import servers.demo.ecko": tool,
            "from servers.dem import echo": server,
            "from servers import dem": server,
            "import servers.xyz": "there is no server 'xyz'; there are: demo",
            "import os.xyz": None,
            "from os import ecko": None,
        }
        for code, hint in cases.items():
            with self.subTest(code):
                self.assertEqual(self.failure(code).get("hint"), hint)

    def test_help_shows_signature_and_docstring(self) -> None:
        code = "import inspect\nfrom servers.demo import echo\n[str(inspect.signature(echo)), echo.__doc__.splitlines()[0], echo.__name__]"
        self.assertEqual(
            self.value(code),
            ["(*, text: 'str', times: 'int' = UNSET, class_: 'str' = UNSET) -> 'str'", "Say it again.", "echo"],
        )

    def test_calls_by_hand(self) -> None:
        code = "import coracle\ncoracle.call('any server', 'any/tool', {'a': 1})"
        self.assertEqual(self.value(code), {"server": "any server", "tool": "any/tool", "arguments": {"a": 1}})

    def test_threads_call_at_once(self) -> None:
        code = (
            "from concurrent.futures import ThreadPoolExecutor\nfrom servers.demo import echo\n"
            "with ThreadPoolExecutor(16) as pool:\n"
            "    result = [r['arguments']['text'] for r in pool.map(lambda n: echo(text=str(n)), range(100))]"
        )
        self.assertEqual(self.value(code), [str(n) for n in range(100)])

    def test_values_with_a_plain_form_are_sent_in_it(self) -> None:
        code = (
            "import datetime, decimal, enum, pathlib, uuid\nfrom dataclasses import dataclass\nfrom servers.demo import echo\n"
            "class Colour(enum.Enum):\n    RED = 'red'\n"
            "@dataclass\nclass Point:\n    x: int\n"
            "echo(text=[datetime.date(2026, 1, 2), pathlib.Path('/a'), {3, 1}, (1, 2), Colour.RED, Point(4), decimal.Decimal('1.5'),"
            " {1: 'one'}])['arguments']['text']"
        )
        self.assertEqual(self.value(code), ["2026-01-02", "/a", [1, 3], [1, 2], "red", {"x": 4}, "1.5", {"1": "one"}])


class Searching(GuestCase):
    def search(self, code: str, how: broker.Answer = lambda params: [params]) -> dict[str, Any]:
        self.guest.start(f"from coracle import search_tools, search_tools_async\n{code}")
        return serve(self.guest, how, "search")

    def test_request_and_answer(self) -> None:
        asked = {"query": "send a message", "detail_level": "summary", "limit": 10}
        more = {"query": "", "server": "chat", "category": "Mail", "detail_level": "python", "limit": 3}
        given = "server='chat', category='Mail', detail_level='python', limit=3"
        code = f"[search_tools('send a message'), search_tools({given}), await search_tools_async({given})]"
        self.assertEqual(self.search(code)["result"], [[asked], [more], [more]])

    def test_a_refusal_is_an_error_of_the_users_line(self) -> None:
        def refuse(_: Any) -> Any:
            raise Refused("invalid_request", "there is no server 'x'")

        for call in ("search_tools('a', 'x')", "await search_tools_async('a', 'x')"):
            with self.subTest(call=call):
                error = self.search(f"\n{call}", refuse)["error"]
                words = "ToolError: coracle.search_tools: there is no server 'x' (invalid_request)"
                self.assertEqual(error["message"], words)
                files = [line.strip() for line in error["traceback"].splitlines() if line.strip().startswith("File")]
                self.assertEqual(len(files), 1)
                self.assertRegex(files[0], r'^File "<code[ 0-9]*>", line 3, in <module>$')

    def test_values_that_are_not_json_are_never_sent(self) -> None:
        def never(params: Any) -> Any:
            raise AssertionError(params)

        for query, words in (("object()", "TypeError"), ("'x' * 9_000_000", "ValueError: a frame of")):
            with self.subTest(query=query):
                self.assertIn(words, self.search(f"search_tools({query})", never)["error"]["message"])
        self.assertEqual(self.search("len(search_tools('still there'))")["result"], 1)


class Skills(GuestCase):
    def ask(self, code: str, act: str, how: broker.Answer = lambda params: params) -> dict[str, Any]:
        self.guest.start(code)
        return serve(self.guest, how, f"skill.{act}")

    def test_request_and_answer(self) -> None:
        asked = {"name": "a", "code": "x = 1", "description": "d", "tags": "t, u", "language": "python"}
        self.assertEqual(self.ask("save_skill('a', 'x = 1', 'd', 't, u')", "save")["result"], asked)
        more = {**asked, "description": "", "tags": "", "example": "1", "tools": ["a.b"]}
        given = "save_skill('a', 'x = 1', example='1', tools=['a.b'])"
        self.assertEqual(self.ask(given, "save")["result"], more)
        self.assertEqual(self.ask("load_skill('a', 2)", "load", lambda params: {"code": params})["result"], {"name": "a", "version": 2})
        self.assertEqual(self.ask("list_skills()", "list", lambda params: {"skills": [params]})["result"], [{}])
        found = self.ask("search_skills('x')", "search", lambda params: {"skills": [params]})["result"]
        self.assertEqual(found, [{"query": "x", "limit": 10}])
        self.assertEqual(self.ask("delete_skill('a')", "delete")["result"], "Deleted a")
        self.assertEqual(self.ask("get_skill('a')", "get", lambda params: {"content": params})["result"], {"name": "a"})

    def test_a_refusal_is_an_error_of_the_users_line(self) -> None:
        def refuse(_: Any) -> Any:
            raise Refused("no_such_skill", "there is no skill 'x'")

        error = self.ask("\nload_skill('x')", "load", refuse)["error"]
        self.assertEqual(error["message"], "ToolError: coracle.load_skill: there is no skill 'x' (no_such_skill)")
        files = [line.strip() for line in error["traceback"].splitlines() if line.strip().startswith("File")]
        self.assertEqual(len(files), 1, error["traceback"])

    def test_names_that_the_user_has_defined_are_kept(self) -> None:
        self.assertEqual(self.ask("def save_skill(): return 'mine'\nsave_skill()", "save")["result"], "mine")


class Errors(ToolCase):
    def test_a_refusal_is_an_error_that_says_what_to_do(self) -> None:
        def refuse(_: Any) -> Any:
            raise Refused("rate_limited", "slow down", True)

        code = (
            "from coracle import ToolError\nfrom servers.demo import echo\n"
            "try:\n    echo(text='x')\nexcept ToolError as e:\n"
            "    result = [e.server, e.tool, e.code, e.message, e.retryable, str(e), e.__cause__, e.__suppress_context__]"
        )
        text = "demo-server.echo: slow down (rate_limited; may be tried again)"
        self.assertEqual(
            self.value(code, refuse), ["demo-server", "echo", "rate_limited", "slow down", True, text, None, True]
        )

    def test_the_traceback_shows_the_users_line_alone(self) -> None:
        def refuse(_: Any) -> Any:
            raise Refused("not_found", "no such thing")

        error = self.failure("from servers.demo import echo\n\ndef work():\n    return echo(text='x')\n\nwork()", refuse)
        self.assertEqual(error["message"], "ToolError: demo-server.echo: no such thing (not_found)")
        lines = error["traceback"].splitlines()
        files = [line.strip() for line in lines if line.strip().startswith("File")]
        self.assertEqual(files, ['File "<code>", line 6, in <module>', 'File "<code>", line 4, in work'])

    def test_the_traceback_of_an_async_call_too(self) -> None:
        def refuse(_: Any) -> Any:
            raise Refused("not_found", "no such thing")

        error = self.failure("from servers.demo import echo\nawait echo.aio(text='x')", refuse)
        lines = [line.strip() for line in error["traceback"].splitlines() if line.strip().startswith("File")]
        self.assertEqual(lines, ['File "<code>", line 2, in <module>'])

    def test_wrong_arguments_are_reported_with_suggestions(self) -> None:
        for call, words in (
            ("echo()", "missing 1 required keyword-only argument: 'text'"),
            ("echo(text='a', txt=1)", "echo() has no argument 'txt'; did you mean 'text'?"),
            ("echo(text='a', colour=1)", "echo() has no argument 'colour'; it takes text, times, class_"),
            ("echo('a')", "echo() takes its arguments by name: echo(text=…, times=…, class_=…)"),
        ):
            with self.subTest(call=call):
                error = self.failure(f"from servers.demo import echo\n{call}")
                self.assertIn(words, error["message"])
                self.assertNotIn("coracle", error["traceback"])

    def test_a_missing_tool_is_reported_with_similar_ones(self) -> None:
        error = self.failure("import servers.demo as demo\ndemo.ecko(text='a')")
        self.assertEqual(error["message"], "AttributeError: there is no tool 'ecko' in servers.demo; did you mean echo?")

    def test_arguments_that_are_not_json_are_rejected_with_their_place(self) -> None:
        for argument, words in (
            ("{'a': [object()]}", "argument `text.a[0]` is a object, which is not JSON"),
            ("float('nan')", "argument `text` is nan, which JSON has no number for"),
            ("b'x'", "argument `text` is a bytes, which is not JSON"),
            ("'x' * 9_000_000", "a frame of"),
        ):
            with self.subTest(argument=argument):
                error = self.failure(f"from servers.demo import echo\necho(text={argument})")
                self.assertIn(words, error["message"])
                self.assertIn("(invalid_arguments)", error["message"])
        self.assertEqual(self.value("from servers.demo import echo\necho(text='still there')['tool']"), "echo")


PIXEL = {"mime": "image/png", "data": base64.b64encode(b"\x89PNG...").decode(), "uri": "file:///a.png"}
SOUND = {"mime": "audio/unheard-of", "data": base64.b64encode(b"la").decode()}


class Media(ToolCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = os.path.join(self.guest.workspace, "media")
        self.guest.run(f"from coracle import media\nmedia.FOLDER = {self.folder!r}")

    def test_a_placeholder_becomes_a_file(self) -> None:
        code = (
            "from servers.demo import echo\nm = echo(text='x')\n"
            "[m.path, m.mime, m.uri, m.size, m.read_bytes() == b'\\x89PNG...', open(m, 'rb').read() == m.read_bytes(), type(m).__name__]"
        )
        seen = self.value(code, lambda _: value({"$media": 0}, PIXEL))
        self.assertEqual(seen, [f"{self.folder}/1.png", "image/png", "file:///a.png", 7, True, True, "MediaFile"])

    def test_elements_of_a_list_too_and_nothing_else(self) -> None:
        code = "from servers.demo import echo\nr = echo(text='x')\n[type(p).__name__ for p in r] + [r[1].path[-6:], r[2] is r[1]]"
        parts = ["text", {"$media": 1}, {"$media": 1}, {"$media": 9}, {"$media": True}, {"$media": 0, "x": 1}, [{"$media": 0}]]
        seen = self.value(code, lambda _: value(parts, PIXEL, SOUND))
        self.assertEqual(seen, ["str", "MediaFile", "MediaFile", "dict", "dict", "dict", "list", "/1.bin", True])

    def test_as_a_result_it_contains_its_path(self) -> None:
        seen = self.value("from servers.demo import echo\necho(text='x')", lambda _: value([{"$media": 0}], PIXEL))
        path = f"{self.folder}/1.png"
        self.assertEqual(
            seen, [{"type": "media", "path": path, "mime": "image/png", "size": 7, "uri": "file:///a.png"}]
        )

    def test_an_existing_file_is_not_overwritten(self) -> None:
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "1.png"), "w") as file:
            file.write("mine")
        seen = self.value("from servers.demo import echo\necho(text='x').path", lambda _: value({"$media": 0}, PIXEL))
        self.assertEqual(seen, f"{self.folder}/2.png")

    def test_invalid_base64_is_an_error_of_the_tool(self) -> None:
        error = self.failure("from servers.demo import echo\necho(text='x')", lambda _: value({"$media": 0}, {"mime": "x", "data": "abc"}))
        self.assertIn("(invalid_result)", error["message"])
