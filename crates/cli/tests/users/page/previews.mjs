// Previews of pages, PDF files, spreadsheets and documents.

import { readFileSync } from 'node:fs';
import { assert, base, finish, runCode, signedIn } from './browser.mjs';

const samples = readFileSync(new URL('samples.py', import.meta.url), 'utf8');
const { context, page } = await signedIn();
const panel = page.getByRole('region', { name: 'File', exact: true });
const open = (name) => page.goto(`${base}/#/files/workspace/${encodeURIComponent(`samples/${name}`)}`);
await runCode(page, samples);

// A page looks as it was meant to, and its source can be seen and changed.
await open('page.html');
const frame = panel.frameLocator('iframe');
await frame.getByRole('heading', { name: 'Quarterly report' }).waitFor();
const look = await panel.locator('iframe').evaluate((element) => {
  const { contentDocument: document, contentWindow: window } = element;
  const style = (name) => window.getComputedStyle(document.querySelector(name));
  return { mode: document.compatMode, color: style('h1').color, padding: style('#styled').padding, scroll: document.scrollingElement.scrollTop };
});
assert.deepEqual(look, { mode: 'CSS1Compat', color: 'rgb(0, 128, 128)', padding: '7px', scroll: 0 });
assert.equal(await frame.getByAltText('A dot').evaluate((image) => image.naturalWidth), 1);
await frame.getByRole('link', { name: 'the end' }).press('Enter');
await page.waitForFunction(() => document.querySelector('iframe').contentDocument.scrollingElement.scrollTop > 1000);
assert.equal(await frame.getByText('a site').getAttribute('href'), null);
assert.equal(await frame.getByText('a site').getAttribute('title'), 'https://example.org/');
await panel.getByRole('button', { name: 'Source' }).click();
await panel.getByText('<h1>Quarterly report</h1>').waitFor();
await panel.getByRole('button', { name: 'Preview' }).click();
await frame.getByRole('heading', { name: 'Quarterly report' }).waitFor();

// Spreadsheets have a table for each sheet that is not hidden.
await open('sales.xlsx');
await panel.getByText('Converted in the sandbox', { exact: false }).waitFor();
await panel.getByText('200 of 301 rows').waitFor();
const cells = (row) => panel.getByRole('row').nth(row).getByRole('cell').allTextContents();
assert.deepEqual(await panel.getByRole('columnheader').allTextContents(), ['Row', 'A', 'B', 'C', 'D']);
assert.deepEqual(await cells(1), ['1', 'Region', '', 'Amount', 'When']);
assert.deepEqual(await cells(2), ['2', 'North', '', '3', '2025-12-11']);
const hostile = '<img src=x onerror=alert(1)>';
assert.equal(await panel.getByRole('button', { name: 'Secret' }).count(), 0);
await panel.getByRole('button', { name: hostile }).click();
await panel.getByText('1 of 1 rows').waitFor();
assert.deepEqual(await cells(1), ['7', '', hostile]);
await open('plan.ods');
await panel.getByRole('cell', { name: 'far below' }).waitFor();
assert.deepEqual(await cells(1), ['1', 'same', 'same']);
assert.deepEqual(await cells(2), ['1000002', 'far below', '']);

// Documents have their headings, lists and tables.
await open('report.docx');
await panel.getByRole('heading', { name: 'A report', level: 3 }).waitFor();
await panel.getByText(`It has ${hostile}`).waitFor();
assert.deepEqual(await panel.getByRole('listitem').allTextContents(), ['first', 'second']);
assert.deepEqual(await cells(1), ['Cardigan', '12']);
await open('talk.pptx');
await panel.getByRole('heading', { name: 'Slide 2' }).waitFor();
const words = await panel.locator('.document').innerText();
assert.match(words, /Slide 1: Plans\s+Below the title\s+Slide 2\s+The last words/);
await open('letter.odt');
await panel.getByRole('heading', { name: 'A letter' }).waitFor();
assert.equal(await panel.getByText('Dear').textContent(), 'Dear  reader');

// Files that are damaged, too large, or need what the sandbox does not have.
for (const [name, said] of [
  ['damaged.xlsx', 'The file cannot be read. It may be damaged'],
  ['entities.xlsx', 'the file declares a document type'],
  ['large.xlsx', 'This file is too long. Only the beginning is shown.'],
  ['data.parquet', /coracle env add pyarrow|The file cannot be read/],
  ['damaged.pdf', 'The file cannot be read. It may be damaged.'],
]) {
  await open(name);
  await panel.getByText(said).waitFor();
}

// The conversion can be cancelled, and started again.
let release;
const held = new Promise((done) => (release = done));
await page.route('**/api/executions?*', async (route) => {
  await held;
  await route.continue().catch(() => {});
});
await open('sales.xlsx');
await panel.getByRole('progressbar', { name: 'Converting the file in the sandbox' }).waitFor();
const failed = page.waitForEvent('requestfailed', (request) => request.url().includes('/api/executions?'));
await panel.getByRole('button', { name: 'Cancel' }).press('Enter');
await failed;
await panel.getByText('The conversion was cancelled.').waitFor();
release();
await page.unroute('**/api/executions?*');
// The focus is still on the button.
assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Convert again');
await page.keyboard.press('Enter');
await panel.getByText('200 of 301 rows').waitFor();

