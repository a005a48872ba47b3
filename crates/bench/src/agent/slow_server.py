"""An MCP server whose only tool never answers."""

import json
import sys

TOOL = {"name": "wait", "description": "Waits.", "inputSchema": {"type": "object", "properties": {}}}


def answer(request):
    method = request.get("method")
    if method == "initialize":
        return {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "slow", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or request.get("method") == "tools/call":
        continue
    result = answer(request)
    error = {"code": -32601, "message": "there is no such method"}
    outcome = {"error": error} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
