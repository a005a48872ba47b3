// Runs in the background, and sessions with their tasks, which are replayed and deleted.

import { ask, assert, base, checked, ended, finish, runCode, signedIn } from './browser.mjs';

const { page } = await signedIn();

// A run is seen from elsewhere, with its result.
await ask(page, 'Compute');
await ended(page);
await page.goto(`${base}/#/activity`);
const run = (title) => page.getByRole('main').getByRole('listitem').filter({ has: page.getByRole('link', { name: title }) });
await run('Compute').getByText('Completed').waitFor();
await run('Compute').getByText(/tokens in/).waitFor();
await run('Compute').getByText('Result').click();
await run('Compute').getByText('1 execution').waitFor();
await run('Compute').getByText('The chart is ready.').waitFor();

// A run that is under way goes on without its conversation, and can be stopped here.
await page.goto(`${base}/#/`);
await ask(page, 'Run for ever');
await page.getByText('tick 3').waitFor();
await page.getByRole('link', { name: 'Activity' }).click();
await run('Run for ever').getByText('Running').waitFor();
await run('Run for ever').getByRole('button', { name: 'Stop' }).click();
await run('Run for ever').getByText('Stopped', { exact: true }).waitFor();
await run('Run for ever').getByRole('link', { name: 'Run for ever' }).click();
await page.getByRole('button', { name: 'Try again' }).waitFor();

// A run that failed says why.
await page.goto(`${base}/#/`);
await ask(page, 'Fail');
await page.getByText(/^The run failed\. ./).waitFor();
await page.goto(`${base}/#/activity`);
await run('Fail').getByText('Failed', { exact: true }).waitFor();

// Programs start runs as well, also without a conversation. Older runs are on further pages.
await page.evaluate(async () => {
  const { data } = await fetch('/v1/models').then((answer) => answer.json());
  const headers = { 'content-type': 'application/json', 'x-coracle-csrf': '1' };
  const start = (body) => fetch('/v1/responses', { method: 'POST', headers, body: JSON.stringify({ model: data[0].id, ...body }) });
  for (let number = 0; number < 31; number += 1) await start({ input: `program ${number}` });
  await start({ input: 'Run for ever', background: true });
});
await page.reload();
const alone = page.getByRole('main').getByRole('listitem').filter({ hasText: 'Without a conversation' });
await alone.getByText('in the background').waitFor();
assert.equal(await alone.count(), 30);
await checked(page, 'activity');
await alone.getByRole('button', { name: 'Stop' }).click();
await alone.getByText('Stopped', { exact: true }).waitFor();
assert.equal(await run('Compute').count(), 0);
await page.getByRole('button', { name: 'Show more' }).click();
await run('Compute').getByText('Completed').waitFor();
assert.equal(await alone.count(), 32);
assert.equal(await page.getByRole('button', { name: 'Show more' }).count(), 0);

// A session with its tasks: code, calls, output and errors.
await runCode(page, "from servers.shop import list_orders\nx = len(list_orders()['orders'])\nprint('counted')\ncheckpoint('loaded', {'rows': x})\nresult = x", {
  session: 'analysis',
  description: '<b>Count</b> the orders',
});
await page.evaluate(async () => {
  const headers = { 'content-type': 'application/json', 'x-coracle-csrf': '1' };
  const body = JSON.stringify({ code: 'x / 0', session: 'analysis' });
  await fetch('/api/executions', { method: 'POST', headers, body });
});
await page.getByRole('link', { name: 'Sessions' }).click();
await page.getByRole('link', { name: /analysis/ }).click();
const tasks = page.getByRole('list', { name: 'Tasks of this session' });
const task = (text) => tasks.locator(':scope > li').filter({ hasText: text });
await task('<b>Count</b> the orders').getByText('shop.list_orders').first().waitFor();
await task('<b>Count</b> the orders').getByText('counted', { exact: true }).waitFor();
await task('Task 2').getByText('ZeroDivisionError: division by zero').first().waitFor();
await task('Task 2').getByText('Failed', { exact: true }).waitFor();
await page.getByText('Latest checkpoint: loaded').click();
await page.getByText('"rows": 24').waitFor();
await page.getByText('Summary for continuing').click();
await page.getByText(/task_001 \(python, done\)/).waitFor();

