"""Uses the agent with the official client, and validates everything that it sends against the client's types."""

import json
import sys
from typing import get_args

import httpx
from openai import APIStatusError, OpenAI
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent

BASE, KEY = sys.argv[1:]
CLIENT = OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MODEL = "lab/demo"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def by_type(union):
    """The classes of a union by the value of their field `type`."""
    classes = get_args(get_args(union)[0])
    return {get_args(option.model_fields["type"].annotation)[0]: option for option in classes}


EVENTS = by_type(ResponseStreamEvent)
ITEMS = by_type(ResponseOutputItem)


def request(method, path, body=None):
    """The body of an answer, before the client interprets it."""
    answer = httpx.request(method, BASE + path, json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)
    answer.raise_for_status()
    return answer


def whole(body):
    """A response that is valid to the letter."""
    response = request("POST", "/responses", {"model": MODEL, **body}).json()
    Response.model_validate(response)
    for item in response["output"]:
        ITEMS[item["type"]].model_validate(item)
    return response


def streamed(body):
    """The events of a response, all valid to the letter."""
    text = request("POST", "/responses", {"model": MODEL, "stream": True, **body}).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    for event in events:
        EVENTS[event["type"]].model_validate(event)
        if "item" in event:
            ITEMS[event["item"]["type"]].model_validate(event["item"])
    return events


def code():
    response = whole({"input": "compute"})
    assert [item["type"] for item in response["output"]] == ["message", "code_interpreter_call", "message"]
    events = streamed({"input": "compute"})
    assert events[-1]["type"] == "response.completed"
    with CLIENT.responses.stream(model=MODEL, input="compute") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.code_interpreter_call_code.done" in kinds
    assert final.output_text.startswith("I compute it.It is 42"), final.output_text


def functions():
    first = CLIENT.responses.create(model=MODEL, input="[script:weather]", tools=[WEATHER])
    call = first.output[-1]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Rome"})
    whole({"input": "[script:weather]", "tools": [WEATHER]})
    streamed({"input": "[script:weather]", "tools": [WEATHER]})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = CLIENT.responses.create(
        model=MODEL, input=[result], tools=[WEATHER], previous_response_id=first.id, stream=True
    )
    last = [event for event in second][-1]
    assert last.response.output_text == "It is sunny.", last
    # Without stored responses, the client sends the whole conversation.
    first = CLIENT.responses.create(model=MODEL, input="[script:weather]", tools=[WEATHER], store=False)
    result["call_id"] = first.output[-1].call_id
    conversation = [{"role": "user", "content": "[script:weather]"}, *first.output, result]
    second = CLIENT.responses.create(model=MODEL, input=conversation, tools=[WEATHER], store=False)
    assert second.output_text == "It is sunny.", second


def shell():
    # Clients that know no shell would take its calls for their own.
    response = whole({"input": "[script:shell]"})
    assert [item["type"] for item in response["output"]] == ["code_interpreter_call", "message"]
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "from bash\n"}], response
    tools = [{"type": "shell", "environment": {"type": "container_auto"}}]
    response = whole({"input": "[script:shell]", "tools": tools})
    assert [item["type"] for item in response["output"]] == ["shell_call", "shell_call_output", "message"]
    output = response["output"][1]["output"][0]
    assert (output["stdout"], output["outcome"]) == ("from bash\n", {"type": "exit", "exit_code": 0}), output
    streamed({"input": "[script:shell]", "tools": tools})


def search():
    response = whole({"input": "[script:search]"})
    assert [item["type"] for item in response["output"]] == ["reasoning", "mcp_call", "message"], response
    streamed({"input": "[script:search]"})


def conversations():
    conversation = CLIENT.conversations.create(metadata={"topic": "numbers"})
    assert CLIENT.conversations.retrieve(conversation.id).metadata == {"topic": "numbers"}
    CLIENT.responses.create(model=MODEL, input="compute", conversation=conversation.id)
    items = list(CLIENT.conversations.items.list(conversation.id, order="asc", limit=1))
    assert [item.type for item in items] == ["message", "message", "code_interpreter_call", "message"], items
    assert CLIENT.conversations.items.retrieve(items[0].id, conversation_id=conversation.id).id == items[0].id
    CLIENT.conversations.update(conversation.id, metadata={"topic": "words"})
    added = [{"type": "message", "role": "user", "content": "more"}]
    CLIENT.conversations.items.create(conversation.id, items=added)
    CLIENT.conversations.items.delete(items[0].id, conversation_id=conversation.id)
    assert CLIENT.conversations.delete(conversation.id).deleted


def background():
    begun = CLIENT.responses.create(model=MODEL, input="compute", background=True)
    events = [event for event in CLIENT.responses.retrieve(begun.id, stream=True, starting_after=0)]
    assert events[0].sequence_number > 0 and events[-1].type == "response.completed", events
    assert [item.type for item in CLIENT.responses.input_items.list(begun.id)] == ["message"]
    assert CLIENT.responses.cancel(begun.id).status == "completed"
    CLIENT.responses.delete(begun.id)
    compacted = CLIENT.responses.compact(model=MODEL, input="compute")
    assert compacted.output[-1].type == "compaction"
    assert CLIENT.responses.input_tokens.count(model=MODEL, input="compute").input_tokens > 0


def errors():
    for body, status in [
        ({"input": "", "model": MODEL}, 400),
        ({"input": "x", "model": "openai/gpt-5"}, 400),
        ({"input": "x", "model": MODEL, "previous_response_id": "resp_unknown"}, 404),
    ]:
        try:
            CLIENT.responses.create(**body)
        except APIStatusError as error:
            assert error.status_code == status and error.body["message"], error
        else:
            raise AssertionError(body)


def chat():
    messages = [{"role": "user", "content": "compute"}]
    answer = CLIENT.chat.completions.create(model=MODEL, messages=messages)
    assert answer.choices[0].message.content.startswith("I compute it."), answer
    chunks = CLIENT.chat.completions.create(
        model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    assert [chunk for chunk in chunks][-1].usage.total_tokens > 0


for part in [code, functions, shell, search, conversations, background, errors, chat]:
    part()
    print(part.__name__, "ok")
