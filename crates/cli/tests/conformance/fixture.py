"""An MCP server with everything that the conformance suite tests. Standard library only.

It serves stdio: revision 2026-07-28 for clients that call `server/discover`, or else the revision that `initialize`
negotiates. With the argument `old` it only supports the latter. Questions of a tool are written once, as a generator
that yields them: in the older revisions they are requests; in the newer one they are the result, and the next call has
all answers so far.
"""

import base64
import hashlib
import hmac
import json
import queue
import struct
import sys
import threading
import time
import zlib

OLD = "old" in sys.argv[1:]
NEWEST = "2026-07-28"
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
META = "io.modelcontextprotocol/"
INFO = {"name": "conformance-fixture", "version": "1"}
CACHED = {"ttlMs": 0, "cacheScope": "private"}
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
KEY = b"only the fixture knows"

METHOD_NOT_FOUND, INVALID_PARAMS, NOT_FOUND, MISSING_CAPABILITY = -32601, -32602, -32002, -32021


class Refused(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data is not None else {})}


def png():
    """One red pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0\xff\0\0")
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return base64.b64encode(picture).decode()


def wav():
    """A moment of silence."""
    data = b"\0" * 8
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


def text(value):
    return {"type": "text", "text": value}


def image():
    return {"type": "image", "data": png(), "mimeType": "image/png"}


def resource(uri, kind, value):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": value}}


def schema(required=(), **properties):
    result = {"type": "object", "properties": properties}
    return {**result, "required": list(required)} if required else result


def elicitation(message, required=(), **properties):
    return {"method": "elicitation/create", "params": {
        "message": message, "requestedSchema": schema(required, **properties)}}


def sampling(prompt, tokens=100):
    return {"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": text(prompt)}], "maxTokens": tokens}}


ROOTS = {"method": "roots/list", "params": {}}
STRING = {"type": "string"}
CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

DEFAULTS = {
    "name": {**STRING, "description": "Name", "default": "John Doe"},
    "age": {"type": "integer", "description": "Age", "default": 30},
    "score": {"type": "number", "description": "Score", "default": 95.5},
    "status": {**STRING, "description": "Status", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "description": "Verified", "default": True},
}


def choices(names):
    return [{"const": f"value{number}", "title": name} for number, name in enumerate(names, 1)]


PLAIN = ["option1", "option2", "option3"]
ENUMS = {
    "untitledSingle": {**STRING, "enum": PLAIN},
    "titledSingle": {**STRING, "oneOf": choices(["First Option", "Second Option", "Third Option"])},
    "legacyEnum": {**STRING, "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
    "untitledMulti": {"type": "array", "items": {**STRING, "enum": PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": choices(["First Choice", "Second Choice", "Third Choice"])}},
}

ADDRESS = {"$anchor": "addressDef", **schema(street=STRING, city=STRING)}
VOCABULARY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"address": ADDRESS},
    **schema(name=STRING, address={"$ref": "#/$defs/address"}, contactMethod={**STRING, "enum": ["phone", "email"]},
             phone=STRING, email=STRING),
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Call:
    """A request that may take a while and ask questions."""

    def __init__(self, peer, request, params):
        self.peer, self.request, self.params = peer, request, params
        self.arguments = params.get("arguments") or {}
        self.meta = params.get("_meta") or {}

    def capabilities(self):
        return self.meta.get(META + "clientCapabilities", {}) if self.peer.modern else self.peer.capabilities

    def log(self, message):
        level = self.meta.get(META + "logLevel") if self.peer.modern else self.peer.level
        if level is not None and LEVELS.index("info") >= LEVELS.index(level):
            self.peer.notify("notifications/message", {"level": "info", "logger": "fixture", "data": message})

    def progress(self, done):
        token = self.meta.get("progressToken")
        if token is not None:
            self.peer.notify("notifications/progress", {"progressToken": token, "progress": done, "total": 100})


# Tools: a function returns the parts of the result; a generator asks first.


def simple_text(_):
    return [text("This is a simple text response for testing.")]


def image_content(_):
    return [image()]


def audio_content(_):
    return [{"type": "audio", "data": wav(), "mimeType": "audio/wav"}]


def embedded_resource(_):
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


def multiple_content_types(_):
    mixed = resource("test://mixed-content-resource", "application/json", json.dumps({"test": "data", "value": 123}))
    return [text("Multiple content types test:"), image(), mixed]


def tool_with_logging(call):
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
        call.log(message)
        time.sleep(0.05)
    return [text("Logged three messages.")]


def tool_with_progress(call):
    for done in [0, 50, 100]:
        call.progress(done)
        time.sleep(0.05)
    return [text("Reported progress three times.")]


def error_handling(_):
    raise ValueError("This tool intentionally returns an error for testing")


def sampled(call):
    answers = yield {"answer": sampling(call.arguments.get("prompt", ""))}
    content = answers["answer"].get("content", {})
    first = content[0] if isinstance(content, list) else content
    return [text("LLM response: " + first.get("text", ""))]


def elicited(call):
    properties = {"username": {**STRING, "description": "User's response"},
                  "email": {**STRING, "description": "User's email address"}}
    answers = yield {"answer": elicitation(call.arguments.get("message", ""), ["username", "email"], **properties)}
    return [text("User response: " + json.dumps(answers["answer"]))]


def completed(answer):
    content = json.dumps(answer.get("content", {}))
    return [text(f"Elicitation completed: action={answer.get('action')}, content={content}")]


def elicited_defaults(_):
    answers = yield {"answer": elicitation("Please look at the defaults", **DEFAULTS)}
    return completed(answers["answer"])


def elicited_enums(_):
    answers = yield {"answer": elicitation("Please choose", **ENUMS)}
    return completed(answers["answer"])


def greeted(_):
    answers = yield {"user_name": elicitation("What is your name?", ["name"], name=STRING)}
    return [text(f"Hello, {answers['user_name'].get('content', {}).get('name')}!")]


def capital(_):
    answers = yield {"capital_question": sampling("What is the capital of France?")}
    return [text(json.dumps(answers["capital_question"].get("content")))]


def rooted(_):
    answers = yield {"client_roots": ROOTS}
    return [text("Roots: " + json.dumps(answers["client_roots"].get("roots", [])))]


def confirmed(_):
    yield {"confirm": elicitation("Please confirm", ["ok"], ok={"type": "boolean"})}
    return [text("state-ok")]


def asked_everything(_):
    answers = yield {
        "user_name": elicitation("What is your name?", ["name"], name=STRING),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    return [text("Answers: " + ", ".join(sorted(answers)))]


def asked_twice(_):
    first = yield {"step1": elicitation("Step 1: What is your name?", ["name"], name=STRING)}
    second = yield {"step2": elicitation("Step 2: What is your favorite color?", ["color"], color=STRING)}
    return [text(json.dumps([first["step1"], second["step2"]]))]


def asked_what_is_possible(call):
    possible = {"name": elicitation("What is your name?", ["name"], name=STRING), "greeting": sampling("Greet"),
                "roots": ROOTS}
    able = {key: question for key, question in possible.items() if CAPABILITY[question["method"]] in call.capabilities()}
    answers = (yield able) if able else {}
    return [text("Answers: " + ", ".join(sorted(answers)))]


def needs_sampling(call):
    if "sampling" not in call.capabilities():
        raise Refused(MISSING_CAPABILITY, "the client cannot sample", {"requiredCapabilities": {"sampling": {}}})
    return [text("The client can sample.")]


def change_tools(call):
    EXTRA["tools"] = not EXTRA["tools"]
    call.peer.changed("tools")
    return [text("The tools have changed.")]


def change_prompts(call):
    EXTRA["prompts"] = not EXTRA["prompts"]
    call.peer.changed("prompts")
    return [text("The prompts have changed.")]


def touch(call):
    call.peer.updated("test://watched-resource")
    return [text("The watched resource has changed.")]


def nothing(call):
    return [text(json.dumps(call.arguments, sort_keys=True))]


def reconnection(_):
    time.sleep(0.5)
    return [text("Reconnection test completed.")]


EXTRA = {"tools": False, "prompts": False}
STATEFUL = {"test_input_required_result_request_state", "test_input_required_result_multiple_inputs",
            "test_input_required_result_multi_round", "test_input_required_result_tampered_state"}
TOOLS = {
    "test_simple_text": (simple_text, "Gives text", schema()),
    "test_image_content": (image_content, "Gives an image", schema()),
    "test_audio_content": (audio_content, "Gives a sound", schema()),
    "test_embedded_resource": (embedded_resource, "Gives a resource", schema()),
    "test_multiple_content_types": (multiple_content_types, "Gives several kinds at once", schema()),
    "test_tool_with_logging": (tool_with_logging, "Logs while it runs", schema()),
    "test_logging_tool": (tool_with_logging, "Logs only to those who want it", schema()),
    "test_tool_with_progress": (tool_with_progress, "Reports progress", schema()),
    "test_error_handling": (error_handling, "Fails", schema()),
    "test_reconnection": (reconnection, "Takes its time", schema()),
    "test_sampling": (sampled, "Asks a model", schema(["prompt"], prompt=STRING)),
    "test_elicitation": (elicited, "Asks a person", schema(["message"], message=STRING)),
    "test_elicitation_sep1034_defaults": (elicited_defaults, "Asks with defaults", schema()),
    "test_elicitation_sep1330_enums": (elicited_enums, "Asks for choices", schema()),
    "test_streaming_elicitation": (greeted, "Asks a person", schema()),
    "test_input_required_result_elicitation": (greeted, "Asks for a name", schema()),
    "test_input_required_result_sampling": (capital, "Asks a model", schema()),
    "test_input_required_result_list_roots": (rooted, "Asks for roots", schema()),
    "test_input_required_result_request_state": (confirmed, "Asks, and gives a state", schema()),
    "test_input_required_result_multiple_inputs": (asked_everything, "Asks three things at once", schema()),
    "test_input_required_result_multi_round": (asked_twice, "Asks two things in turn", schema()),
    "test_input_required_result_tampered_state": (confirmed, "Asks, and checks the state", schema()),
    "test_input_required_result_capabilities": (asked_what_is_possible, "Asks what can be asked", schema()),
    "test_missing_capability": (needs_sampling, "Needs a client that samples", schema()),
    "test_trigger_tool_change": (change_tools, "Changes the tools", schema()),
    "test_trigger_prompt_change": (change_prompts, "Changes the prompts", schema()),
    "test_trigger_resource_update": (touch, "Changes the watched resource", schema()),
    "test_custom_header": (nothing, "Has an argument that is also a header",
                           schema(region={**STRING, "x-mcp-header": "Region"})),
    "json_schema_2020_12_tool": (nothing, "Tool with JSON Schema 2020-12 features", VOCABULARY),
}


def tools():
    listed = [{"name": name, "description": words, "inputSchema": takes} for name, (_, words, takes) in TOOLS.items()]
    extra = {"name": "test_sometimes", "description": "Is not always there", "inputSchema": schema()}
    return listed + ([extra] if EXTRA["tools"] else [])


def call_tool(call):
    name = call.params.get("name")
    if name not in TOOLS:
        raise Refused(INVALID_PARAMS, f"unknown tool: {name}")
    try:
        content = run(call, TOOLS[name][0], name in STATEFUL)
    except ValueError as error:
        return {"content": [text(str(error))], "isError": True}
    return content if isinstance(content, dict) else {"content": content}


# Prompts.


def said(*content):
    return {"messages": [{"role": "user", "content": part} for part in content]}


def simple_prompt(_):
    return said(text("This is a simple prompt for testing."))


def prompt_with_arguments(call):
    given = call.arguments
    return said(text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"))


def prompt_with_resource(call):
    embedded = resource(call.arguments.get("resourceUri"), "text/plain", "Embedded resource content for testing.")
    return said(embedded, text("Please process the embedded resource above."))


def prompt_with_image(_):
    return said(image(), text("Please analyze the image above."))


def prompt_that_asks(_):
    answers = yield {"user_context": elicitation("What context should the prompt use?", ["context"], context=STRING)}
    return said(text(json.dumps(answers["user_context"].get("content"))))


PROMPTS = {
    "test_simple_prompt": (simple_prompt, []),
    "test_prompt_with_arguments": (prompt_with_arguments, ["arg1", "arg2"]),
    "test_prompt_with_embedded_resource": (prompt_with_resource, ["resourceUri"]),
    "test_prompt_with_image": (prompt_with_image, []),
    "test_input_required_result_prompt": (prompt_that_asks, []),
}


def prompts():
    listed = [
        {"name": name, "description": name.replace("_", " "),
         "arguments": [{"name": key, "description": key, "required": True} for key in takes]}
        for name, (_, takes) in PROMPTS.items()
    ]
    return listed + ([{"name": "test_sometimes", "description": "Is not always there"}] if EXTRA["prompts"] else [])


def get_prompt(call):
    name = call.params.get("name")
    if name not in PROMPTS:
        raise Refused(INVALID_PARAMS, f"unknown prompt: {name}")
    return run(call, PROMPTS[name][0], False)


# Resources.

RESOURCES = {
    "test://static-text": ("text/plain", {"text": "This is the content of the static text resource."}),
    "test://static-binary": ("image/png", {"blob": png()}),
    "test://watched-resource": ("text/plain", {"text": "This one changes."}),
    "test://example-resource": ("text/plain", {"text": "An example."}),
}


def resources():
    return [{"uri": uri, "name": uri.split("/")[-1], "description": "For tests", "mimeType": kind}
            for uri, (kind, _) in RESOURCES.items()]


def read(call):
    uri = call.params.get("uri", "")
    if uri in RESOURCES:
        kind, content = RESOURCES[uri]
        return {"contents": [{"uri": uri, "mimeType": kind, **content}]}
    start, end = "test://template/", "/data"
    if uri.startswith(start) and uri.endswith(end):
        key = uri[len(start):-len(end)]
        content = {"id": key, "templateTest": True, "data": f"Data for ID: {key}"}
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": json.dumps(content)}]}
    raise Refused(INVALID_PARAMS if call.peer.modern else NOT_FOUND, "Resource not found", {"uri": uri})


# Questions.


def seal(answers):
    body = json.dumps(answers, sort_keys=True)
    return hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest() + body


def unseal(state):
    if state is None:
        return {}
    body = state[64:]
    if not hmac.compare_digest(state[:64], hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()):
        raise Refused(INVALID_PARAMS, "the state is not one of ours")
    return json.loads(body)


def run(call, function, is_stateful):
    """Return the result of the function, or the questions that must be answered first."""
    outcome = function(call)
    if not hasattr(outcome, "send"):
        return outcome
    given = call.params.get("inputResponses") or {}
    known = {**unseal(call.params.get("requestState")),
             **{key: answer for key, answer in given.items() if isinstance(answer, dict)}}
    used = {}
    try:
        questions = next(outcome)
        while True:
            answers = {key: known[key] for key in questions if key in known} if call.peer.modern else {}
            missing = {key: question for key, question in questions.items() if key not in answers}
            if missing and call.peer.modern:
                state = {"requestState": seal({**used, **answers})} if is_stateful or used or answers else {}
                return {"resultType": "input_required", "inputRequests": missing, **state}
            for key, question in missing.items():
                if CAPABILITY[question["method"]] not in call.capabilities():
                    raise ValueError(f"the client cannot be asked by {question['method']}")
                answers[key] = call.peer.ask(question)
            used.update(answers)
            questions = outcome.send(answers)
    except StopIteration as end:
        return end.value


class Peer:
    """The client."""

    def __init__(self):
        self.modern, self.capabilities, self.level = False, {}, "debug"
        self.lock, self.number, self.waiting = threading.Lock(), 0, {}
        self.listeners, self.watched = {}, set()

    def send(self, message):
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def notify(self, method, params=None):
        self.send({"method": method, **({"params": params} if params else {})})

    def ask(self, question):
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            key = f"fixture-{self.number}"
            self.waiting[key] = answer
        self.send({"id": key, **question})
        message = answer.get()
        if "error" in message:
            raise ValueError("the client refused: " + message["error"].get("message", ""))
        return message["result"]

    def tell_listeners(self, wanted, method, params):
        for key, wishes in list(self.listeners.items()):
            if wanted(wishes):
                self.notify(method, {**params, "_meta": {META + "subscriptionId": key}})

    def changed(self, what):
        method = f"notifications/{what}/list_changed"
        if self.modern:
            self.tell_listeners(lambda wishes: wishes.get(f"{what}ListChanged"), method, {})
        else:
            self.notify(method)

    def updated(self, uri):
        method = "notifications/resources/updated"
        if self.modern:
            self.tell_listeners(lambda wishes: uri in wishes.get("resourceSubscriptions", []), method, {"uri": uri})
        elif uri in self.watched:
            self.notify(method, {"uri": uri})

    # Methods.

    def offers(self):
        offers = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "completions": {},
                  "resources": {"subscribe": True, "listChanged": True}, "logging": {}}
        return offers

    def initialize(self, call):
        asked = call.params.get("protocolVersion")
        self.capabilities = call.params.get("capabilities") or {}
        return {"protocolVersion": asked if asked in REVISIONS else REVISIONS[-1], "capabilities": self.offers(),
                "serverInfo": INFO}

    def discover(self, _):
        self.modern = True
        return {"supportedVersions": [NEWEST], "capabilities": self.offers(), **CACHED}

    def listen(self, call):
        wishes = call.params.get("notifications") or {}
        self.listeners[call.request] = wishes
        self.notify("notifications/subscriptions/acknowledged",
                    {"notifications": wishes, "_meta": {META + "subscriptionId": call.request}})

    def set_level(self, call):
        self.level = call.params["level"]
        return {}

    def complete(self, call):
        start = call.params.get("argument", {}).get("value", "")
        values = [word for word in ["paris", "park", "party"] if word.startswith(start)]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    def methods(self):
        methods = {
            "tools/list": lambda _: {"tools": tools(), **self.cached()},
            "tools/call": call_tool,
            "prompts/list": lambda _: {"prompts": prompts(), **self.cached()},
            "prompts/get": get_prompt,
            "resources/list": lambda _: {"resources": resources(), **self.cached()},
            "resources/templates/list": lambda _: {"resourceTemplates": [
                {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}],
                **self.cached()},
            "resources/read": lambda call: {**read(call), **self.cached()},
            "completion/complete": self.complete,
        }
        if not OLD:
            methods["server/discover"] = self.discover
        if self.modern:
            methods["subscriptions/listen"] = self.listen
        else:
            methods |= {
                "initialize": self.initialize,
                "ping": lambda _: {},
                "logging/setLevel": self.set_level,
                "resources/subscribe": lambda call: self.watched.add(call.params["uri"]) or {},
                "resources/unsubscribe": lambda call: self.watched.discard(call.params["uri"]) or {},
            }
        return methods

    def cached(self):
        return CACHED if self.modern else {}

    def answer(self, request, method, params):
        try:
            if method not in self.methods():
                raise Refused(METHOD_NOT_FOUND, f"unknown method: {method}")
            result = self.methods()[method](Call(self, request, params))
            if result is not None:
                if self.modern:
                    meta = {**result.get("_meta", {}), META + "serverInfo": INFO}
                    result = {"resultType": "complete", **result, "_meta": meta}
                self.send({"id": request, "result": result})
        except Refused as refusal:
            self.send({"id": request, "error": refusal.error})
        except Exception as error:
            self.send({"id": request, "error": {"code": -32603, "message": repr(error)}})

    def handle(self, message):
        method, request, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            waiting = self.waiting.pop(request, None)
            if waiting:
                waiting.put(message)
        elif request is None:
            if method == "notifications/cancelled":
                self.listeners.pop(params.get("requestId"), None)
        elif method in ("initialize", "server/discover", "subscriptions/listen"):
            # The following depends on these.
            self.answer(request, method, params)
        else:
            threading.Thread(target=self.answer, args=(request, method, params), daemon=True).start()


def main():
    peer = Peer()
    for line in sys.stdin:
        peer.handle(json.loads(line))


if __name__ == "__main__":
    main()
