// What the user controls: stopping a run, and approving calls.

import { ask, assert, base, checked, ended, finish, signedIn, watched } from './browser.mjs';

const { context, page } = await signedIn();

// The output is shown while the code runs. Stop ends the code, and the conversation goes on.
await ask(page, 'Run for ever');
const running = page.getByRole('article', { name: 'Python: Running' });
await running.getByText('tick 3').waitFor();
// While it runs, the card says what it runs in.
await running.getByText(/^Native sandbox.* · Fresh sandbox.* · at most 10 min 0 s.*, .* processes/).waitFor();
await page.getByRole('button', { name: 'Stop' }).click();
await page.getByRole('button', { name: 'Try again' }).waitFor();
await page.getByRole('article', { name: /^Python: (Stopped|Failed)$/ }).waitFor();
const executions = await page.evaluate(() => fetch('/api/executions').then((answer) => answer.json()));
assert.equal(executions.filter((one) => one.state === 'running').length, 0);

// It can be tried again after a reload, too, and the code that was stopped still says how it was isolated.
await page.reload();
const stopped = page.getByRole('article', { name: /^Python: (Stopped|Failed)$/ });
await stopped.getByText('Sandbox and tool calls').click();
await stopped.getByText(/^Native sandbox/).waitFor();
await page.getByRole('button', { name: 'Try again' }).click();
await page.getByText('Over.', { exact: true }).waitFor();
await ended(page);
assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);

// A call that needs approval. Enter alone never approves it, wherever the focus is.
await ask(page, 'Cancel order 1007');
const question = page.getByRole('region', { name: 'Allow shop · cancel_order?' });
await question.getByText('"id": 1007').waitFor();
await page.keyboard.press('Enter');
const once = question.getByRole('button', { name: 'Allow once' });
await once.focus();
await page.keyboard.press('Enter');
await question.getByText('Enter alone never approves').waitFor();
const open = () => page.evaluate(() => fetch('/api/approvals?state=open').then((answer) => answer.json()));
assert.equal((await open()).approvals.length, 1);

// Another tab says that a call waits.
const other = await watched(context);
await other.goto(`${base}/#/tools`);
await other.getByText('A tool call waits for your approval.').waitFor();
await other.getByRole('button', { name: 'Review' }).click();
await other.getByRole('dialog').getByRole('button', { name: 'Refuse' }).waitFor();
await other.close();

await once.focus();
await page.keyboard.press('Space');
await ended(page);
await page.getByText('order 1007 is cancelled').first().waitFor();
assert.equal((await open()).approvals.length, 0);

// The same call, refused.
await ask(page, 'Cancel order 1008');
await page.getByRole('region', { name: 'Allow shop · cancel_order?' }).getByRole('button', { name: 'Refuse' }).click();
await ended(page);
await page.getByText('refused:').first().waitFor();

// Two questions about one tool can be told apart by their names.
const run = (order) => page.evaluate(async (id) => {
  const code = `from servers.shop import cancel_order\ncancel_order(id=${id})`;
  const headers = { 'content-type': 'application/json', 'x-coracle-csrf': '1' };
  const answer = await fetch('/api/executions?approvals=wait', { method: 'POST', headers, body: JSON.stringify({ code, timeout_seconds: 600 }) });
  return answer.json();
}, order);
const runs = [run(1009), run(1010)];
await page.waitForFunction(() => fetch('/api/approvals?state=open').then((answer) => answer.json()).then(({ approvals }) => approvals.length === 2));
await page.goto(`${base}/#/activity/approvals`);
const regions = page.getByRole('main').getByRole('region', { name: 'Allow shop · cancel_order?' });
await regions.nth(1).waitFor();
const names = await regions.evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')));
assert.deepEqual(names.toSorted(), ['Allow shop · cancel_order?', 'Allow shop · cancel_order? (2)']);
await checked(page, 'two-questions');
await regions.first().getByRole('button', { name: 'Refuse' }).click();
await regions.nth(1).waitFor({ state: 'detached' });
await regions.first().getByRole('button', { name: 'Refuse' }).click();
for (const outcome of await Promise.all(runs)) assert.equal(outcome.success, false, JSON.stringify(outcome));
await finish();
