"""An MCP server over HTTP that requires a sign-in, with its authorization server. Prints its address, then serves."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

TOKEN = "canary-access"
codes: dict[str, str] = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: object = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path, asked = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path.startswith("/.well-known/oauth-protected-resource"):
            self.answer(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif path == "/.well-known/oauth-authorization-server":
            self.answer(200, {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })
        elif path == "/authorize":
            codes["code-1"] = asked["code_challenge"][0]
            back = urlencode({"code": "code-1", "state": asked["state"][0]})
            self.answer(302, Location=f"{asked['redirect_uri'][0]}?{back}")
        else:
            self.answer(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/register":
            client = json.loads(body)
            self.answer(201, {"client_id": "client-1", "redirect_uris": client["redirect_uris"]})
        elif self.path == "/token":
            asked = parse_qs(body.decode())
            proof = hashlib.sha256(asked["code_verifier"][0].encode()).digest()
            if codes.pop(asked["code"][0], None) == base64.urlsafe_b64encode(proof).decode().rstrip("="):
                self.answer(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})
            else:
                self.answer(400, {"error": "invalid_grant"})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            resource = f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
            self.answer(401, WWW_Authenticate=resource)
        else:
            self.message(json.loads(body))

    def message(self, message: dict) -> None:
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "private", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "secret", "inputSchema": {"type": "object"}}]},
        }
        if "id" not in message:
            self.answer(202)
        elif message["method"] in results:
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})
        else:
            self.answer(400)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
base = f"http://127.0.0.1:{server.server_address[1]}"
print(base, flush=True)
server.serve_forever()
