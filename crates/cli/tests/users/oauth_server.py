"""An MCP server that requires a sign-in, and its authorization server. Prints its port. Standard library only.

Everybody who opens `/authorize` is signed in.
"""

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENTS, CODES, TOKENS = {}, {}, set()
TOOL = {"name": "whoami", "description": "Names the token.", "inputSchema": {"type": "object", "properties": {}}}


def result_of(message, token):
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "guarded", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if message["method"] == "tools/list":
        return {"tools": [TOOL]}
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": token}]}
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def do_GET(self):
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path.startswith("/.well-known/oauth-protected-resource"):
            self.answer(200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        elif path == "/.well-known/oauth-authorization-server":
            self.answer(200, {
                "issuer": self.base, "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token", "registration_endpoint": f"{self.base}/register",
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"]})
        elif path == "/authorize":
            asked = {name: values[0] for name, values in query.items()}
            assert asked["redirect_uri"] in CLIENTS[asked["client_id"]], asked
            code = secrets.token_hex(8)
            CODES[code] = asked
            self.answer(302, Location=asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]}))
        else:
            self.answer(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/register":
            client = secrets.token_hex(8)
            CLIENTS[client] = json.loads(body)["redirect_uris"]
            self.answer(201, {"client_id": client, "redirect_uris": CLIENTS[client]})
        elif self.path == "/token":
            sent = {name: values[0] for name, values in parse_qs(body).items()}
            asked = CODES.pop(sent.get("code"), None)
            digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge:
                self.answer(400, {"error": "invalid_grant"})
                return
            token = f"token-{secrets.token_hex(8)}"
            TOKENS.add(token)
            self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})
        else:
            self.call(json.loads(body))

    def call(self, message):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in TOKENS:
            where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            self.answer(401, {}, WWW_Authenticate=where)
        elif "id" not in message:
            self.answer(202)
        elif (result := result_of(message, token)) is not None:
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
        else:
            error = {"code": -32601, "message": "Method not found"}
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
