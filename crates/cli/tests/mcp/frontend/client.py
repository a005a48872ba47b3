"""The official Python client, controlled by JSON on standard input. Prints one outcome per step.

{"server": {"url": …} or {"command": …, "args": […], "env": {…}}, "mode": "legacy" or a revision,
 "answer": answers to questions, "steps": [{"do": …}, …]}
"""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult


async def main(plan):
    server = plan["server"]
    asked, progress = [], []

    async def elicited(_context, params):
        asked.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        answer = plan["answer"][min(len(asked), len(plan["answer"])) - 1]
        return ElicitResult.model_validate(answer)

    async def progressed(_progress, _total, message):
        progress.append(message)

    async def do(client, step):
        match step["do"]:
            case "tools":
                return [tool.name for tool in (await client.list_tools()).tools]
            case "definitions":
                return dumped(await client.list_tools())["tools"]
            case "prompts":
                return [prompt.name for prompt in (await client.list_prompts()).prompts]
            case "prompt":
                return dumped(await client.get_prompt(step["name"]))
            case "resources":
                return [resource.uri for resource in (await client.list_resources()).resources]
            case "read":
                return dumped(await client.read_resource(step["uri"]))
            case "call":
                call = client.call_tool(step["name"], step.get("arguments", {}), progress_callback=progressed)
                return dumped(await call)
            case "abandon":
                # Cancels the call once it has started. The file shows the test how long the code continues.
                call = asyncio.ensure_future(
                    client.call_tool(step["name"], step.get("arguments", {}), progress_callback=progressed)
                )
                while not progress:
                    await asyncio.sleep(0.01)
                abandoned = time.time()
                call.cancel()
                await asyncio.wait([call])
                return abandoned
            case "sleep":
                await asyncio.sleep(step["seconds"])

    target = server["url"] if "url" in server else StdioServerParameters(**server)
    callback = elicited if plan.get("answer") else None
    async with Client(target, mode=plan["mode"], elicitation_callback=callback) as client:
        for step in plan["steps"]:
            asked.clear()
            progress.clear()
            try:
                outcome = {"value": await do(client, step)}
            except Exception as error:
                outcome = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({**outcome, "asked": asked, "progress": progress}), flush=True)


def dumped(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


asyncio.run(main(json.load(sys.stdin)))
