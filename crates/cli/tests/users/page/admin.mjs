// Administration: users and their keys, the state of the server; and what everybody can do with their own data.

import { ask, assert, base, checked, ended, finish, runCode, signIn, signedIn } from './browser.mjs';

const { browser, page } = await signedIn();
const user = (name) => page.getByRole('main').getByRole('listitem').filter({ has: page.getByRole('button', { name: `Delete: ${name}` }) });
const api = (path, method = 'GET') =>
  page.evaluate(
    async ([path, method]) => {
      const answer = await fetch(path, { method, headers: { 'x-coracle-csrf': '1' } });
      return { status: answer.status, text: await answer.text() };
    },
    [path, method],
  );

// A new user signs in with the link, and is no admin.
await page.getByRole('link', { name: 'Admin' }).click();
await page.getByRole('textbox', { name: 'User name' }).fill('carla');
await page.getByRole('textbox', { name: 'Display name' }).fill('<b>Carla</b>');
await page.getByRole('button', { name: 'Add user' }).click();
const link = await page.locator('code', { hasText: '/sign-in/' }).innerText();
await user('carla').getByText('<b>Carla</b>').waitFor();
const other = await (await browser.newContext()).newPage();
await signIn(other, `${base}${new URL(link).pathname}`);
assert.equal(await other.getByRole('link', { name: 'Admin' }).count(), 0);
await other.goto(`${base}/#/admin`);
await other.getByText('Only admins can see this.').waitFor();

// Users decide for themselves. Only admins change the policy for everybody.
for (const [who, groups] of [[page, 1], [other, 0]]) {
  await who.goto(`${base}/#/tools/shop/cancel_order`);
  await who.getByRole('button', { name: 'Never' }).click();
  await who.getByText('Refused by you: calls of this tool fail.').waitFor();
  assert.equal(await who.getByRole('group', { name: 'For everyone' }).count(), groups);
}
await other.getByRole('button', { name: 'As the policy says' }).click();
await other.getByText('Needs approval: each call waits until you approve it.').waitFor();
await page.reload();
await page.getByText('Refused by you: calls of this tool fail.').waitFor();
await page.goto(`${base}/#/admin`);

// The same name again is refused, and the reason is shown.
await page.getByRole('textbox', { name: 'User name' }).fill('carla');
await page.getByRole('button', { name: 'Add user' }).click();
await page.getByRole('alert').waitFor();

await checked(page, 'admin-users');

// Roles, keys, links, and disabling, which ends the other browser's access.
await page.getByRole('combobox', { name: 'Role of carla' }).selectOption('Admin');
await page.waitForFunction(() => fetch('/api/users/carla').then((answer) => answer.json()).then((user) => user.role === 'admin'));
await page.getByRole('combobox', { name: 'Role of carla' }).selectOption('User');
await other.goto(`${base}/#/settings`);
await other.getByRole('textbox', { name: 'Name of the new key' }).fill('<i>key</i>');
await other.getByRole('button', { name: 'Create key' }).click();
await other.getByText('Copy the key now.').waitFor();
const ownKeys = (who) => who.evaluate(() => fetch('/api/keys').then((answer) => answer.json()).then(({ keys }) => keys));
const [first] = await ownKeys(other);
const lifetime = (key) => Math.round((Date.parse(key.expires_at) - Date.parse(key.created_at)) / 86_400_000);
assert.deepEqual([first.scopes.toSorted(), lifetime(first)], [['api', 'mcp'], 90]);
// Users choose what a key may be used for, and until when. Scopes of admins are not offered to others.
const newKey = other.getByRole('form', { name: 'New API key' });
assert.equal(await newKey.getByRole('checkbox', { name: /^admin/ }).count(), 0);
await newKey.getByRole('textbox', { name: 'Name of the new key' }).fill('approver');
await newKey.getByRole('combobox', { name: 'Expires' }).selectOption('never');
await newKey.getByRole('checkbox', { name: /^approve/ }).check();
await newKey.getByRole('checkbox', { name: /^mcp/ }).uncheck();
await newKey.getByRole('button', { name: 'Create key' }).click();
await other.getByRole('list', { name: 'API keys' }).getByText('does not expire').waitFor();
const second = (await ownKeys(other)).find((key) => key.name === 'approver');
assert.deepEqual([second.scopes.toSorted(), second.expires_at ?? null], [['api', 'approve'], null]);
await other.getByRole('button', { name: 'Revoke approver' }).click();
await other.getByRole('list', { name: 'API keys' }).getByText('revoked').waitFor();
await checked(other, 'own-keys');
await user('carla').getByText('API keys').click();
await user('carla').getByText('<i>key</i>').waitFor();
await user('carla').getByRole('button', { name: 'Revoke <i>key</i>' }).click();
await user('carla').getByText('revoked').waitFor();
await page.getByRole('button', { name: 'Sign-in link: carla' }).click();
await page.locator('code', { hasText: '/sign-in/' }).filter({ hasNotText: link }).waitFor();
await page.getByRole('button', { name: 'Disable: carla' }).click();
const dialog = page.getByRole('dialog');
await dialog.getByRole('button', { name: 'Disable' }).click();
await page.getByRole('button', { name: 'Enable: carla' }).waitFor();
assert.equal(await other.evaluate(() => fetch('/api/auth/me').then((answer) => answer.status)), 401);
await page.getByRole('button', { name: 'Enable: carla' }).click();
await page.getByRole('button', { name: 'Disable: carla' }).waitFor();