// A replay gives the same outcomes with the recorded answers of tools, and calls nothing.
await page.getByText('Replay', { exact: true }).click();
await page.getByRole('button', { name: 'Replay session' }).click();
await page.getByText('Everything is the same.').waitFor();
assert.equal(await page.getByText('same outcome').count(), 2);

// Ending takes a confirmation.
await page.getByRole('button', { name: 'End session' }).click();
const dialog = page.getByRole('dialog', { name: 'End analysis?' });
await dialog.getByRole('button', { name: 'Cancel' }).click();
await page.getByText('Active', { exact: true }).waitFor();
await page.getByRole('button', { name: 'End session' }).click();
await dialog.getByRole('button', { name: 'End session' }).click();
await page.getByText(/^Ended /).waitFor();
assert.equal(await page.getByRole('button', { name: 'End session' }).count(), 0);
await page.getByRole('link', { name: 'All sessions' }).click();
await page.getByRole('link', { name: /Ended/ }).waitFor();

// Differences are shown as they were then and are now. A replay can be cancelled, and begin with the files.
await runCode(page, "open('/workspace/flag', 'w').write('<b>up</b>')");
await runCode(page, "import os, uuid\nprint('<i>id</i>', uuid.uuid4())\nresult = os.path.exists('/workspace/flag')", { session: 'odd-one' });
await runCode(page, "import os, time\nwhile not os.path.exists('/workspace/flag'):\n    time.sleep(0.05)", { session: 'odd-one' });
await page.reload();
await page.getByRole('link', { name: /odd-one/ }).click();
await page.getByText('Replay', { exact: true }).click();
const replay = page.getByRole('button', { name: 'Replay session' });
await replay.click();
await page.getByRole('button', { name: 'Cancel', exact: true }).click();
await page.getByText('The replay was cancelled.').waitFor();
await page.getByRole('checkbox', { name: 'Begin with a copy of your workspace' }).check();
const verdict = page.getByText('There are differences.');
const busy = page.getByText(/under way/);
do {
  // The server may still be ending the replay before.
  await replay.click();
  await verdict.or(busy).waitFor();
} while (await busy.isVisible());
const first = page.getByRole('main').getByRole('listitem').filter({ hasText: 'Then' });
assert.equal(await first.count(), 1);
await first.getByText('Output', { exact: true }).waitFor();
const [then, now] = await first.locator('pre').allTextContents();
assert.ok(then !== now && [then, now].every((text) => text.includes('<i>id</i>')), `${then} ${now}`);
assert.equal(await page.getByText('same outcome').count(), 1);
await checked(page, 'session-replay');

// Deleting the log takes a confirmation, too.
const deletion = page.getByRole('dialog', { name: 'Delete odd-one?' });
await page.getByRole('button', { name: 'Delete', exact: true }).click();
await deletion.getByRole('button', { name: 'Cancel' }).click();
await verdict.waitFor();
await page.getByRole('button', { name: 'Delete', exact: true }).click();
await deletion.getByRole('button', { name: 'Delete' }).click();
await page.getByRole('link', { name: /analysis/ }).waitFor();
assert.equal(await page.getByRole('link', { name: /odd-one/ }).count(), 0);
assert.equal(await page.evaluate(() => fetch('/api/sessions/odd-one').then((answer) => answer.status)), 404);
await page.goto(`${base}/#/activity/sessions/ses-00000000000000000000000000000000`);
await page.getByText('There is no such session.').waitFor();
await finish(/404 \(Not Found\)/, /429 \(Too Many Requests\)/);
