// Files that are added to a message: chosen, dropped and pasted.

import { ask, assert, base, checked, ended, finish, openGate, signedIn, takeComplaints, texts } from './browser.mjs';

const { page } = await signedIn();
const message = page.getByRole('textbox', { name: 'Message', exact: true });
const form = page.locator('form', { has: message });
const chips = form.getByRole('list', { name: 'Files' }).getByRole('listitem');
const uploaded = () => page.evaluate(() => fetch('/v1/files').then((answer) => answer.json()).then(({ data }) => data.map((file) => file.filename).sort()));
const image = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==', 'base64');

async function choose(files) {
  const choosing = page.waitForEvent('filechooser');
  await form.getByRole('button', { name: 'Add files' }).click();
  await (await choosing).setFiles(files);
}

/** Drops or pastes files that are made in the page. */
const bring = (event, files) =>
  message.evaluate(
    (area, { event, files }) => {
      const data = new DataTransfer();
      for (const { name, text, type } of files) data.items.add(new File([text], name, { type }));
      const options = { bubbles: true, cancelable: true };
      area.dispatchEvent(
        event === 'paste'
          ? new ClipboardEvent('paste', { ...options, clipboardData: data })
          : new DragEvent(event, { ...options, dataTransfer: data }),
      );
    },
    { event, files },
  );

// Three ways to add a file. Each can be removed, and is then deleted.
await choose({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('the tide is high') });
await chips.filter({ hasText: 'notes.txt' }).getByText('16 B').waitFor();
await bring('dragenter', [{ name: 'table.csv', text: 'a,b', type: 'text/csv' }]);
await page.getByText('Drop files to add them to your message').waitFor();
await bring('drop', [{ name: 'table.csv', text: 'a,b', type: 'text/csv' }]);
await chips.filter({ hasText: 'table.csv' }).getByText('3 B').waitFor();
await page.getByText('Drop files to add them to your message').waitFor({ state: 'detached' });
await bring('paste', [{ name: '<img src=x onerror=alert(1)>.txt', text: 'x', type: 'text/plain' }]);
await chips.filter({ hasText: 'onerror' }).getByText('1 B').waitFor();
assert.deepEqual(await uploaded(), ['<img src=x onerror=alert(1)>.txt', 'notes.txt', 'table.csv']);
await chips.filter({ hasText: 'onerror' }).getByRole('button', { name: /^Remove/ }).press('Enter');
await chips.filter({ hasText: 'onerror' }).waitFor({ state: 'detached' });
await page.waitForFunction(() => fetch('/v1/files').then((answer) => answer.json()).then(({ data }) => data.length === 2));

// They are kept with the draft.
await message.fill('[script:reads] What do my files say?');
await page.reload();
await chips.filter({ hasText: 'notes.txt' }).waitFor();
await choose({ name: 'dot.png', mimeType: 'image/png', buffer: image });
const dot = chips.filter({ hasText: 'dot.png' });
await dot.getByRole('button', { name: 'Show dot.png to the model', pressed: true }).waitFor();
await checked(page, 'uploads');

// A file that is too large says so, and stops the message until it is removed.
await page.route('**/v1/files', (route) => route.fulfill({ status: 413, json: { error: { message: 'the file is too large: at most 5 bytes are allowed', code: 'too_large' } } }), { times: 1 });
await choose({ name: 'huge.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(9) });
await form.getByRole('alert').getByText('huge.bin: the file is too large').waitFor();
await message.press('Enter');
assert.equal(await page.locator('.user').count(), 0);
await checked(page, 'upload-failed');
assert.ok(takeComplaints().every((complaint) => complaint.includes('413')));
await chips.filter({ hasText: 'huge.bin' }).getByRole('button', { name: 'Try to upload huge.bin again' }).click();
await chips.filter({ hasText: 'huge.bin' }).getByText('9 B').waitFor();
await chips.filter({ hasText: 'huge.bin' }).getByRole('button', { name: /^Remove/ }).click();

// The message refers to the files, and code reads them.
await message.press('Enter');
await page.getByText('the tide is high').first().waitFor();
await ended(page);
assert.equal(await chips.count(), 0);
const sent = page.locator('.user');
for (let turn = 0; turn < 2; turn += 1) {
  await sent.getByText('notes.txt').waitFor();
  await sent.getByText('table.csv').waitFor();
  await sent.getByRole('img', { name: 'Image in the message' }).waitFor();
  assert.deepEqual(await texts(sent.locator('p')), ['[script:reads] What do my files say?']);
  if (turn === 0) await page.reload();
}
assert.equal(await chips.count(), 0);
await checked(page, 'uploads-sent');

// A message with files can be sent to the run.
await page.goto(`${base}/#/`);
await page.getByText('What shall we do?').waitFor();
await ask(page, 'Work in steps');
await page.getByText('I begin.').waitFor();
await choose([
  { name: 'early.txt', mimeType: 'text/plain', buffer: Buffer.from('early') },
  { name: 'dot.png', mimeType: 'image/png', buffer: image },
]);
await chips.filter({ hasText: 'early.txt' }).getByText('5 B').waitFor();
await dot.getByRole('button', { name: 'Show dot.png to the model', pressed: true }).waitFor();
await message.fill('Read it');
await message.press('Control+Enter');
const waiting = page.locator('.user.waiting');
await waiting.getByText('early.txt').waitFor();
await waiting.getByText('The agent reads this at its next step.').waitFor();
assert.equal(await chips.count(), 0);
await checked(page, 'steer-files');
await openGate('steps');
await page.locator('.answer', { hasText: 'I have heard: Read it' }).waitFor();
await ended(page);
for (let turn = 0; turn < 2; turn += 1) {
  await sent.nth(1).getByText('early.txt').waitFor();
  await sent.nth(1).getByRole('img', { name: 'Image in the message' }).waitFor();
  assert.equal(await waiting.count(), 0);
  assert.equal(await sent.count(), 2);
  assert.deepEqual(await texts(sent.nth(1).locator('p')), ['Read it']);
  if (turn === 0) await page.reload();
}

// It can also be queued.
await page.goto(`${base}/#/`);
await page.getByText('What shall we do?').waitFor();
await ask(page, 'Wait for the gate');
await page.getByText('I wait.').waitFor();
await choose({ name: 'late.txt', mimeType: 'text/plain', buffer: Buffer.from('late') });
await chips.filter({ hasText: 'late.txt' }).getByText('4 B').waitFor();
await message.fill('[script:reads] later');
await message.press('Enter');
const queue = page.getByRole('region', { name: 'Queue' });
await queue.getByText('late.txt').waitFor();
await openGate('afar');
await sent.getByText('late.txt').waitFor();
await page.locator('.answer', { hasText: 'the tide is high' }).waitFor();
await ended(page);
await finish();
