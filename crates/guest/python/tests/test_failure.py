"""Errors: codes, messages, hints, and tracebacks that show the user's own code."""

from __future__ import annotations

import os

from coracle_guest import failure, frames
from driver import Guest, GuestCase


class Exceptions(GuestCase):
    def test_the_complete_answer(self) -> None:
        done = self.guest.run("def f():\n    raise ValueError('no')\n\nf()")
        # Some versions of Python underline the call.
        done["error"]["traceback"] = done["error"]["traceback"].replace("    ~^^\n", "")
        self.assertEqual(
            done,
            {
                "ok": False,
                "exit_code": 1,
                "error": {
                    "code": "exception",
                    "message": "ValueError: no",
                    "traceback": 'Traceback (most recent call last):\n  File "<code>", line 4, in <module>\n    f()\n'
                    '  File "<code>", line 2, in f\n    raise ValueError(\'no\')\nValueError: no',
                },
            },
        )

    def test_chains_are_kept(self) -> None:
        trace = self.error("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")["traceback"]
        self.assertIn("ZeroDivisionError", trace)
        self.assertIn("direct cause", trace)
        trace = self.error("try:\n    1/0\nexcept ZeroDivisionError:\n    raise KeyError('k')")["traceback"]
        self.assertIn("During handling", trace)

    def test_of_library_frames_only_the_last_is_kept(self) -> None:
        error = self.error("import json\njson.loads('{')")
        self.assertEqual(error["message"].split(":")[0], "JSONDecodeError")
        self.assertEqual(error["traceback"].count("File "), 2)
        self.assertIn("json/decoder.py", error["traceback"])

    def test_library_frames_before_the_users_are_dropped(self) -> None:
        error = self.error("import functools\ndef f(a, b): raise ValueError\nsorted([2, 1], key=functools.cmp_to_key(f))\n")
        self.assertEqual(error["traceback"].count("File "), error["traceback"].count('File "<code>"'))
        error = self.error("import re\nre.sub('a', lambda m: 1/0, 'a')")
        self.assertEqual(error["traceback"].count("File "), 2)

    def test_frames_of_workspace_modules_are_the_users(self) -> None:
        with open(os.path.join(self.guest.workspace, "mine.py"), "w") as file:
            file.write("def f():\n    return g()\ndef g():\n    raise ValueError('in mine')\n")
        error = self.error(f"import sys; sys.path.append({self.guest.workspace!r})\nimport mine\nmine.f()")
        self.assertEqual(error["traceback"].count("mine.py"), 2)
        self.assertIn("raise ValueError('in mine')", error["traceback"])

    def test_a_package_that_is_missing_can_be_installed(self) -> None:
        def hint(code: str) -> str | None:
            hide = "import sys\nfor name in ('numpy', 'sklearn', 'yaml', 'PIL'): sys.modules[name] = None\n"
            return self.error(hide + code).get("hint")

        raised = "raise ModuleNotFoundError('No module named x', name={!r})"
        self.assertIn("`coracle env sync` installs it", hint(raised.format("numpy")))
        self.assertIn("scikit-learn is not installed", hint(raised.format("sklearn")))
        self.assertIn("`coracle env add pyyaml` installs it", hint(raised.format("yaml")))
        # If an environment lacks one of the default packages, only that one is missing.
        there = "sys.path.append('/environment')\n"
        self.assertIn("`coracle env add numpy` installs it", hint(there + raised.format("numpy")))
        # An unknown name is not suggested for installation.
        unknown = hint("import reqeusts_html5")
        self.assertIn("'reqeusts_html5' is not installed", unknown)
        self.assertNotIn("add reqeusts", unknown)
        for code in ("import json.nothing", "from json import nothing", raised.format("tkinter"), raised.format("skills")):
            self.assertIsNone(hint(code))

    def test_a_broken_module_is_not_a_syntax_error_of_this_code(self) -> None:
        with open(os.path.join(self.guest.workspace, "broken.py"), "w") as file:
            file.write("def\n")
        error = self.error(f"import sys; sys.path.append({self.guest.workspace!r})\nimport broken")
        self.assertEqual(error["code"], "exception")
        self.assertTrue(error["message"].startswith("SyntaxError"), error)

    def test_caps(self) -> None:
        error = self.error("raise ValueError('é' * 10**6)")
        self.assertLessEqual(len(error["message"].encode()), failure.MESSAGE_BYTES)
        self.assertLessEqual(len(error["traceback"].encode()), frames.TRACEBACK_BYTES)
        self.assertTrue(error["traceback"].startswith("Traceback"))
        self.assertIn("left out", error["traceback"])
        self.assertTrue(error["message"].endswith("é"))

    def test_recursion_is_an_ordinary_error(self) -> None:
        error = self.error("def f(): return f()\nf()")
        self.assertEqual(error["message"].split(":")[0], "RecursionError")
        self.assertIn("Previous line repeated", error["traceback"])

    def test_hostile_exceptions(self) -> None:
        error = self.error("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E")
        self.assertEqual(error["message"], "E: <its str raised SystemExit>")
        error = self.error("class E(Exception):\n    def __str__(self): return '\\ud800'\nraise E")
        self.assertEqual(error["message"], "E: \\ud800")
        error = self.error("class E(Exception):\n    def __getattribute__(self, n): raise ValueError(n)\nraise E")
        self.assertEqual(error["code"], "exception")
        error = self.error("e = ValueError('x'); e.__cause__ = KeyError(); e.__cause__.__cause__ = e\nraise e")
        self.assertEqual(error["message"], "ValueError: x")
        self.assertEqual(self.guest.run("1")["result"], 1)

    def test_exception_groups(self) -> None:
        if self.result("import sys; sys.version_info >= (3, 11)"):
            trace = self.error("raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])")["traceback"]
            self.assertIn("ValueError: a", trace)

    def test_marks_are_below_the_marked_text(self) -> None:
        if self.result("import sys; sys.version_info >= (3, 11)"):
            self.assertIn("    x = 1/0\n        ~^~", self.error("x = 1/0")["traceback"])

    def test_code_that_replaces_linecache(self) -> None:
        self.assertIn("1/0", self.error("import linecache; linecache.clearcache(); 1/0")["traceback"])


