// A long conversation, made through the public API.

import assert from 'node:assert/strict';
import { pieces } from './model.mjs';
import { call } from './server.mjs';

/** Maximum number of items that a request can add, and that a request can list. */
const ADDED = 20;
const LISTED = 100;

/** The text of a message. Questions and answers alternate. */
function message(number) {
  if (number % 2 === 1) return { type: 'message', role: 'user', content: `Question ${number}: what comes next?` };
  const text = [...pieces(number, 20 + (number % 10) * 30)].join('');
  return { type: 'message', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] };
}

/** Makes a conversation with so many messages, the last of which is an answer. */
export async function makeConversation(server, messages) {
  const { id } = await call(server, 'POST', '/v1/conversations', { metadata: { title: `${messages} messages` } });
  for (let done = 0; done < messages; done += ADDED) {
    const items = Array.from({ length: Math.min(ADDED, messages - done) }, (_, index) => message(done + index + 1));
    await call(server, 'POST', `/v1/conversations/${id}/items`, { items });
  }
  assert.equal(await countItems(server, id), messages, 'messages in the conversation');
  return id;
}

/** The number of items that the server has. */
export async function countItems(server, id) {
  let count = 0;
  for (let after = ''; ; ) {
    const page = await call(server, 'GET', `/v1/conversations/${id}/items?limit=${LISTED}&order=asc${after && `&after=${after}`}`);
    count += page.data.length;
    if (!page.has_more) return count;
    after = page.last_id;
  }
}
