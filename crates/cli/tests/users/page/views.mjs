// Every view in both themes and at two widths: no violations of accessibility, nothing wider than the screen.

import { readFileSync } from 'node:fs';
import { ask, assert, base, checked as checkedIn, ended, finish, runCode, signedIn, takeComplaints } from './browser.mjs';

const { page } = await signedIn();
const checked = (name) => checkedIn(page, name);

await page.getByText('What shall we do?').waitFor();
await page.getByRole('button', { name: 'Call list_orders of shop, and summarize the result.' }).waitFor();
await checked('empty');
await page.goto(`${base}/#/files/workspace`);
await page.getByText('The workspace is empty.').waitFor();
await checked('files-empty');
await page.goto(`${base}/#/`);
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
await checked('tool');
await page.getByRole('button', { name: 'Call the tool' }).click();
await page.getByText('24 of 24 rows').waitFor();
await checked('tool-answer');
await page.goto(`${base}/#/tools/shop/cancel_order`);
await page.getByRole('button', { name: 'Call the tool' }).click();
await page.getByText('A value is required.').waitFor();
await page.getByRole('textbox', { name: /^id/ }).fill('1010');
await page.getByRole('button', { name: 'Call the tool' }).click();
await page.getByRole('button', { name: 'Allow once' }).waitFor();
await checked('tool-approval');
await page.getByRole('button', { name: 'Refuse' }).click();
await page.getByText(/refused this call/).waitFor();
await page.getByRole('link', { name: 'All tools' }).click();
await page.getByRole('combobox', { name: 'Client' }).waitFor();
await checked('tools');

// Files: previews, a change, and a file that is gone.
await runCode(page, `
import os
os.makedirs('/workspace/data', exist_ok=True)
open('/workspace/data/sales.csv', 'w').write('month,region,amount\\n' + '\\n'.join(f'2026-{n % 12 + 1:02},north,{n * 37}' for n in range(400)))
open('/workspace/plan.md', 'w').write('# Plan\\n\\nRead [the sales](/workspace/data/sales.csv), then:\\n\\n- sum them\\n- draw **one** chart\\n\\n\`\`\`python\\nprint(1)\\n\`\`\`\\n')
open('/workspace/sum.py', 'w').write('# Sums the amounts.\\nimport csv\\n\\ndef total(rows):\\n    return sum(int(row["amount"]) for row in rows)\\n')
`);
await page.goto(`${base}/#/files/workspace`);
await page.getByRole('button', { name: 'data', exact: true }).click();
await page.getByRole('link', { name: /sales\.csv/ }).click();
await page.getByText('200 of 400 rows').waitFor();
await checked('files-table');
await page.goto(`${base}/#/files/workspace/plan.md`);
await page.getByRole('heading', { name: 'Plan', exact: true }).waitFor();
await checked('files-markdown');
await runCode(page, readFileSync(new URL('samples.py', import.meta.url), 'utf8'));
for (const [name, shown] of [
  ['page.html', () => page.frameLocator('iframe').getByRole('heading', { name: 'Quarterly report' })],
  ['sales.xlsx', () => page.getByText('200 of 301 rows')],
  ['report.docx', () => page.getByRole('heading', { name: 'A report' })],
  ['damaged.xlsx', () => page.getByText('The file cannot be read.')],
  ['paper.pdf', () => page.getByRole('document').getByText('The first page')],
]) {
  await page.goto(`${base}/#/files/workspace/${encodeURIComponent(`samples/${name}`)}`);
  await shown().waitFor();
  await checked(`files-${name}`);
}
await page.goto(`${base}/#/files/workspace/sum.py`);
await page.getByRole('button', { name: 'Edit' }).click();
await page.getByRole('textbox', { name: 'Content of sum.py' }).waitFor();
await checked('files-edit');
await page.goto(`${base}/#/files/workspace/gone.txt`);
await page.getByText('This file does not exist any more.').waitFor();
await checked('files-gone');
await page.goto(`${base}/#/files`);
await page.getByRole('region', { name: 'List of files' }).getByRole('link', { name: /chart\.svg/ }).waitFor();
await checked('files');

// Runs and sessions.
await page.goto(`${base}/#/activity/sessions`);
await page.getByText('No sessions yet.').waitFor();
await checked('sessions-empty');
await runCode(page, "from servers.shop import list_orders\nx = len(list_orders()['orders'])\nresult = x", { session: 'analysis' });
await page.goto(`${base}/#/activity`);
await page.getByText('Result').first().click();
await page.getByText('1 execution').waitFor();
await checked('runs');
await page.getByRole('link', { name: 'Sessions' }).click();
await page.getByRole('link', { name: /analysis/ }).waitFor();
await checked('sessions');
await page.getByRole('link', { name: /analysis/ }).click();
await page.getByText('shop.list_orders').first().waitFor();
await checked('session');
await page.goto(`${base}/#/settings`);
await page.getByText('Appearance').waitFor();
await page.getByText(/files and folders/).waitFor();
await checked('settings');
await page.getByRole('button', { name: 'Delete my data' }).click();
await page.getByRole('dialog', { name: 'Delete all your data?' }).waitFor();
await checked('settings-delete');
await page.keyboard.press('Escape');
await page.goto(`${base}/#/admin`);
await page.getByText('coracle users add NAME --admin').waitFor();
await checked('admin-local');
await page.getByRole('link', { name: 'Server', exact: true }).click();
await page.getByText('success', { exact: true }).waitFor();
await checked('admin-server');
await page.goto(`${base}/#/settings`);
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
const provoked = /403 \(Forbidden\)|^Applying inline style violates/;
assert.deepEqual(takeComplaints().filter((complaint) => !provoked.test(complaint)), []);
await page.goto(`${base}/#/settings`);
await page.getByRole('button', { name: 'Sign out' }).click();
await page.waitForURL(/sign-in/);
await page.goto(`${base}/`);
await page.getByText('Open your sign-in link').waitFor();
const refused = takeComplaints();
assert.ok(refused.length === 1 && refused[0].includes('401'), refused.join('\n'));
await finish();
