// A model that writes Markdown at a steady pace, over the Chat Completions API.

import { createServer } from 'node:http';

/** The pieces of an answer, one for each token: words with numbers, in paragraphs, lists, tables and code. */
export function* pieces(answer, tokens) {
  let written = 0;
  let isCode = false;
  const token = function* (text) {
    if (written < tokens) {
      yield text;
      if (text.includes('```')) isCode = !isCode;
    }
    written += 1;
  };
  yield* token(`Answer ${answer} begins.`);
  for (let block = 1; written < tokens - 2; block += 1) {
    yield* token(`\n\n## Part ${answer}.${block}\n\n`);
    for (let word = 0; word < 60; word += 1) yield* token(word % 20 === 7 ? '**important** ' : `word${word} `);
    yield* token('\n\n');
    for (let row = 0; row < 8; row += 1) {
      yield* token('- ');
      for (let word = 0; word < 8; word += 1) yield* token(word === 3 ? '`name` ' : `item${word} `);
      yield* token('\n');
    }
    // The agent would run Python that a model writes into its text.
    yield* token('\n```rust\n');
    for (let line = 0; line < 15; line += 1) {
      for (const text of ['    let value', ` = compute(${line}, `, '"text");', ' // why', '\n']) yield* token(text);
    }
    yield* token('```\n\n| name | value |\n|---|---:|\n');
    for (let row = 0; row < 8; row += 1) {
      for (const text of ['| row ', `${row} `, '| ', `${row * 37} `, '|\n']) yield* token(text);
    }
  }
  yield `${isCode ? '\n```' : ''}\n\nAnswer ${answer} ends.`;
}

async function body(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

/** Writes the pieces at this rate per second. Returns how long it took, in milliseconds. */
async function write(response, all, rate) {
  const begun = performance.now();
  let written = 0;
  for (let next = all.next(); !next.done && !response.destroyed; ) {
    const due = ((performance.now() - begun) / 1000) * rate;
    for (; written < due && !next.done; next = all.next()) {
      const choices = [{ index: 0, delta: { content: next.value }, finish_reason: null }];
      response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'demo', choices })}\n\n`);
      written += 1;
    }
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
  return performance.now() - begun;
}

/** Starts the model. A message `answer N with T tokens` gets such an answer. */
export async function startModel(rate) {
  const paces = [];
  let written = () => {};
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'demo', object: 'model' }] }));
      return;
    }
    const { messages } = await body(request);
    const last = JSON.stringify(messages.findLast((message) => message.role === 'user')?.content ?? '');
    const [, answer = '0', tokens = '20'] = /answer (\d+) with (\d+) tokens/.exec(last) ?? [];
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const ms = await write(response, pieces(Number(answer), Number(tokens)), rate);
    paces.push((1000 * Number(tokens)) / ms);
    const end = { id: 'c', object: 'chat.completion.chunk', model: 'demo', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    response.end(`data: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`);
    written();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  /** Resolves when the next answer has been written. */
  const next = () => new Promise((resolve) => (written = resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, paces, next, close: () => server.close() };
}
