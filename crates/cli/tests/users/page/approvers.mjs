// Calls that a group approves: two members of it, none of whom is the user whose code makes the call.

import { ask, assert, base, checked, ended, finish, signIn, signedIn, watched } from './browser.mjs';

const { browser, page } = await signedIn();

/** Another user in a browser of their own. */
async function person(name) {
  const path = await page.evaluate(async (name) => {
    const answer = await fetch(`/api/users/${name}/link`, { method: 'POST', headers: { 'x-coracle-csrf': '1' } });
    return new URL((await answer.json()).sign_in_link).pathname;
  }, name);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(120_000);
  const other = await watched(context);
  await signIn(other, `${base}${path}`);
  return other;
}
const [bob, carla, dave] = [await person('bob'), await person('carla'), await person('dave')];
const open = (who) => who.evaluate(() => fetch('/api/approvals?state=open').then((answer) => answer.json()).then((all) => all.approvals));

// The caller is a member, and sees for whom the call waits, but cannot approve it.
await ask(page, 'Cancel order 1007');
const own = page.getByRole('region', { name: 'Allow shop · cancel_order?' });
await own.getByText('Needs 2 of finance: 0 given.').waitFor();
await own.getByText('You cannot approve this call yourself.').waitFor();
assert.equal(await own.getByRole('button', { name: 'Allow once' }).count(), 0);
assert.equal(await own.getByRole('button', { name: 'Always allow' }).count(), 0);
assert.equal(await own.getByRole('checkbox').count(), 0);
assert.equal(await page.getByText('A tool call waits for your approval.').count(), 0);
await checked(page, 'approval-waits');

// A member is told, and finds the question with the name of the caller. Enter alone does not approve it.
await bob.goto(`${base}/#/tools`);
await bob.getByText('A tool call waits for your approval.').waitFor();
await bob.getByRole('button', { name: 'Review' }).click();
const asked = bob.getByRole('dialog').getByRole('region', { name: 'Allow shop · cancel_order for ann?' });
await asked.getByText('"id": 1007').waitFor();
await asked.getByRole('button', { name: 'Allow once' }).focus();
await bob.keyboard.press('Enter');
await asked.getByText('Enter alone never approves').waitFor();
assert.deepEqual((await open(bob))[0].approvers.approved_by, []);
await checked(bob, 'approval-of-another-user');
await bob.keyboard.press('Space');
await bob.getByText('A tool call waits for your approval.').waitFor({ state: 'hidden' });
assert.deepEqual((await open(bob))[0].approvers.approved_by, ['bob']);

// Who is no member sees nothing.
assert.deepEqual(await open(dave), []);
await dave.goto(`${base}/#/activity/approvals`);
await dave.getByText('No call waits for an approval.').waitFor();

// How far it is survives a reload, for the caller and for whoever has approved.
await page.reload();
await own.getByText('Needs 2 of finance: 1 given (bob).').waitFor();
await bob.goto(`${base}/#/activity/approvals`);
await bob.reload();
const given = bob.getByRole('region', { name: 'Allow shop · cancel_order for ann?' });
await given.getByText('Needs 2 of finance: 1 given (bob).').waitFor();
await given.getByText('You have approved this call. It waits for others.').waitFor();
assert.equal(await given.getByRole('button', { name: 'Allow once' }).count(), 0);

// The second member approves in the list of approvals, and the code goes on.
await carla.goto(`${base}/#/activity/approvals`);
const second = carla.getByRole('main').getByRole('region', { name: 'Allow shop · cancel_order for ann?' });
await second.getByText('Needs 2 of finance: 1 given (bob).').waitFor();
await checked(carla, 'activity-approvals');
await second.getByRole('button', { name: 'Allow once' }).focus();
await carla.keyboard.press('Space');
await ended(page);
await page.getByText('order 1007 is cancelled').first().waitFor();
await carla.getByText('No call waits for an approval.').waitFor();
const earlier = carla.getByRole('listitem').filter({ hasText: 'shop · cancel_order' });
await earlier.getByText('for ann').waitFor();
await earlier.getByText('Allowed', { exact: true }).waitFor();

// One no is enough.
await ask(page, 'Cancel order 1008');
await own.getByText('Needs 2 of finance: 0 given.').waitFor();
await carla.reload();
await second.getByRole('button', { name: 'Refuse' }).click();
await page.getByText('refused:').first().waitFor();
await finish(/403 \(Forbidden\)/, /404 \(Not Found\) \(.*\/api\/approvals\//);