class Exits(GuestCase):
    def test_success(self) -> None:
        for code in ("import sys; sys.exit()", "import sys; sys.exit(0)", "raise SystemExit", "exit()"):
            self.assertEqual(self.guest.run(code), {"ok": True, "exit_code": 0})
        self.assertEqual(self.guest.run("import sys\nresult = 5\nsys.exit()")["result"], 5)

    def test_failure(self) -> None:
        done = self.guest.run("import sys; sys.exit(3)")
        self.assertEqual((done["ok"], done["exit_code"], done["error"]["code"], done["error"]["message"]), (False, 3, "exception", "SystemExit: 3"))
        done = self.guest.run("import sys; sys.exit('text')")
        self.assertEqual((done["exit_code"], done["error"]["message"]), (1, "SystemExit: text"))
        self.assertEqual(self.guest.run("import sys; sys.exit(-1)")["exit_code"], 255)
        self.assertEqual(self.guest.run("import sys; sys.exit(256)")["ok"], True)

    def test_keyboard_interrupt(self) -> None:
        self.assertEqual(self.error("raise KeyboardInterrupt")["message"], "KeyboardInterrupt")
        self.assertEqual(self.error("import os, signal; os.kill(os.getpid(), signal.SIGINT)")["code"], "exception")


class Syntax(GuestCase):
    def test_line_and_column(self) -> None:
        error = self.error("x = 1\nfor")
        self.assertEqual((error["code"], error["message"]), ("syntax", "SyntaxError: invalid syntax (line 2, column 4)"))
        self.assertIn('File "<code>", line 2', error["traceback"])
        self.assertNotIn("coracle_guest", error["traceback"])
        self.assertTrue(self.error("  x = 1")["message"].startswith("IndentationError: unexpected indent (line 1, "))
        self.assertEqual(self.error("def f():\nx")["code"], "syntax")

    def test_nothing_runs(self) -> None:
        self.error("print('ran')\nif")
        self.assertEqual(self.guest.stdout(), "")

    def test_code_that_the_parser_cannot_handle(self) -> None:
        for code in ("x = '\0'", "(" * 5000 + ")" * 5000, "-" * 100000 + "1", "return 1", "await = 1"):
            with self.subTest(code[:20]):
                self.assertEqual(self.error(code)["code"], "syntax")
        self.assertEqual(self.guest.run("1")["result"], 1)


