"""Calls with the Python SDK's client. Arguments: the server's address or command line, then the plan as JSON."""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters


async def main() -> None:
    plan = json.loads(sys.argv[-1])
    command, *args = sys.argv[1:-1]
    server = command if command.startswith("http://") else StdioServerParameters(command=command, args=args)
    arguments = {plan["argument"]: plan["text"]}
    if plan["session"]:
        arguments["session"] = plan["session"]
    each = []

    async def call(client: Client) -> None:
        begun = time.perf_counter_ns()
        answer = await client.call_tool(plan["tool"], arguments)
        each.append((time.perf_counter_ns() - begun) / 1e3)
        if answer.is_error or (plan["echoes"] and answer.structured_content != {"result": plan["text"]}):
            raise SystemExit(f"unexpected result: {answer}")

    if plan["first"]:
        for _ in range(plan["warm_up"] + plan["calls"]):
            async with Client(server) as client:
                await client.list_tools()
                await call(client)
        each = each[plan["warm_up"] :]
        print(json.dumps({"each": each, "total": sum(each)}))
        return
    async with Client(server) as client:
        # Clients validate results against the listed output schemas.
        await client.list_tools()

        async def calls(count: int) -> None:
            if plan["at_once"] == 1:
                for _ in range(count):
                    if plan["rest"]:
                        await asyncio.sleep(plan["rest"])
                    await call(client)
                return
            room = asyncio.Semaphore(plan["at_once"])

            async def one() -> None:
                async with room:
                    await call(client)

            await asyncio.gather(*(one() for _ in range(count)))

        await calls(plan["warm_up"])
        each.clear()
        begun = time.perf_counter_ns()
        await calls(plan["calls"])
        total = (time.perf_counter_ns() - begun) / 1e3
    print(json.dumps({"each": each, "total": total}))


asyncio.run(main())
