"""Running Python code: results, sessions, variables, streams, threads, children."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import unittest

from coracle_guest import helpers, interpreter, program, sources, zygote
from driver import GuestCase


class Results(GuestCase):
    def test_the_variable_result(self) -> None:
        self.assertEqual(self.guest.run("result = 1\n2"), {"ok": True, "exit_code": 0, "result": 1})

    def test_the_last_expression(self) -> None:
        self.assertEqual(self.guest.run("x = 1\nx + 1"), {"ok": True, "exit_code": 0, "result": 2})
        self.assertEqual(self.guest.run("'only a string'")["result"], "only a string")
        self.assertEqual(self.guest.run("(\n 1,\n 2\n)\n# comment\n")["result"], [1, 2])
        self.assertEqual(self.guest.run("1; 2; 3")["result"], 3)

    def test_no_result(self) -> None:
        for code in ("", "x = 1", "None", "print('x')", "for i in range(3):\n    i", "# nothing"):
            self.assertEqual(self.guest.run(code), {"ok": True, "exit_code": 0}, code)

    def test_a_result_that_is_none_is_a_result(self) -> None:
        self.assertEqual(self.guest.run("result = None"), {"ok": True, "exit_code": 0, "result": None})

    def test_the_hidden_name_is_removed(self) -> None:
        self.result("1")
        self.assertEqual(self.result("[n for n in globals() if 'coracle' in n]"), [])

    def test_source_beyond_the_split_limit_still_runs(self) -> None:
        code = "# " + "x" * program.SPLIT_LIMIT + "\nresult = 4\n5"
        self.assertEqual(self.result(code), 4)

    def test_our_future_imports_do_not_apply_to_user_code(self) -> None:
        self.assertIs(self.result("def f(x: int): pass\nf.__annotations__['x'] is int"), True)


class Sessions(GuestCase):
    def test_variables_imports_and_directory_are_kept(self) -> None:
        self.guest.run("import math, os\nx = 20\nos.mkdir('d'); os.chdir('d')")
        self.assertEqual(self.result("[x, math.floor(2.5), os.path.basename(os.getcwd())]"), [20, 2, "d"])

    def test_an_earlier_result_does_not_count(self) -> None:
        self.result("result = 1")
        self.assertEqual(self.guest.run("x = 2"), {"ok": True, "exit_code": 0})
        self.assertEqual(self.guest.run("y = result"), {"ok": True, "exit_code": 0})
        self.assertEqual(self.guest.run("if False:\n    result = 5"), {"ok": True, "exit_code": 0})
        self.assertEqual(self.result("result + 1"), 2)
        self.assertEqual(self.result("result = 1"), 1)
        self.assertEqual(self.result("result += 1"), 2)
        self.assertEqual(self.result("result"), 2)
        self.assertEqual(self.result("def f():\n    global result\n    result = result * 10\nf()"), 20)
        self.assertEqual(self.result("globals()['result']"), 20)
        self.assertEqual(self.result("globals()['res' + 'ult'] = 'dynamic'\n0"), "dynamic")

    def test_an_earlier_result_survives_a_failed_run(self) -> None:
        self.result("result = 1")
        self.error("y = result\n1/0")
        self.assertEqual(self.result("import builtins\n[result, hasattr(builtins, 'result')]"), [1, True])
        self.assertIs(self.result("import builtins\nhasattr(builtins, 'res' + 'ult')"), False)

    def test_a_failed_run_does_not_end_the_session(self) -> None:
        self.error("a = 1\n1/0")
        self.assertEqual(self.result("a"), 1)

    def test_file_names_count_up(self) -> None:
        self.assertIn('"<code>", line 1', self.error("1/0")["traceback"])
        self.assertIn('"<code 2>", line 1', self.error("1/0")["traceback"])

    def test_functions_of_earlier_runs_show_their_lines(self) -> None:
        self.guest.run("def f():\n    raise ValueError('from f')")
        trace = self.error("f()")["traceback"]
        self.assertIn("raise ValueError('from f')", trace)
        self.assertIn("    f()", trace)


class MainModule(GuestCase):
    def test_it_is_a_real_module(self) -> None:
        self.assertEqual(self.result("import sys\n[__name__, sys.modules['__main__'].__dict__ is globals()]"), ["__main__", True])

    def test_pickle_and_dataclasses(self) -> None:
        code = (
            "from __future__ import annotations\nimport pickle, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n"
            "pickle.loads(pickle.dumps(P(3)))"
        )
        self.assertEqual(self.result(code), {"x": 3})

    def test_argv_stdin_and_input(self) -> None:
        self.assertEqual(self.result("import sys\n[sys.argv, sys.stdin.read()]"), [[""], ""])
        self.assertEqual(self.error("input()")["message"], "EOFError: EOF when reading a line")

    def test_own_tracebacks_show_lines(self) -> None:
        code = "try:\n    1/0\nexcept ZeroDivisionError:\n    import traceback\n    result = traceback.format_exc()"
        self.assertIn("\n    1/0\n", self.result(code))
        self.assertIn("def f", self.result("import inspect\ndef f(): pass\ninspect.getsource(f)"))

    def test_only_sources_that_may_run_again_are_kept(self) -> None:
        self.result("def first():\n    raise ValueError('from the first run')\n1")
        for number in range(40):
            self.assertEqual(self.result(f"sum(n for n in range({number})) * 0"), 0)
        self.assertIn("raise ValueError('from the first run')", self.error("first()")["traceback"])
        kept = "import sys\nkept = sys.modules['coracle_guest.sources']\n[len(kept._passing), len(kept._lasting)]"
        self.assertEqual(self.result(kept), [16, 1])

    def test_watching_for_linecache_leaves_a_normal_module(self) -> None:
        code = "import linecache, sys, importlib\n[linecache.__spec__.name, linecache is sys.modules['linecache'], importlib.reload(linecache) is linecache]"
        self.assertEqual(self.result(code), ["linecache", True, True])


class Await(GuestCase):
    def test_top_level_await(self) -> None:
        self.assertEqual(self.result("import asyncio\nawait asyncio.sleep(0, 'slept')"), "slept")
        self.assertEqual(self.result("import asyncio\nresult = await asyncio.gather(*[asyncio.sleep(0, n) for n in range(3)])"), [0, 1, 2])

    def test_one_loop_for_the_whole_program(self) -> None:
        self.assertEqual(self.result("t = asyncio.create_task(asyncio.sleep(0.01, 'x'))\nawait asyncio.sleep(0)\nawait t"), "x")

    def test_async_for_and_with(self) -> None:
        code = "async def g():\n    yield 1\n    yield 2\n[x async for x in g()]"
        self.assertEqual(self.result(code), [1, 2])

    def test_asyncio_run_is_still_possible(self) -> None:
        self.assertEqual(self.result("async def main():\n    return 5\nasyncio.run(main())"), 5)

    def test_errors_show_only_the_users_frames(self) -> None:
        error = self.error("import asyncio\nasync def f():\n    raise ValueError('x')\nawait asyncio.gather(f())")
        self.assertEqual(error["traceback"].count("File "), 2, error["traceback"])
        self.assertNotIn("coracle_guest", error["traceback"])


class Variables(GuestCase):
    def test_they_are_set_before_the_run(self) -> None:
        self.assertEqual(self.result("[a, é]", vars={"a": {"b": [1]}, "é": None}), [{"b": [1]}, None])

    def test_they_may_be_absent_or_null(self) -> None:
        self.assertEqual(self.result("1", vars=None), 1)

    def test_a_given_result_is_not_the_result(self) -> None:
        self.assertEqual(self.guest.run("x = result", vars={"result": 1}), {"ok": True, "exit_code": 0})

    def test_bad_names(self) -> None:
        for name in ("1a", "a b", "", "class", "__name__", "a-b"):
            error = self.error("ran = 1", vars={"good": 1, name: 2})
            self.assertEqual(error["code"], "exception")
            self.assertIn(repr(name), error["message"])
        self.assertEqual(self.result("[n for n in ('ran', 'good') if n in globals()]"), [])


class Streams(GuestCase):
    def test_output_is_visible_while_the_code_runs(self) -> None:
        self.guest.start("import time\nprint('first')\nprint('no newline', end='')\ntime.sleep(1)")
        deadline = time.monotonic() + 0.8
        while not self.guest.stdout() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIn(self.guest.stdout(), ("first\n",))
        self.guest.receive()
        self.assertEqual(self.guest.stdout(), "first\nno newline")

    def test_lone_surrogates_are_escaped(self) -> None:
        self.result("print('a\\ud800é')\nimport sys; print('\\udc80', file=sys.stderr)")
        self.assertEqual((self.guest.stdout(), self.guest.stderr()), ("a\\ud800é\n", "\\udc80\n"))

    def test_replaced_closed_and_broken_streams(self) -> None:
        for code in (
            "import sys, io; sys.stdout = io.StringIO(); print('lost')",
            "import sys; sys.stdout.close(); sys.stderr.close(); sys.__stdout__.close()",
            "import os; os.close(1); os.close(2)",
            "import os; os.close(1); f = open('taken', 'w')",
            "import sys; sys.stdout = sys.stderr = None",
            "class Bad:\n    def flush(self): raise SystemExit\nimport sys; sys.stdout = Bad()",
            "import sys; del sys.stdout",
            "import sys; sys.stdin.close()",
            "exit()",
        ):
            with self.subTest(code=code):
                self.assertTrue(self.guest.run(code)["ok"])
                before = self.guest.stdout()
                self.assertTrue(self.guest.run("import sys; print('here', sys.stdin.read())")["ok"])
                self.assertEqual(self.guest.stdout(), before + "here \n")

    def test_printing_to_a_closed_stream_is_an_ordinary_error(self) -> None:
        error = self.error("import sys; sys.stdout.close(); print('x')")
        self.assertEqual(error["message"], "ValueError: I/O operation on closed file.")

    def test_the_name_and_encoding(self) -> None:
        self.assertEqual(self.result("import sys\n[sys.stdout.name, sys.stdout.encoding, sys.stderr.fileno()]"), ["<stdout>", "utf-8", 2])


class Threads(GuestCase):
    def test_it_waits_for_threads(self) -> None:
        self.result("import threading, time\ndef f():\n    time.sleep(0.2); print('thread')\nthreading.Thread(target=f).start()")
        self.assertEqual(self.guest.stdout(), "thread\n")

    def test_it_does_not_wait_for_daemons(self) -> None:
        begun = time.monotonic()
        self.result("import threading, time\nthreading.Thread(target=time.sleep, args=(20,), daemon=True).start()")
        self.assertLess(time.monotonic() - begun, 10)

    def test_threads_may_start_threads_and_set_the_result(self) -> None:
        code = (
            "import threading, time\ndef g():\n    global result\n    time.sleep(0.1)\n    result = 'late'\n"
            "threading.Thread(target=lambda: threading.Thread(target=g).start()).start()"
        )
        self.assertEqual(self.result(code), "late")

    def test_an_executor_left_open(self) -> None:
        code = (
            "from concurrent.futures import ThreadPoolExecutor\nimport time\npool = ThreadPoolExecutor(2)\ndone = []\n"
            "for n in range(4): pool.submit(lambda n=n: (time.sleep(0.1), done.append(n)))"
        )
        self.assertTrue(self.guest.run(code)["ok"])
        self.assertEqual(self.result("sorted(done)"), [0, 1, 2, 3])
        self.assertEqual(self.result("pool.submit(len, 'abc').result(5)"), 3)


class Children(GuestCase):
    def test_a_forked_child_that_runs_off_the_end_is_silent(self) -> None:
        self.assertEqual(self.result("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')\n'answer'"), "answer")
        self.assertEqual(self.guest.stdout(), "both\nboth\n")
        self.assertEqual(self.result("1"), 1)

    def test_the_status_of_such_a_child(self) -> None:
        code = "import os, sys\npid = os.fork()\nif not pid: {}\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        self.assertEqual(self.result(code.format("sys.exit(4)")), 4)
        self.assertEqual(self.result(code.format("raise ValueError('child')")), 1)
        self.assertIn("ValueError: child", self.guest.stderr())

    def test_the_status_of_a_process_object_is_not_stolen(self) -> None:
        self.guest.run("import subprocess, time\np = subprocess.Popen(['sh', '-c', 'exit 5'])\ntime.sleep(0.3)")
        self.assertEqual(self.result("p.wait()"), 5)

    def test_forgotten_children_are_reaped(self) -> None:
        self.guest.run("import os, time\npid = os.fork()\nif not pid: os._exit(0)\ntime.sleep(0.2)")
        self.assertEqual(self.error("os.waitpid(pid, 0)")["message"], "ChildProcessError: [Errno 10] No child processes")


class HelperGlobals(GuestCase):
    def test_the_names_are_those_of_the_module(self) -> None:
        for name in interpreter.HELPERS:
            self.assertTrue(callable(getattr(helpers, name)), name)

    def test_files(self) -> None:
        code = (
            "said = write_file('out/a.txt', 'é')\nwrite_file('out/b.json', {'x': {1}})\nwrite_file('c.bin', b'\\xff')\n"
            "[said, read_file('out/a.txt'), read_file('c.bin', None) == b'\\xff', list_files(), list_files('out'),"
            " list_files(pattern='**/*.json'), json.loads(read_file('out/b.json')), delete_file('c.bin'), list_files()]"
        )
        self.assertEqual(
            self.result(code),
            ["Successfully wrote 2 bytes to out/a.txt", "é", True, ["c.bin"], ["out/a.txt", "out/b.json"], ["out/b.json"], {"x": [1]}, "Deleted c.bin", []],
        )
        self.assertIn("not a folder", self.error("list_files('nowhere')")["message"])

    def test_modules(self) -> None:
        code = "[json.dumps([1]), bool(re.match('a', 'ab')), math.pi > 3, statistics.mean([1, 3]), collections.Counter('aa')['a'], datetime.date(2024, 1, 2), asyncio.__name__]"
        self.assertEqual(self.result(code), ["[1]", True, True, 2, 2, "2024-01-02", "asyncio"])

    def test_they_are_available_inside_functions(self) -> None:
        self.assertEqual(self.result("def f():\n    return [json.dumps(x) for x in [1]]\nf()"), ["1"])

    def test_only_mentioned_and_undefined_names_are_added(self) -> None:
        self.assertEqual(self.result("json = 5\njson"), 5)
        self.assertEqual(self.result("json"), 5)
        self.assertEqual(self.result("[n for n in ('read' + '_file', 'ma' + 'th') if n in globals()]"), [])
        self.assertEqual(self.result("def read_file(p): return 'mine'\nread_file('x')"), "mine")

    def test_data(self) -> None:
        items = [{"n": 1, "u": {"name": "a"}}, {"n": "3", "u": {"name": "b"}}, {"x": 0}]
        self.assertEqual(helpers.filter_by_field(items, "u.name", "b"), [items[1]])
        self.assertEqual(helpers.filter_by_field(items, "n", lambda n: n == 1), [items[0]])
        self.assertEqual(helpers.summarize_list(range(10), 2), {"count": 10, "items": [0, 1], "remaining": 8})
        self.assertEqual(helpers.summarize_list(items)["fields"], ["n", "u", "x"])
        self.assertEqual(
            helpers.aggregate_stats(items, "n"),
            {"field": "n", "count": 2, "missing": 1, "sum": 4, "mean": 2, "median": 2.0, "min": 1, "max": 3, "stdev": 2**0.5},
        )
        self.assertEqual(helpers.aggregate_stats([], "n"), {"field": "n", "count": 0, "missing": 0})

    def test_the_parameters_of_earlier_tools(self) -> None:
        summary = helpers.summarize_list(list(range(10)), limit=3)
        self.assertEqual(summary, {"count": 10, "items": [0, 1, 2], "remaining": 7, "sample": [0, 1, 2]})
        rows = [{"name": "a", "n": 1, "m": 2.5}, {"name": "7", "n": 3, "ok": True}]
        stats = {"count": 2, "n_sum": 4, "n_avg": 2, "n_min": 1, "n_max": 3}
        more = {"m_sum": 2.5, "m_avg": 2.5, "m_min": 2.5, "m_max": 2.5}
        self.assertEqual(helpers.aggregate_stats(rows), {**stats, **more})
        self.assertEqual(helpers.aggregate_stats(rows, ["n"]), stats)
        self.assertEqual(helpers.aggregate_stats(rows, numeric_fields=["n"]), stats)
        self.assertEqual(helpers.aggregate_stats([]), {"count": 0})
        self.assertEqual(helpers.aggregate_stats([1, 2, 6])["mean"], 3)
        self.assertEqual(helpers.format_output([1, 2], 6), helpers.format_output([1, 2])[:6])
        self.assertEqual(helpers.format_output([1, 2], max_chars=3), "[\n ")
        self.assertEqual(self.result("workspace"), "/workspace")
        self.assertEqual(self.result("workspace = 'mine'\nworkspace"), "mine")

    def test_formats(self) -> None:
        rows = [{"a": 1, "b": "x|y"}, {"a": 22, "c": None}]
        self.assertEqual(helpers.format_output(rows, "table"), "a   b    c\n--  ---  -\n1   x|y\n22")
        self.assertEqual(helpers.format_output(rows, "csv"), "a,b,c\n1,x|y,\n22,,\n")
        self.assertEqual(helpers.format_output(rows, "markdown"), "| a | b | c |\n| --- | --- | --- |\n| 1 | x\\|y |  |\n| 22 |  |  |")
        self.assertEqual(helpers.format_output(rows, "text"), "a: 1, b: x|y\na: 22, c: ")
        self.assertEqual(helpers.format_output({"k": {1, 2}}), '{\n  "k": [\n    1,\n    2\n  ]\n}')
        self.assertEqual(helpers.format_output([], "table"), "\n")
        with self.assertRaises(ValueError):
            helpers.format_output(rows, "pdf")


class Preloading(unittest.TestCase):
    def test_nothing_is_left_of_a_package_that_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for package, code in (("half", "from half import part\nraise ValueError"), ("whole", "from whole import part")):
                os.mkdir(f"{folder}/{package}")
                for name, text in (("__init__", code), ("part", "")):
                    with open(f"{folder}/{package}/{name}.py", "w") as file:
                        file.write(text)
            sys.path.append(folder)
            alone, zygote._is_alone = zygote._is_alone, lambda: True
            try:
                failed = zygote.preload(["half", "whole", "missing"])
            finally:
                zygote._is_alone = alone
                sys.path.remove(folder)
        self.assertEqual(failed, 0b101)
        there = [name in sys.modules for name in ("half", "half.part", "whole", "whole.part", "missing")]
        self.assertEqual(there, [False, False, True, True, False])


class Program(unittest.TestCase):
    def test_names_are_found_in_nested_code(self) -> None:
        code = program.compile_source("def f():\n    return lambda: json.dumps(x)\n", "<t>")
        self.assertLessEqual({"json", "dumps", "x"}, program.names(code))

    def test_file_names(self) -> None:
        self.assertEqual([sources.filename(n) for n in (1, 2, 10)], ["<code>", "<code 2>", "<code 10>"])
