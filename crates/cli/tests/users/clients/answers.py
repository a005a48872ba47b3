"""Checks recorded answers of the server against the types of the official client, without any leniency: every required
field is there, every value has its type, and there are no fields that the types do not have."""

import json
import sys
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItem, ConversationItemList
from openai.types.responses import (
    CompactedResponse,
    Response,
    ResponseItemList,
    ResponseStreamEvent,
)
from openai.types.responses.input_token_count_response import InputTokenCountResponse
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypeAliasType

# Fields that only Coracle has, that OpenAI sends although its types lack them, or that other servers have established.
EXTENSIONS = {
    "Response": {"coracle", "store"},
    "ResponseCodeInterpreterToolCall": {"execution_id", "output_file"},
    "ResponseFunctionShellToolCall": {"execution_id"},
    "ResponseFunctionShellToolCallOutput": {"execution_id", "output_file"},
    "Model": {"context_window", "context_window_estimated"},
    # Earlier versions of the types require it.
    "ResponseFunctionCallArgumentsDoneEvent": {"name"},
    "ChoiceDelta": {"reasoning_content"},
    "ChatCompletionMessage": {"reasoning_content"},
}


class Wrong(Exception):
    pass


def check(kind, value, path="answer"):
    """Raises unless the value is of this kind."""
    if isinstance(kind, TypeAliasType):
        return check(kind.__value__, value, path)
    origin = get_origin(kind)
    if origin is Annotated:
        return check(get_args(kind)[0], value, path)
    if kind is Any or kind is object:
        return None
    if kind is None or kind is type(None):
        return expect(value is None, path, "null", value)
    if origin is Literal:
        return expect(value in get_args(kind), path, f"one of {get_args(kind)}", value)
    if origin in (Union, types.UnionType):
        return one_of(get_args(kind), value, path)
    if origin is list:
        expect(isinstance(value, list), path, "a list", value)
        for place, item in enumerate(value):
            check(get_args(kind)[0], item, f"{path}[{place}]")
        return None
    if origin is dict:
        expect(isinstance(value, dict), path, "an object", value)
        for name, item in value.items():
            check(get_args(kind)[1], item, f"{path}.{name}")
        return None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return fields(kind, value, path)
    plain = {str: str, int: int, float: (int, float), bool: bool}[kind]
    is_plain = isinstance(value, plain) and (kind is bool or not isinstance(value, bool))
    return expect(is_plain, path, kind.__name__, value)


def expect(condition, path, what, value):
    if not condition:
        raise Wrong(f"{path} should be {what}, and is {json.dumps(value)[:300]}")


def fields(kind, value, path):
    expect(isinstance(value, dict), path, kind.__name__, value)
    known = {field.alias or name: field for name, field in kind.model_fields.items()}
    for name, field in known.items():
        if name in value:
            check(field.annotation, value[name], f"{path}.{name}")
        else:
            expect(not field.is_required(), f"{path}.{name}", f"there ({kind.__name__})", value)
    unknown = value.keys() - known.keys() - EXTENSIONS.get(kind.__name__, set())
    expect(not unknown, path, f"a {kind.__name__}, without {sorted(unknown)}", value)


def tag(kind):
    """The values that the field `type` of a class can have."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or "type" not in kind.model_fields:
        return ()
    annotation = kind.model_fields["type"].annotation
    literals = [annotation, *get_args(annotation)]
    return [value for literal in literals if get_origin(literal) is Literal for value in get_args(literal)]


def one_of(options, value, path):
    options = [inner for option in options for inner in flat(option)]
    if isinstance(value, dict) and "type" in value:
        tagged = [option for option in options if value["type"] in tag(option)]
        expect(tagged or not all(tag(option) for option in options), path, "of a known type", value)
        options = tagged or options
    problems = []
    for option in options:
        try:
            return check(option, value, path)
        except Wrong as problem:
            problems.append(str(problem))
    raise Wrong("; or ".join(problems))


def flat(kind):
    """The members of unions inside unions."""
    if isinstance(kind, TypeAliasType):
        return flat(kind.__value__)
    if get_origin(kind) is Annotated:
        return flat(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [inner for option in get_args(kind) for inner in flat(option)]
    return [kind]


ADAPTERS = {}


def both(kind, value):
    """Our check, and that of the client's own validation."""
    check(kind, value)
    if id(kind) not in ADAPTERS:
        ADAPTERS[id(kind)] = TypeAdapter(kind)
    ADAPTERS[id(kind)].validate_json(json.dumps(value), strict=True)


class Page(BaseModel):
    object: Literal["list"]
    data: list[Model]


class ResponseDeleted(BaseModel):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


def kind_of(method, path):
    parts = path.removeprefix("/v1/").split("/")
    match [method, *parts]:
        case ["POST", "chat", "completions"]:
            return ChatCompletion
        case ["GET", "models"]:
            return Page
        case ["POST", "responses", "compact"]:
            return CompactedResponse
        case ["POST", "responses", "input_tokens"]:
            return InputTokenCountResponse
        case ["POST", "responses"] | ["GET", "responses", _] | ["POST", "responses", _, "cancel"]:
            return Response
        case ["DELETE", "responses", _]:
            return ResponseDeleted
        case ["GET", "responses", _, "input_items"]:
            return ResponseItemList
        case ["DELETE", "conversations", _]:
            return ConversationDeletedResource
        case ["POST", "conversations"] | [_, "conversations", _] | ["DELETE", "conversations", _, "items", _]:
            return Conversation
        case [_, "conversations", _, "items"]:
            return ConversationItemList
        case ["GET", "conversations", _, "items", _]:
            return ConversationItem
    raise Wrong(f"no type is known for {method} {path}")


def stream(path, body):
    """Checks the events of a stream; returns how many they are."""
    is_chat = path == "/v1/chat/completions"
    count, last = 0, -1
    for block in body.split("\n\n"):
        data = [line[6:] for line in block.splitlines() if line.startswith("data: ")]
        if not data or data == ["[DONE]"]:
            continue
        event = json.loads("\n".join(data))
        count += 1
        if is_chat:
            both(ChatCompletionChunk, event)
            continue
        if event["type"].startswith("response.coracle."):
            continue
        named = [line[7:] for line in block.splitlines() if line.startswith("event: ")]
        expect(named == [event["type"]], "event", f"`{event['type']}`", named)
        expect(event["sequence_number"] > last, "sequence_number", f"above {last}", event["sequence_number"])
        last = event["sequence_number"]
        both(ResponseStreamEvent, event)
    if is_chat:
        expect(body.endswith("data: [DONE]\n\n"), "stream", "ended by [DONE]", body[-200:])
    return count


def main():
    answers, events, errors = 0, 0, 0
    with open(sys.argv[1]) as file:
        recorded = json.load(file)
    for answer in recorded:
        path = urlsplit(answer["path"]).path
        try:
            if answer["type"].startswith("text/event-stream"):
                events += stream(path, answer["body"])
            elif answer["status"] >= 400:
                both(ErrorObject, json.loads(answer["body"])["error"])
                errors += 1
            else:
                both(kind_of(answer["method"], path), json.loads(answer["body"]))
                answers += 1
        except Exception as problem:
            problem.add_note(f"{answer['method']} {answer['path']} {answer['status']}: {answer['body'][:4000]}")
            raise
    assert answers + events > 0, "nothing was recorded"
    print(f"{answers} answers, {events} events and {errors} errors have valid types")


main()
