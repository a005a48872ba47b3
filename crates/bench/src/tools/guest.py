"""Inside a sandbox: the calls of one row. `plan` is set by the benchmark."""

import asyncio
import time

from servers import bench

text = plan["text"]
each = []


def straight(text):
    """Call that the host answers without the broker, with frames of the same size."""
    from coracle_guest import calls

    arguments = {"server": "bench", "tool": "echo", "arguments": {"text": text}}
    return calls.call("straight", arguments)["value"]


tool = straight if plan["tool"] == "straight" else getattr(bench, plan["tool"])
aio = getattr(tool, "aio", None)


def check(answer):
    if answer not in (text, {"result": text}):
        raise ValueError(f"unexpected result: {answer!r}")


def in_sequence(count):
    for _ in range(count):
        begun = time.perf_counter_ns()
        answer = tool(text=text)
        each.append((time.perf_counter_ns() - begun) / 1e3)
        check(answer)


async def at_once(count):
    room = asyncio.Semaphore(plan["at_once"])

    async def one():
        async with room:
            begun = time.perf_counter_ns()
            answer = await aio(text=text)
            each.append((time.perf_counter_ns() - begun) / 1e3)
            check(answer)

    await asyncio.gather(*(one() for _ in range(count)))


def calls(count):
    if plan["at_once"] == 1:
        in_sequence(count)
    else:
        asyncio.run(at_once(count))


calls(plan["warm_up"])
each.clear()
begun = time.perf_counter_ns()
calls(plan["calls"])
result = {"each": each, "total": (time.perf_counter_ns() - begun) / 1e3}
