// Reloading at any moment of a run shows everything once: while the model writes, while code runs, and after it.

import { ask, assert, base, checked, ended, finish, openGate, runCode, signedIn, watched } from './browser.mjs';

const { context, page } = await signedIn();
const other = await watched(context);
await other.goto(`${base}/#/settings`);
const card = page.getByRole('article', { name: /^Python/ });

/** Reloads, waits for the newest text, and checks that each of these texts is there once. */
async function reloaded(...texts) {
  await page.reload();
  await page.getByText(texts.at(-1), { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  for (const text of texts) assert.equal(await page.getByText(text, { exact: true }).count(), 1, text);
  assert.equal(await page.locator('.user').count(), 1);
}

await ask(page, 'Work in stages');
await page.getByText('The first stage.').waitFor();
await reloaded('The first stage.');
await reloaded('The first stage.');

// The code has called a tool and printed a line, and waits.
await openGate('stage-1');
await card.getByText(/^orders: \d+$/).waitFor();
await page.reload();
await card.getByText(/^orders: \d+$/).waitFor();
await card.getByText('1 tool call', { exact: true }).waitFor();
assert.equal(await card.count(), 1);
assert.equal(await card.getByText('shop.list_orders').count(), 1);
await reloaded('The first stage.', 'The second stage.');
await card.getByText(/^orders: \d+$/).waitFor();
assert.equal(await card.count(), 1);

// The code ends while the page is loaded again.
await Promise.all([page.reload(), runCode(other, "open('/workspace/go-on', 'w').close()")]);
await page.getByText('The third stage.').waitFor();
await reloaded('The first stage.', 'The second stage.', 'The third stage.');
await page.getByRole('article', { name: 'Python: Finished' }).waitFor();
assert.equal(await card.count(), 1);
assert.equal(((await card.innerText()).match(/the code goes on/g) ?? []).length, 2, 'once in the code, once in the output');

// The run ends while the page is loaded again.
await Promise.all([page.reload(), openGate('stage-3')]);
await ended(page);
const stages = ['The first stage.', 'The second stage.', 'The third stage.', 'The end.'];
for (const text of stages) assert.equal(await page.getByText(text, { exact: true }).count(), 1, text);
assert.equal(await card.count(), 1);
assert.equal(await page.locator('.user').count(), 1);
assert.equal(await page.getByText('Working…').count(), 0);

// A card of an earlier visit has the calls of its code and the sandbox, and so has each of two that ran the same code.
await ask(page, 'Count the orders');
await ended(page);
await ask(page, 'Cancel order 1008');
await page.getByRole('button', { name: 'Refuse' }).click();
await ended(page);
await ask(page, 'Count the orders');
await ended(page);
await page.reload();
const cards = page.getByRole('article', { name: 'Python: Finished' });
for (const [index, name] of ['list_orders', 'list_orders', 'cancel_order', 'list_orders'].entries()) {
  const one = cards.nth(index);
  await one.getByText('Sandbox and tool calls').click();
  const calls = one.getByRole('list', { name: 'Tool calls of this code' });
  await calls.getByText(`shop.${name}`).waitFor();
  assert.equal(await calls.getByRole('listitem').count(), 1);
  assert.match(await calls.innerText(), name === 'cancel_order' ? /failed: / : /\d m?s\s+\d+ B → 1\.9 kB/);
  assert.match(await calls.innerText(), /began after\s+\+\d/);
  await one.getByText(/^Native sandbox/).waitFor();
  await one.getByText('Fresh sandbox: variables are not kept').waitFor();
  await one.getByText(/ of at most 10 min 0 s$/).waitFor();
}
await checked(page, 'execution-details');
await finish();
