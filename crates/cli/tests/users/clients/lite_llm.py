"""Uses the agent with LiteLLM, as an OpenAI-compatible server."""

import asyncio
import json
import sys

import litellm

litellm.suppress_debug_info = True
BASE, KEY = sys.argv[1:]
COMMON = {"model": "openai/lab/demo", "api_base": BASE, "api_key": KEY, "num_retries": 0}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
TOOLS = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS}]


def weather(arguments):
    return f"sunny in {json.loads(arguments)['city']}"


def complete(messages, stream, **more):
    """The message of a completion."""
    if stream:
        more["stream_options"] = {"include_usage": True}
    answer = litellm.completion(messages=messages, stream=stream, **COMMON, **more)
    if stream:
        answer = litellm.stream_chunk_builder(list(answer), messages=messages)
    assert answer.usage.total_tokens > 0, answer
    return answer.choices[0].message


def chat(stream):
    said = complete([{"role": "user", "content": "compute"}], stream).content
    assert said.startswith("I compute it.") and "42" in said, said
    for marker, expected in [("weather", "It is sunny in Rome."), ("two", "Both: sunny in Oslo."), ("both", "42")]:
        messages = [{"role": "user", "content": f"[script:{marker}]"}]
        first = complete(messages, stream, tools=CHAT_TOOLS)
        messages.append(first.model_dump())
        for call in first.tool_calls:
            result = weather(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        said = complete(messages, stream, tools=CHAT_TOOLS).content
        assert expected in said, said


def respond(stream, **more):
    """A response."""
    answer = litellm.responses(stream=stream, **COMMON, **more)
    return list(answer)[-1].response if stream else answer


def responses(stream):
    response = respond(stream, input="compute")
    kinds = [item.type for item in response.output]
    assert kinds == ["message", "code_interpreter_call", "message"], kinds
    for marker, expected in [("weather", "It is sunny in Rome."), ("two", "Both: sunny in Oslo."), ("both", "42")]:
        first = respond(stream, input=f"[script:{marker}]", tools=TOOLS)
        calls = [item for item in first.output if item.type == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": weather(call.arguments)}
            for call in calls
        ]
        second = respond(stream, input=results, tools=TOOLS, previous_response_id=first.id)
        assert expected in second.output[-1].content[0].text, second


async def concurrently():
    message = {"role": "user", "content": "compute"}
    answers = await asyncio.gather(*(litellm.acompletion(messages=[message], **COMMON) for _ in range(3)))
    assert all("42" in answer.choices[0].message.content for answer in answers), answers


for stream in [False, True]:
    chat(stream)
    responses(stream)
asyncio.run(concurrently())
try:
    litellm.completion(messages=[{"role": "user", "content": "x"}], **{**COMMON, "model": "openai/openai/gpt-5"})
except litellm.BadRequestError as error:
    assert "needs an API key" in str(error), error
else:
    raise AssertionError("a model without a key is accepted")
