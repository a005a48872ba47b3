// Uses the agent with the AI SDK, whose schemas reject what is loose. Warnings are failures.

import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey });
globalThis.AI_SDK_LOG_WARNINGS = (warnings) => assert.fail(JSON.stringify(warnings));
const tools = {
  get_weather: tool({
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `sunny in ${city}`,
  }),
};
const apis = { chat: openai.chat("lab/demo"), responses: openai.responses("lab/demo") };

// What the schemas of the SDK do not know arrives as an error or as a raw chunk without counterpart.
async function whole(options) {
  const result = await generateText({ maxRetries: 0, stopWhen: isStepCount(5), ...options });
  assert.deepEqual(result.steps.flatMap((step) => step.warnings ?? []), []);
  return result;
}

async function streamed(options) {
  const result = streamText({
    maxRetries: 0,
    stopWhen: isStepCount(5),
    includeRawChunks: true,
    onError: ({ error }) => assert.fail(error),
    ...options,
  });
  const parts = [];
  for await (const part of result.fullStream) {
    assert.notEqual(part.type, "error", JSON.stringify(part));
    if (part.type === "raw") {
      assert.notEqual(part.rawValue?.type, "unknown_chunk", JSON.stringify(part));
    }
    parts.push(part);
  }
  assert.equal(parts.at(-1).type, "finish");
  assert.deepEqual((await result.steps).flatMap((step) => step.warnings ?? []), []);
  return { text: await result.text, steps: await result.steps, usage: await result.usage, parts };
}

for (const [api, model] of Object.entries(apis)) {
  for (const run of [whole, streamed]) {
    const name = `${api}, ${run.name}`;
    // The server's own tools.
    const own = await run({ model, prompt: "compute" });
    assert.match(own.text, /^I compute it\.\s*It is .*42/, name);
    assert.ok(own.usage.totalTokens > 0, name);
    for (const marker of ["shell", "search"]) {
      assert.equal((await run({ model, prompt: `[script:${marker}]` })).text, "Done.", name);
    }
    // The client's own tools, which the SDK runs.
    for (const [marker, expected] of [["weather", "It is sunny in Rome."], ["two", "Both: sunny in Oslo."]]) {
      const result = await run({ model, tools, prompt: `[script:${marker}]` });
      assert.equal(result.steps.length, 2, name);
      assert.equal(result.text, expected, name);
    }
    // Both in one conversation.
    const both = await run({ model, tools, prompt: "[script:both]" });
    assert.match(both.text, /It is sunny, and .*42/, name);
  }
}

// Without stored responses, the SDK sends everything back.
for (const run of [whole, streamed]) {
  const options = { model: apis.responses, tools, providerOptions: { openai: { store: false } } };
  // Results of the server's tools are the exception: the SDK warns that it leaves them out.
  assert.equal((await run({ ...options, prompt: "[script:weather]" })).text, "It is sunny in Rome.", run.name);
}
// The tools of the server can be named as those of OpenAI are.
{
  const environment = { type: "containerAuto" };
  const named = { code_interpreter: openai.tools.codeInterpreter({}), shell: openai.tools.shell({ environment }) };
  for (const [prompt, used] of [["compute", "code_interpreter"], ["[script:shell]", "shell"]]) {
    for (const run of [whole, streamed]) {
      const result = await run({ model: apis.responses, tools: named, prompt });
      const calls = result.steps.flatMap((step) => step.toolCalls).map((call) => call.toolName);
      assert.deepEqual(calls, [used]);
      assert.match(result.text, /42|Done/);
    }
  }
}
const unusable = openai.responses("openai/gpt-5");
await assert.rejects(generateText({ model: unusable, prompt: "x", maxRetries: 0 }), /needs an API key/);
