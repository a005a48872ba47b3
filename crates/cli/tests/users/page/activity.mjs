// Runs in the background, and sessions with their tasks.

import { ask, assert, base, ended, finish, runCode, signedIn } from './browser.mjs';

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
await page.goto(`${base}/#/activity/sessions/ses-00000000000000000000000000000000`);
await page.getByText('There is no such session.').waitFor();
await finish(/404 \(Not Found\)/);
