"""Calls from event loops: parallel, cancelled, mixed with threads, and without deadlocks."""

from __future__ import annotations

import threading
from typing import Any

from broker import echo, reply, serve, value
from driver import GuestCase
from test_tools import ToolCase

IMPORT = "import asyncio\nfrom servers.demo import echo\n"


class Parallel(ToolCase):
    def frames(self, count: int) -> list[dict[str, Any]]:
        found = [self.guest.receive() for _ in range(count)]
        assert all(frame is not None and frame["type"] == "call" for frame in found), found
        return found  # type: ignore[return-value]

    def done(self) -> Any:
        frame = self.guest.receive()
        assert frame is not None and frame["type"] == "done", frame
        self.assertTrue(frame["ok"], frame)
        return frame.get("result")

    def test_one_call(self) -> None:
        self.assertEqual(self.value(IMPORT + "(await echo.aio(text='a'))['arguments']"), {"text": "a"})

    def test_a_thousand_at_once_answered_from_the_last_to_the_first(self) -> None:
        self.guest.start(
            IMPORT + "replies = await asyncio.gather(*(echo.aio(text=str(n)) for n in range(1000)))\n"
            "[r['arguments']['text'] for r in replies] == [str(n) for n in range(1000)]"
        )
        # All of them are sent before the first is answered.
        for request in reversed(self.frames(1000)):
            self.guest.send(reply(request, echo))
        self.assertTrue(self.done())

    def test_neither_side_is_stuck_when_both_send_much(self) -> None:
        # The host writes every reply before it continues to read, like the engine, and they exceed any buffer.
        for how in (
            "await asyncio.gather(*(echo.aio(text='x' * 50_000) for n in range(100)))",
            "list(ThreadPoolExecutor(20).map(lambda n: echo(text='x' * 50_000), range(100)))",
        ):
            with self.subTest(how=how):
                code = IMPORT + f"from concurrent.futures import ThreadPoolExecutor\nlen({how})"
                self.assertEqual(self.value(code), 100)

    def test_a_large_blocking_call_while_replies_arrive(self) -> None:
        # Nothing reads until the call is written, and the host does not accept the call until something reads.
        self.guest.start(
            IMPORT + "calls = [asyncio.ensure_future(echo.aio(text='short')) for _ in range(20)]\nawait asyncio.sleep(0)\n"
            "mine = echo(text='x' * 5_000_000)\n[mine, len(await asyncio.gather(*calls))]"
        )

        def much_for_little(params: dict[str, Any]) -> Any:
            return value("y" * 500_000 if params["arguments"]["text"] == "short" else "taken")

        self.assertEqual(serve(self.guest, much_for_little)["result"], ["taken", 20])

    def test_a_cancelled_task_stops_waiting_and_its_reply_is_dropped(self) -> None:
        self.guest.start(
            IMPORT + "try:\n    await asyncio.wait_for(echo.aio(text='slow'), 0.05)\nexcept asyncio.TimeoutError:\n"
            "    result = (await echo.aio(text='next'))['arguments']['text']"
        )
        slow, following = self.frames(2)
        self.guest.send(reply(slow, echo))
        self.guest.send(reply(following, echo))
        self.assertEqual(self.done(), "next")
        self.assertEqual(self.guest.run("1")["result"], 1)

    def test_one_failure_among_many(self) -> None:
        self.guest.start(
            IMPORT + "from coracle import ToolError\n"
            "found = await asyncio.gather(*(echo.aio(text=str(n)) for n in range(3)), return_exceptions=True)\n"
            "[f.code if isinstance(f, ToolError) else f['arguments']['text'] for f in found]"
        )
        first, second, third = self.frames(3)
        self.guest.send(reply(third, echo))
        self.guest.send({"type": "reply", "id": second["id"], "ok": False, "error": {"code": "denied", "message": "no"}})
        self.guest.send(reply(first, echo))
        self.assertEqual(self.done(), ["0", "denied", "2"])

    def test_a_blocking_call_inside_a_task(self) -> None:
        self.guest.start(
            IMPORT + "async def both(n):\n    waiting = asyncio.ensure_future(echo.aio(text=f'a{n}'))\n    await asyncio.sleep(0)\n"
            "    return [echo(text=f's{n}')['arguments']['text'], (await waiting)['arguments']['text']]\n"
            "await both(1)"
        )
        task, blocking = self.frames(2)
        # The blocked loop passes on the reply of its own task.
        self.guest.send(reply(task, echo))
        self.guest.send(reply(blocking, echo))
        self.assertEqual(self.done(), ["s1", "a1"])

    def test_threads_and_loops_in_threads_and_tasks_all_at_once(self) -> None:
        code = (
            IMPORT + "from concurrent.futures import ThreadPoolExecutor\n"
            "def text(r): return r['arguments']['text']\n"
            "async def many(tag, count):\n    return [text(r) for r in await asyncio.gather(*(echo.aio(text=f'{tag}{n}') for n in range(count)))]\n"
            "def own_loop(tag): return asyncio.run(many(tag, 50))\n"
            "with ThreadPoolExecutor(12) as pool:\n"
            "    loop = asyncio.get_running_loop()\n"
            "    blocking = [loop.run_in_executor(pool, lambda n=n: text(echo(text=f's{n}'))) for n in range(50)]\n"
            "    loops = [loop.run_in_executor(pool, own_loop, tag) for tag in 'uvw']\n"
            "    mine = await many('m', 200)\n"
            "    others = await asyncio.gather(*blocking)\n"
            "    theirs = await asyncio.gather(*loops)\n"
            "[mine == [f'm{n}' for n in range(200)], others == [f's{n}' for n in range(50)],"
            " theirs == [[f'{t}{n}' for n in range(50)] for t in 'uvw']]"
        )
        for _ in range(3):
            self.assertEqual(self.value(code), [True, True, True])

    def test_loops_one_after_the_other(self) -> None:
        code = (
            IMPORT + "async def one(n): return (await echo.aio(text=str(n)))['arguments']['text']\n"
            "import threading\nseen = []\n"
            "def work():\n    for n in range(5): seen.append(asyncio.run(one(n)))\n"
            "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
            "seen + [echo(text='after')['arguments']['text']]"
        )
        self.assertEqual(self.value(code), ["0", "1", "2", "3", "4", "after"])

    def test_a_loop_closed_with_a_pending_task_is_harmless(self) -> None:
        self.guest.start(
            IMPORT + "import threading\n"
            "def work():\n    loop = asyncio.new_event_loop()\n    task = loop.create_task(echo.aio(text='lost'))\n"
            "    loop.run_until_complete(asyncio.sleep(0.05)); loop.close(); keep.append(task)\n"
            "keep = []\nthread = threading.Thread(target=work); thread.start(); thread.join()\n"
            "first = echo(text='first')['arguments']['text']\n"
            "[first, (await echo.aio(text='second'))['arguments']['text']]"
        )
        lost, first = self.frames(2)
        self.guest.send(reply(lost, echo))
        self.guest.send(reply(first, echo))
        self.guest.send(reply(self.frames(1)[0], echo))
        self.assertEqual(self.done(), ["first", "second"])

    def test_a_daemon_loop_lives_on_while_the_agent_waits(self) -> None:
        self.guest.start(
            IMPORT + "import threading, time\nseen = []\n"
            "async def work():\n    seen.append((await echo.aio(text='late'))['arguments']['text'])\n"
            "threading.Thread(target=lambda: asyncio.run(work()), daemon=True).start()\ntime.sleep(0.1)"
        )
        request = self.frames(1)[0]
        self.assertIsNone(self.done())
        self.guest.send(reply(request, echo))
        self.guest.start("import time\nfor _ in range(100):\n    if seen: break\n    time.sleep(0.01)\nseen")
        self.assertEqual(self.done(), ["late"])

    def test_tasks_continue_while_calls_wait(self) -> None:
        self.guest.start(
            IMPORT + "ticks = []\nasync def tick():\n    for n in range(5):\n        await asyncio.sleep(0.01); ticks.append(n)\n"
            "await asyncio.gather(tick(), echo.aio(text='x'))\nlen(ticks)"
        )
        request = self.frames(1)[0]
        threading.Event().wait(0.1)
        self.guest.send(reply(request, echo))
        self.assertEqual(self.done(), 5)

    def test_a_full_channel_does_not_block_the_loop(self) -> None:
        self.guest.start(
            IMPORT + "ticks = []\nasync def tick():\n    for n in range(5):\n        await asyncio.sleep(0.01); ticks.append(n)\n"
            "    open('ticked', 'w').close()\n"
            "calls = [asyncio.ensure_future(echo.aio(text='x' * 1_000_000)) for _ in range(4)]\n"
            "await tick()\nlen(await asyncio.gather(*calls))"
        )
        import os

        # Nothing is read here until the loop has proved that it continues.
        for _ in range(500):
            if os.path.exists(os.path.join(self.guest.workspace, "ticked")):
                break
            threading.Event().wait(0.01)
        else:
            self.fail("the loop is blocked")
        done = serve(self.guest, echo)
        self.assertEqual(done["result"], 4)

    def test_a_forked_child_cannot_call(self) -> None:
        done = self.guest.run(
            IMPORT + "import os\nfrom coracle import ToolError\nr, w = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    try:\n        asyncio.new_event_loop().run_until_complete(echo.aio(text='x'))\n"
            "    except ToolError as e:\n        os.write(w, e.code.encode())\n    os._exit(0)\n"
            "os.read(r, 100).decode()"
        )
        self.assertEqual(done["result"], "invalid_request")


class Cost(GuestCase):
    def test_a_program_without_tasks_loads_no_asyncio(self) -> None:
        seen = self.result("import sys, coracle\n['asyncio' in sys.modules, 'coracle_guest.loops' in sys.modules, 'typing' in sys.modules]")
        self.assertEqual(seen, [False, False, False])
