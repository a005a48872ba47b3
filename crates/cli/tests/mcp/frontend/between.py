"""A gateway between a client and the server named in its arguments: it forwards tools, and starts the server with its
own environment and name."""

import json
import subprocess
import sys

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
NUMBER = 0


def ask(method, params):
    global NUMBER
    NUMBER += 1
    child.stdin.write(json.dumps({"jsonrpc": "2.0", "id": NUMBER, "method": method, "params": params}).encode() + b"\n")
    child.stdin.flush()
    for line in child.stdout:
        answer = json.loads(line)
        if answer.get("id") == NUMBER:
            return {key: answer[key] for key in ("result", "error") if key in answer}
    return {"error": {"code": -32603, "message": "the server behind this one has ended"}}


begun = False
for line in sys.stdin:
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if request is None:
        continue
    if method == "initialize":
        me = {"name": "between", "version": "1"}
        answer = {"result": {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": me}}
    elif method in ("tools/list", "tools/call"):
        if not begun:
            begun = True
            ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
            child.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        params = {key: value for key, value in message.get("params", {}).items() if key != "_meta"}
        answer = ask(method, params)
    else:
        answer = {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request, **answer}), flush=True)
child.kill()
