// The first minute without a model: a key can be entered, and a wrong one is not kept.

import { ask, assert, base, checked, ended, finish, opened, link, watched, takeComplaints } from './browser.mjs';

const { browser, context, page } = await opened();
await page.goto(link);
await page.getByRole('button', { name: 'Sign in' }).click();
await page.getByRole('heading', { name: 'No model is configured' }).waitFor();
const key = page.getByLabel('API key', { exact: true });
await page.getByRole('combobox', { name: 'Provider' }).selectOption('lab');
await checked(page, 'no-model');
assert.equal(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
const stored = [];
page.on('request', (request) => {
  if (request.method() === 'PUT') stored.push(request.url());
});
await key.fill('wrong');
await page.keyboard.press('Enter');
await page.getByText(/^lab lists no models with this key.*401/).waitFor();
const providers = () => page.evaluate(() => fetch('/api/providers').then((answer) => answer.json()));
const lab = async () => (await providers()).providers.find((one) => one.name === 'lab');
assert.deepEqual(await lab(), { name: 'lab', usable: true, personal_key: false });
assert.deepEqual(stored, [], 'a wrong key was stored, if only for a moment');

await key.fill('the-right-key');
await page.keyboard.press('Enter');
await page.getByText('What shall we do?').waitFor();
assert.equal(stored.length, 1, 'the control');
assert.deepEqual(await lab(), { name: 'lab', usable: true, personal_key: true });
await ask(page, '[script:echo] it works');
await page.locator('.answer', { hasText: 'it works' }).waitFor();
await ended(page);

// The agent answers only to this browser and to programs with the key of the server.
const stranger = await watched(await browser.newContext());
await stranger.goto(`${base}/`);
await stranger.getByText('Open your sign-in link').waitFor();
assert.match(takeComplaints().join(), /401/);

// The key is removed in the settings.
await page.goto(`${base}/#/settings`);
await page.getByText('Uses your key').waitFor();
// Another key is tried before it takes the place of the stored one.
const other = page.getByLabel('Your key for lab', { exact: true });
const tryIt = page.getByRole('button', { name: 'Try key for lab without saving it' });
assert.equal(await tryIt.isDisabled(), true);
await other.fill('wrong');
await tryIt.click();
await page.getByText(/^The key for lab does not work: .*401/).waitFor();
await other.fill('the-right-key');
await page.getByText(/^The key for lab does not work/).waitFor({ state: 'detached' });
await tryIt.click();
await page.getByText(/^lab (lists|accepts) .*this key/).waitFor();
assert.equal(stored.length, 1, 'trying a key stores it');
await checked(page, 'key-tried');
await page.getByRole('button', { name: 'Remove key' }).click();
await page.getByText('Uses your key').waitFor({ state: 'detached' });
await page.goto(`${base}/#/`);
await page.getByRole('heading', { name: 'No model is configured' }).waitFor();
await context.close();
await finish();
