"""An MCP server whose answers are the personal data in files: BATCH.json is a list of records. Standard library only.

Everything that it is given with `store` is written to stored.jsonl, as it arrived.
"""

import base64
import json
import os
import sys

FOLDER = sys.argv[1]
ANY = {}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def tool(name, description, required=(), annotations=None, **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations or {}}


TOOLS = [
    tool("records", "Returns records.", ["batch"], batch=TEXT, form=TEXT, first=NUMBER, count=NUMBER),
    tool("echo", "Returns what it is given.", ["value"], value=ANY),
    tool("store", "Keeps what it is given.", ["value"], value=ANY),
    tool("narrow", "Takes a number.", ["value"], value=NUMBER),
    tool("fail", "Fails.", ["value"], value=ANY),
    tool("wipe", "Deletes somebody.", ["value"], {"destructiveHint": True}, value=ANY),
]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def batch(name):
    with open(os.path.join(FOLDER, name + ".json")) as file:
        return json.load(file)


def text(value, **more):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def structured(value):
    return {**text(value), "structuredContent": value}


def call(name, arguments, meta):
    if name == "records":
        first = arguments.get("first", 0)
        found = batch(arguments["batch"])[first:][: arguments.get("count", 1_000_000)]
        form = arguments.get("form", "structured")
        if "progressToken" in meta:
            for number, record in enumerate(found[:20]):
                send({"method": "notifications/progress", "params": {
                    "progressToken": meta["progressToken"], "progress": number, "message": json.dumps(record)}})
                send({"method": "notifications/message", "params": {"level": "error", "logger": "people", "data": record}})
        if form == "text":
            return text(found)
        if form == "lines":
            return text("\n".join(json.dumps(record, ensure_ascii=False) for record in found))
        if form == "blob":
            blob = base64.b64encode(json.dumps(found).encode()).decode()
            return {"content": [{"type": "resource", "resource": {
                "uri": "people://blob", "mimeType": "application/json", "blob": blob}}]}
        if form == "error":
            return text("cannot export: " + json.dumps(found), isError=True)
        if form == "refused":
            raise ValueError(found)
        return structured({"records": found})
    if name == "store":
        with open(os.path.join(FOLDER, "stored.jsonl"), "a") as file:
            file.write(json.dumps(arguments["value"]) + "\n")
        return structured({"stored": True})
    if name == "echo":
        return structured({"value": arguments["value"]})
    if name == "fail":
        return text(f"no such person: {arguments['value']!r}", isError=True)
    return structured({"done": True})


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "people", "version": "1"},
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}, "completions": {}}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}), params.get("_meta", {}))
    if method == "resources/list":
        return {"resources": [
            {"uri": f"people://{number}", "name": json.dumps(record), "description": repr(record)}
            for number, record in enumerate(batch("resources")[:20])]}
    if method == "resources/read":
        record = batch("resources")[int(params["uri"].rsplit("/", 1)[1])]
        return {"contents": [{"uri": params["uri"], "mimeType": "text/csv", "text": json.dumps(record)}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "prompts/list":
        return {"prompts": [{"name": "letter", "description": json.dumps(batch("resources")[0]),
                             "arguments": [{"name": "to", "required": False}]}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(batch("resources"))}}]}
    if method == "completion/complete":
        return {"completion": {"values": [json.dumps(record) for record in batch("resources")[:20]]}}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    try:
        send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})
    except ValueError as error:
        data = error.args[0]
        send({"id": message["id"], "error": {"code": -32000, "message": json.dumps(data), "data": {"records": data}}})
