// Every view in both themes and at two widths: no violations of accessibility, nothing wider than the screen.

import { ask, assert, base, checked as checkedIn, ended, finish, signedIn, takeComplaints } from './browser.mjs';

const { page } = await signedIn();
const checked = (name) => checkedIn(page, name);

await page.getByText('What shall we do?').waitFor();
await page.getByRole('button', { name: 'Use shop: Returns one order' }).waitFor();
await checked('empty');
await ask(page, 'Compute');
await page.getByRole('img', { name: 'chart.svg' }).waitFor();
await ended(page);
await checked('full');
await ask(page, 'Fail');
await page.getByText(/^The run failed\. ./).waitFor();
await checked('error');
await ask(page, 'Cancel order 1007');
await page.getByRole('button', { name: 'Allow once' }).waitFor();
await checked('approval');
await page.getByRole('button', { name: 'Refuse' }).click();
await ended(page);
await page.goto(`${base}/#/tools`);
await page.getByText('shop.list_orders').click();
await page.getByText('from servers.shop import list_orders').waitFor();
await checked('tools');
await page.goto(`${base}/#/settings`);
await page.getByText('Appearance').waitFor();
await checked('settings');
await page.getByRole('radio', { name: 'Dark' }).check();
await page.reload();
assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
await page.getByRole('radio', { name: 'System' }).check();

// By keyboard alone: the list of keys, the skip link, a message.
await page.goto(`${base}/#/`);
await page.getByText('What shall we do?').waitFor();
await page.locator('#main').focus();
await page.keyboard.press('?');
await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
await checked('keys');
await page.keyboard.press('Escape');
await page.reload();
await page.getByText('What shall we do?').waitFor();
await page.keyboard.press('Tab');
assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the conversation');
await page.keyboard.press('Enter');
assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
await page.keyboard.press('/');
await page.keyboard.type('Compute');
await page.keyboard.press('Shift+Enter');
assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'Compute\n');
await page.keyboard.press('Backspace');
await page.keyboard.press('Enter');
await ended(page);

// On a phone, the list opens over the page and closes again.
await page.setViewportSize({ width: 390, height: 844 });
await page.getByRole('button', { name: 'Show conversations' }).click();
await page.getByRole('link', { name: 'New conversation' }).click();
await page.getByText('What shall we do?').waitFor();
await page.getByRole('link', { name: 'New conversation' }).waitFor({ state: 'hidden' });

// Signing out ends the access of this browser.
assert.deepEqual(takeComplaints(), []);
await page.goto(`${base}/#/settings`);
await page.getByRole('button', { name: 'Sign out' }).click();
await page.waitForURL(/sign-in/);
await page.goto(`${base}/`);
await page.getByText('Open your sign-in link').waitFor();
const refused = takeComplaints();
assert.ok(refused.length === 1 && refused[0].includes('401'), refused.join('\n'));
await finish();
