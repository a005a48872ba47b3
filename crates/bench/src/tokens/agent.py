"""A scripted agent: does tasks in one way, and reports what a model would have read and written.

Argument: a file with the plan, {"way", "command", "env", "world", "shown_as", "tasks"}. It prints one line of JSON for each
task. Paths in a task are below `shown_as`, which is replaced with the real folder in calls and restored in results.
"""

import ast
import asyncio
import csv
import io
import json
import re
import sqlite3
import statistics
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import NamedTuple

from mcp import Client, StdioServerParameters

# Maximum length of an error message.
MAX_WORDS = 2_000


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Mishap(Exception):
    """The task cannot continue."""


class Conversation:
    """What a model reads (context) and writes (model), turn by turn."""

    def __init__(self, plan):
        self.plan = plan
        self.parts, self.trips = [], 0

    def reads(self, kind, text):
        self.parts.append({"by": "context", "kind": kind, "text": text})

    def writes(self, kind, text):
        self.parts.append({"by": "model", "kind": kind, "text": text})

    async def turn(self, kind, client, calls):
        """One turn of the model: all of these calls, and then all of their results."""
        self.trips += 1
        answers = []
        for name, arguments in calls:
            self.writes(kind, compact({"name": name, "arguments": arguments}))
            real = json.loads(json.dumps(arguments).replace(self.plan["shown_as"], self.plan["world"]))
            answers.append(await client.call_tool(name, real))
        texts = []
        for answer in answers:
            blocks = [getattr(block, "text", None) or compact(block.model_dump(mode="json")) for block in answer.content]
            texts.append("\n".join(blocks).replace(self.plan["world"], self.plan["shown_as"]))
            self.reads(kind, texts[-1])
        return texts, answers


def data(text):
    """Parse a text as JSON or as a Python literal."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def table(items):
    """Format rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, items[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(items)
    return out.getvalue()


# Expressions stand for what a model does in its head.
HEAD = {
    name: globals()[name] for name in ("Counter", "ast", "csv", "data", "io", "json", "re", "rows", "statistics", "table")
}


def filled(value, names):
    """Replace each <<expression>> in a value with its result."""
    if isinstance(value, dict):
        return {key: filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, names) for inner in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"<<(.*)>>", value, re.DOTALL)
    if whole and "<<" not in whole[1]:
        return evaluated(whole[1], names)
    return re.sub(r"<<(.*?)>>", lambda found: str(evaluated(found[1], names)), value, flags=re.DOTALL)


def evaluated(expression, names):
    return eval(expression.strip(), {**HEAD, **names})


class Discovery(NamedTuple):
    talk: Conversation
    failed: bool
    ms: float


