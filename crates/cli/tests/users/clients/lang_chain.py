"""Uses the agent with LangChain's class for OpenAI."""

import sys
import warnings

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

warnings.simplefilter("error")
BASE, KEY = sys.argv[1:]


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def model(**more):
    return ChatOpenAI(model="lab/demo", base_url=BASE, api_key=KEY, max_retries=0, **more)


def whole(chat, messages):
    return chat.invoke(messages)


def streamed(chat, messages):
    message = None
    for chunk in chat.stream(messages):
        message = chunk if message is None else message + chunk
    return message


for responses in [False, True]:
    chat = model(use_responses_api=responses, stream_usage=True)
    bound = chat.bind_tools([get_weather])
    for run in [whole, streamed]:
        case = (responses, run.__name__)
        said = run(chat, [HumanMessage("compute")])
        assert "I compute it." in said.text and "42" in said.text, (case, said)
        assert said.usage_metadata["total_tokens"] > 0, (case, said)
        assert run(chat, [HumanMessage("[script:shell]")]).text == "Done.", case
        for marker, expected in [("weather", "It is sunny in Rome."), ("two", "Both: sunny in Oslo."), ("both", "42")]:
            messages = [HumanMessage(f"[script:{marker}]")]
            messages.append(run(bound, messages))
            assert messages[-1].tool_calls and not messages[-1].invalid_tool_calls, (case, messages)
            for call in messages[-1].tool_calls:
                messages.append(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]))
            said = run(bound, messages)
            assert expected in said.text, (case, said)

# Stored responses, and a conversation that continues.
chat = model(use_responses_api=True, use_previous_response_id=True)
first = chat.invoke([HumanMessage("compute")])
second = chat.bind_tools([get_weather]).invoke([HumanMessage("compute"), first, HumanMessage("[script:weather]")])
assert second.tool_calls[0]["args"] == {"city": "Rome"}, second