class Limits(GuestCase):
    def check(self, code: str, expected: str) -> None:
        error = self.error(code)
        self.assertEqual(error["code"], expected, error)
        self.assertTrue(error["hint"].startswith("a limit of this sandbox: "), error)

    def test_memory(self) -> None:
        self.check("raise MemoryError", "memory")
        self.check("import resource\nresource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))\nx = bytearray(10**10)", "memory")

    def test_disk(self) -> None:
        for name in ("ENOSPC", "EDQUOT", "EFBIG"):
            self.check(f"import errno\nraise OSError(errno.{name}, 'x')", "disk")
        self.check("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\nwith open('f', 'w') as f: f.write('x' * 100)", "disk")

    def test_a_cause_counts_and_a_handled_error_does_not(self) -> None:
        self.check("import errno\ntry:\n    raise OSError(errno.ENOSPC, 'x')\nexcept OSError as e:\n    raise ValueError from e", "disk")
        error = self.error("import errno\ntry:\n    raise OSError(errno.ENOSPC, 'x')\nexcept OSError:\n    raise ValueError")
        self.assertEqual(error["code"], "exception")

    def test_files(self) -> None:
        self.check("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\nfiles = []\nwhile True: files.append(open('/dev/null'))", "files")

    def test_there_is_an_answer_when_files_are_used_up(self) -> None:
        self.error("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\nfiles = []\nwhile True: files.append(open('/dev/null'))")
        self.assertEqual(self.result("files.clear()\n1"), 1)

    def test_there_is_an_answer_when_memory_is_used_up(self) -> None:
        self.check(
            "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2 * 10**8,) * 2)\nx = []\nwhile True: x.append(bytearray(1000))",
            "memory",
        )
        self.assertEqual(self.result("1 + 1"), 2)
        self.assertEqual(self.result("x.clear()\n3"), 3)

    def test_processes(self) -> None:
        self.check("raise RuntimeError(\"can't start new thread\")", "processes")
        self.check("import errno\nclass os:\n    @staticmethod\n    def fork(): raise BlockingIOError(errno.EAGAIN, 'x')\nfork = 1\ndef go():\n    raise BlockingIOError(errno.EAGAIN, fork)\ngo()", "processes")

    def test_a_descriptor_that_would_block_is_not_a_process_limit(self) -> None:
        error = self.error("import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.read(r, 1)")
        self.assertEqual((error["code"], error["message"].split(":")[0]), ("exception", "BlockingIOError"))

    def test_output(self) -> None:
        self.check("import os\nr, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\nprint('x')", "output")
        error = self.error("import os\nr, w = os.pipe(); os.close(r); os.write(w, b'x')")
        self.assertEqual(error["code"], "exception")


NETWORK = failure.HINTS["network"]


class Network(GuestCase):
    def test_socket_creation(self) -> None:
        code = (
            "import socket, _socket\nclass Denied(socket.socket):\n    pass\n"
            "def deny(*a, **k): raise PermissionError(1, 'Operation not permitted')\n"
            "socket.getaddrinfo = deny\nsocket.create_connection(('example.com', 80))"
        )
        self.assertEqual(self.error(code)["hint"], NETWORK)

    def test_name_resolution(self) -> None:
        self.assertEqual(self.error("import socket\nraise socket.gaierror(-3, 'x')").get("hint"), NETWORK)

    def test_wrapped(self) -> None:
        code = "import socket\nfrom urllib.error import URLError\nraise URLError(socket.gaierror(-3, 'x'))"
        self.assertEqual(self.error(code).get("hint"), NETWORK)
        code = "import socket\ntry:\n    raise socket.gaierror(-3, 'x')\nexcept OSError:\n    raise RuntimeError('wrapped')"
        self.assertEqual(self.error(code).get("hint"), NETWORK)

    def test_unreachable(self) -> None:
        self.assertEqual(self.error("import errno\nraise OSError(errno.ENETUNREACH, 'x')").get("hint"), NETWORK)

    def test_an_unreadable_file_is_not_a_network_error(self) -> None:
        self.assertNotIn("hint", self.error("raise PermissionError(13, 'x')"))

    def test_with_a_route_an_unknown_host_has_no_hint(self) -> None:
        path = os.path.join(self.guest.workspace, "route")
        with open(path, "w") as file:
            file.write("Iface\tDestination\teth0\neth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
        guest = Guest(routes=(path,))
        self.addCleanup(guest.close)
        self.assertNotIn("hint", guest.run("import socket\nraise socket.gaierror(-3, 'x')")["error"])