class Agent:
    def __init__(self, plan, direct, code):
        self.plan, self.direct, self.code = plan, direct, code
        self.definitions = {}

    async def prepare(self):
        for client in filter(None, (self.direct, self.code)):
            for tool in (await client.list_tools()).tools:
                # Definitions as clients send them to a model.
                told = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                self.definitions[tool.name] = compact(told)
        if self.code:
            # All servers are running now, so later calls do not wait for them.
            await self.code.call_tool("search_tools", {"query": "warm"})

    def offered(self, talk, names):
        for name in names:
            if name not in self.definitions:
                raise Mishap(f"there is no tool {name}")
            talk.reads("definitions", self.definitions[name])

    async def do(self, task, found):
        talk, outcome = Conversation(self.plan), {}
        begun = time.perf_counter()
        try:
            talk.reads("question", task["question"])
            match self.plan["way"]:
                case "direct":
                    self.offered(talk, self.definitions)
                    outcome = await self.step_by_step(talk, task)
                case "deferred":
                    self.offered(talk, ["search_tools"])
                    await self.search(talk, task)
                    self.offered(talk, dict.fromkeys(bare(step["call"]) for step in task["direct"]))
                    outcome = await self.step_by_step(talk, task)
                case "code":
                    outcome = await self.by_code(talk, task, found)
            talk.trips += 1
            talk.writes("answer", answered(outcome["answer"]))
        except Exception as mishap:
            outcome["error"] = f"{type(mishap).__name__}: {mishap}"[:MAX_WORDS]
        outcome["ms"] = (time.perf_counter() - begun) * 1e3 + (found.ms if found else 0.0)
        outcome["effect"] = self.effect(task)
        return {"name": task["name"], "parts": talk.parts, "round_trips": talk.trips, **outcome}

    async def search(self, talk, task):
        wanted = task["definitions"] if self.plan["way"] == "code" else [step["call"] for step in task["direct"]]
        calls = [("search_tools", {"query": query}) for query in task["search"]]
        texts, _ = await talk.turn("search", self.code, calls)
        found = {line.split(":")[0] for text in texts for line in text.split("\n")}
        # A model that does not find a tool tries other words.
        missing = [name for name in dict.fromkeys(wanted) if name.replace("-", "_") not in found]
        if missing:
            words = [bare(name).replace("_", " ").replace("-", " ") for name in missing]
            await talk.turn("search", self.code, [("search_tools", {"query": each}) for each in words])

    async def step_by_step(self, talk, task):
        results, count, moved = [], 0, 0
        for step in task["direct"]:
            names = {"r": results}
            items = evaluated(step["each"], names) if step.get("each") else [None]
            calls = [(bare(step["call"]), filled(step["with"], {**names, "item": item})) for item in items]
            texts, answers = await talk.turn("call", self.direct, calls)
            for text, answer in zip(texts, answers):
                if answer.is_error:
                    raise Mishap(f"{step['call']}: {text}")
            count += len(calls)
            moved += sum(len(text.encode()) for text in texts) + sum(len(compact(call).encode()) for call in calls)
            results.append(texts if step.get("each") else texts[0])
        return {"answer": evaluated(task["answer"], {"r": results}), "calls": count, "bytes": moved}

    async def discover(self, task):
        """Search for tools and read definitions, before anything has been learned from results."""
        talk = Conversation(self.plan)
        begun = time.perf_counter()
        await self.search(talk, task)
        wanted = [("get_tool_definition", {"tool_name": name}) for name in task["definitions"]]
        _, answers = await talk.turn("definition", self.code, wanted)
        return Discovery(talk, any(answer.is_error for answer in answers), (time.perf_counter() - begun) * 1e3)

    async def by_code(self, talk, task, found):
        self.offered(talk, self.definitions)
        talk.reads("instructions", self.code.instructions or "")
        talk.parts += found.talk.parts
        talk.trips += found.talk.trips
        if found.failed:
            raise Mishap(found.talk.parts[-1]["text"])
        for attempt in task["code"]:
            texts, [answer] = await talk.turn("code", self.code, [("execute_code", {"code": attempt})])
        if answer.is_error:
            raise Mishap(texts[0])
        told = json.dumps(answer.structured_content).replace(self.plan["world"], self.plan["shown_as"])
        told = {"result": None, "stdout": "", **json.loads(told)}
        return {"answer": evaluated(task["read"], told) if task.get("read") else told["result"]}

    def effect(self, task):
        if not task.get("effect"):
            return None
        world = self.plan["world"]

        def read(path):
            with open(f"{world}/{path}", encoding="utf-8", newline="") as opened:
                return opened.read()

        def sql(query):
            with sqlite3.connect(f"{world}/office.db") as database:
                return [list(row) for row in database.execute(query)]

        try:
            return json.loads(json.dumps(evaluated(task["effect"], {"read": read, "sql": sql})))
        except Exception as mishap:
            return f"{type(mishap).__name__}: {mishap}"[:MAX_WORDS]


def bare(name):
    """Return the name for direct calls of `server.tool`."""
    return name.split(".", 1)[1]


def answered(answer):
    return answer if isinstance(answer, str) else compact(answer)


async def main(plan):
    async with AsyncExitStack() as stack:

        async def connect(profile):
            arguments = [*plan["command"][1:], "--profile", profile]
            server = StdioServerParameters(command=plan["command"][0], args=arguments, env=plan["env"])
            return await stack.enter_async_context(Client(server))

        way = plan["way"]
        direct = await connect("direct") if way != "code" else None
        code = await connect("code") if way != "direct" else None
        agent = Agent(plan, direct, code)
        await agent.prepare()
        # Before any program runs, so that what is learned from one does not help the next.
        found = [await agent.discover(task) if way == "code" else None for task in plan["tasks"]]
        for task, discovery in zip(plan["tasks"], found):
            print(json.dumps(await agent.do(task, discovery)), flush=True)


with open(sys.argv[1], encoding="utf-8") as opened:
    PLAN = json.load(opened)
asyncio.run(main(PLAN))
