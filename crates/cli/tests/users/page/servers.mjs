// Adding and removing MCP servers by whoever started a server without users, by keyboard.

import { fileURLToPath } from 'node:url';
import { assert, base, checked, finish, runCode, signedIn } from './browser.mjs';

const SECRET = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz';
const { page } = await signedIn();
const server = (name) => page.getByRole('main').getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) });
const dialog = page.getByRole('dialog', { name: 'Add a server' });
const field = (name) => dialog.getByLabel(name, { exact: true });
const focused = (locator) => locator.evaluate((element) => element === document.activeElement);
const program = fileURLToPath(new URL('odd-server.mjs', import.meta.url));

await page.goto(`${base}/#/tools`);
await page.getByRole('button', { name: 'Add a server' }).focus();
await page.keyboard.press('Enter');
assert.ok(await focused(field('Name')));
await page.keyboard.type('odd-tools');
await dialog.getByText('from servers.odd_tools import').waitFor();
await checked(page, 'server-add-url');

// A command, with an argument in quotes, and a credential that is never shown again.
await field('URL').focus();
await page.keyboard.press('ArrowDown');
assert.ok(await focused(field('Command')));
await page.keyboard.press('Tab');
await page.keyboard.type(`node "${program}`);
await page.keyboard.press('Tab');
await page.keyboard.press('Enter');
assert.ok(await focused(field('Variable 1')));
await page.keyboard.type('SECRET_TOKEN');
await page.keyboard.press('Tab');
await page.keyboard.type(SECRET);
await dialog.getByText('More options').click();
await field('Description (optional)').fill('Odd <b>tools</b>');
await checked(page, 'server-add-command');
await field('Value 1').press('Enter');
await dialog.getByRole('alert').getByText('A quote in the command is not closed.').waitFor();
await field('Command with its arguments').press('End');
await page.keyboard.type('"');
await page.keyboard.press('Enter');
await dialog.waitFor({ state: 'hidden' });
assert.ok(await focused(page.getByRole('button', { name: 'Add a server' })));

// It is checked at once, its tools are listed, and code calls them.
await server('odd-tools').getByText(/Works: \d+ tools in/).waitFor();
await page.getByRole('link', { name: /odd-tools\.fill/ }).waitFor();
assert.equal(await page.getByText(SECRET).count(), 0);
const listed = await page.evaluate(() => fetch('/api/servers').then((answer) => answer.text()));
assert.ok(listed.includes('odd-tools') && !listed.includes(SECRET), listed);
await runCode(page, "from servers.odd_tools import fill\nresult = fill(text='hello')");
await checked(page, 'server-added');

// A name that is in use is refused, and what was typed stays.
await page.getByRole('button', { name: 'Add a server' }).click();
assert.equal(await field('Name').inputValue(), '');
await field('Name').fill('odd-tools');
await field('URL of the server').fill('http://127.0.0.1:9/mcp');
await page.keyboard.press('Enter');
await dialog.getByRole('alert').getByText('there is already a server odd-tools').waitFor();
await page.keyboard.press('Escape');
await page.getByRole('button', { name: 'Add a server' }).click();
assert.equal(await field('URL of the server').inputValue(), 'http://127.0.0.1:9/mcp');

// A server that does not answer is added all the same, and says what is wrong.
await field('Name').fill('away');
await dialog.getByRole('button', { name: 'Add a header' }).click();
await field('Header 1').fill('Authorization');
await field('Value 1').fill(`Bearer ${SECRET}`);
await page.keyboard.press('Enter');
await server('away').getByText('Failed').waitFor();
await server('away').locator('.bad').first().waitFor();
await checked(page, 'server-failed');

// Removing takes a confirmation; the tools are gone, and the focus is kept.
await page.getByRole('button', { name: 'Remove odd-tools' }).focus();
await page.keyboard.press('Enter');
const removal = page.getByRole('dialog', { name: 'Remove odd-tools?' });
await removal.getByRole('button', { name: 'Cancel' }).click();
await server('odd-tools').waitFor();
await page.getByRole('button', { name: 'Remove odd-tools' }).press('Enter');
await checked(page, 'server-remove');
await removal.getByRole('button', { name: 'Remove' }).press('Enter');
await server('odd-tools').waitFor({ state: 'detached' });
await page.getByRole('link', { name: /odd-tools\.fill/ }).waitFor({ state: 'detached' });
assert.ok(await focused(page.getByRole('heading', { name: 'Servers' })));
await server('shop').waitFor();
await finish(/409 \(Conflict\)/);
