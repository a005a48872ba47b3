"""Calls by the client of the Python SDK. Arguments: the server's address or command line, then the plan as JSON."""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters


async def main() -> None:
    plan = json.loads(sys.argv[-1])
    command, *args = sys.argv[1:-1]
    server = command if command.startswith("http://") else StdioServerParameters(command=command, args=args)
    async with Client(server) as client:
        # After a call clients look whether the answer is as promised there.
        await client.list_tools()
        each = []

        async def call() -> None:
            begun = time.perf_counter_ns()
            answer = await client.call_tool(plan["tool"], {plan["argument"]: plan["text"]})
            each.append((time.perf_counter_ns() - begun) / 1e3)
            if answer.is_error or (plan["echoes"] and answer.structured_content != {"result": plan["text"]}):
                raise SystemExit(f"an answer that makes no sense: {answer}")

        async def calls(count: int) -> None:
            if plan["at_once"] == 1:
                for _ in range(count):
                    if plan["rest"]:
                        await asyncio.sleep(plan["rest"])
                    await call()
                return
            room = asyncio.Semaphore(plan["at_once"])

            async def one() -> None:
                async with room:
                    await call()

            await asyncio.gather(*(one() for _ in range(count)))

        await calls(plan["warm_up"])
        each.clear()
        begun = time.perf_counter_ns()
        await calls(plan["calls"])
        total = (time.perf_counter_ns() - begun) / 1e3
    print(json.dumps({"each": each, "total": total}))


asyncio.run(main())