// Modules in the workspace are not used for it.
await runCode(page, `open('/workspace/pyarrow.py', 'w').write("open('/workspace/harmed', 'w')")`);
await open('data.parquet');
await panel.getByText(/coracle env add pyarrow|The file cannot be read/).waitFor();
await runCode(page, "import os\nassert not os.path.exists('/workspace/harmed')\nos.remove('/workspace/pyarrow.py')");

// Artifacts are sent to the sandbox, which does not have them any more.
await runCode(page, `
import shutil
for name in ('sales.xlsx', 'paper.pdf'):
    shutil.copy('/workspace/samples/' + name, '/artifacts/' + name)
with open('/artifacts/huge.docx', 'wb') as file:
    file.truncate(4_000_000)
`);
await page.goto(`${base}/#/files/artifacts/sales.xlsx`);
await panel.getByText('200 of 301 rows').waitFor();
await page.goto(`${base}/#/files/artifacts/huge.docx`);
await panel.getByRole('alert').getByText('cannot see this artifact any more').waitFor();
const all = page.getByRole('region', { name: 'List of files' }).getByRole('link', { name: 'Download all' });
assert.equal(await all.getAttribute('href'), '/api/artifacts/archive');

// PDF files: one page at a time, by keyboard too, with text that can be found and selected.
await open('paper.pdf');
const sheet = panel.getByRole('document');
await sheet.getByText('The first page').waitFor();
assert.equal(await panel.getByRole('button', { name: 'Previous page' }).isDisabled(), true);
/** Whether the canvas has the rectangle of the page. */
const isDrawn = () =>
  panel.locator('canvas').evaluate((canvas) => {
    const [x, y] = [(172 / 612) * canvas.width, ((792 - 550) / 792) * canvas.height];
    return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
  });
assert.deepEqual(await isDrawn(), [26, 128, 128, 255]);
// The text is above its picture.
const left = await sheet.getByText('The first page').evaluate((span) => {
  const picture = document.querySelector('canvas').getBoundingClientRect();
  return (span.getBoundingClientRect().left - picture.left) / picture.width;
});
assert.ok(Math.abs(left - 72 / 612) < 0.01, String(left));
await sheet.press('ArrowRight');
await sheet.getByText('The second page').waitFor();
await sheet.press('ArrowLeft');
await sheet.getByText('The first page').waitFor();
// At the end of a page, Page Down leads to the next one.
await sheet.evaluate((pane) => pane.scrollTo(0, pane.scrollHeight));
await sheet.press('PageDown');
await sheet.getByText('The second page').waitFor();
await panel.getByRole('button', { name: 'Next page' }).press('Enter');
await sheet.getByText('The last page').waitFor();
assert.equal(await panel.getByRole('button', { name: 'Next page' }).isDisabled(), true);
await panel.getByRole('spinbutton', { name: 'Page' }).fill('2');
await page.keyboard.press('Enter');
await sheet.getByText('The second page').waitFor();
const width = () => panel.locator('canvas').evaluate((canvas) => canvas.clientWidth);
const narrow = await width();
await panel.getByRole('button', { name: 'Zoom in' }).press('Enter');
await panel.getByText('125%').waitFor();
await page.waitForFunction((before) => document.querySelector('canvas').clientWidth > before * 1.2, narrow);
await sheet.press('Home');
await sheet.getByText('The first page').waitFor();
// The links of the file cover the pages, and lead nowhere.
await sheet.getByText('The first page').click();
assert.equal(await panel.locator('canvas ~ * a, canvas ~ * [href]').count(), 0);
assert.equal(context.pages().length, 1);
assert.match(page.url(), /paper\.pdf$/);
assert.equal(page.workers().length, 1);
const ended = page.workers()[0].waitForEvent('close');
await open('page.html');
await ended;

// A browser whose parser refuses the page says so, and shows its source.
await page.addInitScript(() => {
  Document.parseHTML = () => {
    throw new TypeError('refused');
  };
});
await page.reload();
await panel.getByRole('alert').getByText('This page cannot be previewed.').waitFor();
assert.equal(await panel.locator('iframe').isVisible(), false);
await panel.getByRole('button', { name: 'Source' }).click();
await panel.getByText('<h1>Quarterly report</h1>').waitFor();

// What was run for previews is not listed.
const executions = await page.evaluate(() => fetch('/api/executions?limit=100').then((answer) => answer.json()));
assert.ok(executions.length > 0);
assert.deepEqual(executions.filter((one) => one.code.includes('for its preview')), []);

// A browser that cannot parse pages without what they run shows their source, and says so.
await page.addInitScript(() => delete window.Sanitizer);
await page.reload();
await panel.getByText('This browser can only show the source of pages.', { exact: false }).waitFor();
await panel.getByText('<h1>Quarterly report</h1>').waitFor();
assert.equal(await panel.locator('iframe').count(), 0);

// The browser says which styles of pages it does not apply itself, and that the driver cannot listen in their frames.
await finish(/^Applying inline style violates/, /^Blocked script execution in 'about:srcdoc'/);
