// Plans: code changes nothing until the user has ticked and approved what it would do.

import { ask, assert, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const status = (id) =>
  page.evaluate(
    (order) =>
      fetch('/api/executions', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-coracle-csrf': '1' },
        body: JSON.stringify({ code: `from servers.shop import list_orders\nnext(o['status'] for o in list_orders()['orders'] if o['id'] == ${order})` }),
      }).then((answer) => answer.json().then((execution) => execution.result)),
    id,
  );
const before = [await status(1007), await status(1008)];
assert.ok(!before.includes('cancelled'), before.join());

await page.getByRole('checkbox', { name: 'Plan first' }).check();
await ask(page, 'Plan to cancel orders');
await ended(page);
const plan = page.getByRole('region', { name: 'Plan: 2 effects' });
await plan.getByText('"id": 1007').waitFor();
assert.deepEqual([await status(1007), await status(1008)], before, 'nothing has happened');

// Enter alone never approves.
const run = (count) => plan.getByRole('button', { name: `Run ${count}` });
await run('2 effects').focus();
await page.keyboard.press('Enter');
await plan.getByText('Enter alone does not.').waitFor();
assert.deepEqual([await status(1007), await status(1008)], before, 'Enter has approved');

// Only what is ticked takes place.
await plan.getByRole('checkbox').nth(1).uncheck();
await run('1 effect').click();
await plan.getByText('left out').waitFor();
await plan.getByText('done', { exact: true }).waitFor();
assert.deepEqual([await status(1007), await status(1008)], ['cancelled', before[1]]);

// It is still there after a reload, and cannot be run again.
await page.reload();
await plan.getByText('left out').waitFor();
assert.equal(await plan.getByRole('button').count(), 0);
await page.getByRole('checkbox', { name: 'Plan first' }).uncheck();
await finish();