// An export, and a deletion that takes the name as a confirmation.
const saving = page.waitForEvent('download');
await page.getByRole('link', { name: 'Export data: carla' }).click();
assert.equal((await saving).suggestedFilename(), 'coracle-carla.tar');
await page.getByRole('button', { name: 'Delete: carla' }).click();
const deletion = dialog.getByRole('button', { name: 'Delete' });
assert.ok(await deletion.isDisabled());
await dialog.getByRole('textbox').fill('bob');
await page.keyboard.press('Enter');
assert.ok(await deletion.isDisabled());
await dialog.getByRole('textbox').fill('carla');
await deletion.click();
await page.getByRole('button', { name: 'Delete: carla' }).waitFor({ state: 'hidden' });
assert.equal((await api('/api/users/carla')).status, 404);
assert.equal((await api('/api/users/bob')).status, 200);
assert.equal(await page.getByRole('button', { name: 'Delete: ann' }).count(), 0);

// The state of the server, with charts.
await runCode(page, 'print(1)');
await page.getByRole('link', { name: 'Server', exact: true }).click();
await page.getByText('Ready', { exact: true }).waitFor();
await page.getByRole('img', { name: /^Running executions: now 0/ }).waitFor();
await page.getByText('success', { exact: true }).waitFor();

// Own usage: tokens against the limit and by day, and disk space.
await page.goto(`${base}/#/settings`);
await page.getByText('0 of 100,000 used').waitFor();
assert.equal(await page.getByRole('img', { name: /^Tokens of the last 30 days/ }).count(), 0);
await page.goto(`${base}/#/`);
await ask(page, 'Compute');
await ended(page);
const { tokens } = JSON.parse((await api('/api/me/usage')).text);
assert.ok(tokens.today > 0);
const figure = tokens.today.toLocaleString('en-US');
await page.goto(`${base}/#/settings`);
await page.getByText(`${figure} of 100,000 used`).waitFor();
await page.getByRole('img', { name: new RegExp(`^Tokens of the last 30 days\\. The most were ${figure}, on`) }).waitFor();
await page.getByText(/files and folders/).waitFor();
await page.getByRole('heading', { name: 'Usage' }).scrollIntoViewIfNeeded();
await checked(page, 'settings-usage');

// Own data: an archive of it, and its deletion.
const exporting = page.waitForEvent('download');
await page.getByRole('link', { name: 'Export my data' }).click();
assert.equal((await exporting).suggestedFilename(), 'coracle-ann.tar');
await page.getByRole('button', { name: 'Delete my data' }).click();
await dialog.getByRole('button', { name: 'Cancel' }).click();
await page.getByRole('navigation', { name: 'Conversations' }).getByRole('link', { name: /Compute/ }).waitFor();
await page.getByRole('button', { name: 'Delete my data' }).click();
await dialog.getByRole('textbox').fill('delete everything');
await dialog.getByRole('button', { name: 'Delete my data' }).click();
await page.getByText('Your conversations appear here.').waitFor();
assert.deepEqual(JSON.parse((await api('/api/conversations')).text).conversations, []);
assert.deepEqual(JSON.parse((await api('/api/artifacts')).text).artifacts, []);
await finish(/409 \(Conflict\)/, /404 \(Not Found\)/);
