// What admins of a server with users can change for everybody, and what others see of it.

import { assert, base, checked, finish, signIn, signedIn, watched } from './browser.mjs';

const { browser, page } = await signedIn();
const server = (who, name) => who.getByRole('main').getByRole('listitem').filter({ has: who.getByText(name, { exact: true }) });
const { sign_in_link: url } = await page.evaluate(async () => {
  const headers = { 'content-type': 'application/json', 'x-coracle-csrf': '1' };
  return (await fetch('/api/users/bob/link', { method: 'POST', headers, body: '{}' })).json();
});
const context = await browser.newContext();
context.setDefaultTimeout(120_000);
const other = await watched(context);
await signIn(other, `${base}${new URL(url).pathname}`);

// Servers that start a command have to be allowed in the settings. The form says so, with the name of the setting.
await page.goto(`${base}/#/tools`);
await page.getByRole('button', { name: 'Add a server' }).click();
const dialog = page.getByRole('dialog', { name: 'Add a server' });
assert.ok(await dialog.getByRole('radio', { name: 'Command' }).isDisabled());
await dialog.getByText('Set server.allow_command_servers to true').waitFor();
await checked(page, 'server-add-refused');
await dialog.getByLabel('Name', { exact: true }).fill('away');
await dialog.getByLabel('URL of the server').fill('http://127.0.0.1:9/${HOME}');
await page.keyboard.press('Enter');
await dialog.getByRole('alert').getByText('server.allow_command_servers').waitFor();
await dialog.getByLabel('URL of the server').fill('http://127.0.0.1:9/mcp');
await page.keyboard.press('Enter');
await server(page, 'away').getByText('Failed').waitFor();

// Others see the new server, but can neither add nor remove any.
await other.goto(`${base}/#/tools`);
await server(other, 'away').waitFor();
for (const name of ['Add a server', 'Remove away', 'Remove shop']) {
  assert.equal(await other.getByRole('button', { name }).count(), 0, name);
}
await page.getByRole('button', { name: 'Remove away' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
await server(page, 'away').waitFor({ state: 'detached' });
await other.reload();
await server(other, 'shop').waitFor();
assert.equal(await server(other, 'away').count(), 0);

// The policy for everyone: tightened by a click, loosened with a confirmation that Enter alone does not give.
const everyone = page.getByRole('group', { name: 'For everyone' });
const isRule = (name) => everyone.getByRole('button', { name, exact: true, pressed: true }).waitFor();
const choose = (name) => everyone.getByRole('button', { name, exact: true }).click();
const decision = (who, text) => who.getByText(text).waitFor();
const allowed = 'Allowed: code calls this tool without asking.';
const asks = 'Needs approval: each call waits until you approve it.';
const denied = 'Denied: calls of this tool fail, and nobody can approve them.';
await page.goto(`${base}/#/tools/shop/list_orders`);
await isRule('No rule');
await choose('Deny');
await isRule('Deny');
await decision(page, denied);
await other.goto(`${base}/#/tools/shop/list_orders`);
await decision(other, denied);
assert.equal(await other.getByRole('group', { name: 'For everyone' }).count(), 0);
await other.getByRole('button', { name: 'Call the tool' }).click();
await other.getByText(/denied/).last().waitFor();
await checked(page, 'policy-everyone');
await choose('Ask each time');
const loosening = page.getByRole('dialog', { name: 'Let users approve shop.list_orders?' });
await loosening.getByRole('button', { name: 'Change for everyone' }).focus();
await page.keyboard.press('Enter');
await loosening.getByText('Enter alone never approves').waitFor();
await checked(page, 'policy-loosen');
await page.keyboard.press('Space');
await isRule('Ask each time');
await decision(page, asks);

// A question of another user is answered by the new policy.
await other.reload();
await decision(other, asks);
await other.getByRole('button', { name: 'Call the tool' }).click();
await other.getByRole('main').getByRole('region', { name: 'Allow shop · list_orders?' }).waitFor();
await choose('Allow');
await page.getByRole('dialog', { name: 'Allow shop.list_orders for everyone?' }).getByRole('button', { name: 'Change for everyone' }).click();
await isRule('Allow');
await other.getByText('24 of 24 rows').waitFor();
await choose('No rule');
await isRule('No rule');
await decision(page, allowed);
await context.close();
// A question that is withdrawn cannot be looked at any more.
await finish(/403 \(Forbidden\)/, /404 \(Not Found\) \(.*\/api\/approvals\//);
