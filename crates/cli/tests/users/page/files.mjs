// Files: artifacts with their versions, and the workspace with uploads, changes and previews.

import { ask, assert, base, checked, ended, finish, runCode, signedIn } from './browser.mjs';

const { page } = await signedIn();
const list = page.getByRole('region', { name: 'List of files' });
const panel = page.getByRole('region', { name: 'File', exact: true });
const confirm = (title) => page.getByRole('dialog', { name: title });

// Artifacts of two executions: versions are chosen, downloaded and deleted.
await runCode(page, `open('/artifacts/report.md', 'w').write('# First\\n\\n**bold**')`);
await runCode(page, `open('/artifacts/report.md', 'w').write('# Second\\n\\n[data](sandbox:/workspace/data/sales.csv)')`);
await runCode(page, `
import os
os.makedirs('/workspace/data/deep', exist_ok=True)
open('/workspace/data/sales.csv', 'w').write('name,amount\\n' + '\\n'.join(f'"row, {n}",{n}' for n in range(500)))
open('/workspace/data/deep/orders.json', 'w').write('[{"id": 1, "tags": ["a"]}, {"id": 2, "open": true}]')
open('/workspace/data/notes.txt', 'w', newline='').write('one\\r\\ntwo\\r\\n')
open('/workspace/data/blob.bin', 'wb').write(bytes(range(256)))
open('/workspace/data/page.html', 'w').write('<style>h1 { color: teal }</style><h1>A page</h1>')
open('/workspace/data/chart.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40"><rect width="60" height="40" fill="teal"/></svg>')
`);
await page.goto(`${base}/#/files`);
await list.getByRole('link', { name: /report\.md/ }).click();
await panel.getByRole('heading', { name: 'Second' }).waitFor();
await panel.getByRole('combobox', { name: 'Version' }).selectOption('1');
await panel.getByText('bold', { exact: true }).waitFor();
assert.equal(await panel.locator('strong').count(), 1);
const saving = page.waitForEvent('download');
await panel.getByRole('link', { name: 'Download' }).click();
assert.equal((await saving).suggestedFilename(), 'report.md');
await panel.getByRole('button', { name: 'Source' }).click();
await panel.getByText('**bold**').waitFor();
await panel.getByRole('button', { name: 'Delete version 1' }).click();
await confirm('Delete version 1 of report.md?').getByRole('button', { name: 'Delete' }).click();
await panel.getByRole('button', { name: 'Delete version 1' }).waitFor({ state: 'hidden' });
await panel.getByText('sandbox:/workspace').waitFor();

// A link that names a path of the sandbox opens the file in the tree.
await panel.getByRole('button', { name: 'Preview' }).click();
await panel.getByRole('link', { name: 'data' }).click();
await panel.getByText('200 of 500 rows').waitFor();
assert.equal(await panel.getByRole('cell', { name: 'row, 7', exact: true }).count(), 1);
assert.equal(await panel.getByRole('row').count(), 201);
await list.getByRole('button', { name: 'deep', exact: true }).click();
await list.getByRole('link', { name: /orders\.json/ }).click();
await panel.getByRole('columnheader', { name: 'tags' }).waitFor();
await panel.getByRole('cell', { name: '["a"]' }).waitFor();
await list.getByRole('link', { name: /blob\.bin/ }).click();
await panel.getByText('This kind of file has no preview.').waitFor();
await list.getByRole('link', { name: /chart\.svg/ }).click();
await panel.getByRole('img', { name: 'chart.svg' }).evaluate((image) => image.decode());
await list.getByRole('link', { name: /page\.html/ }).click();
await panel.frameLocator('iframe').getByRole('heading', { name: 'A page' }).waitFor();
await panel.getByRole('button', { name: 'Source' }).click();
await panel.getByText('<h1>A page</h1>').waitFor();

// Editing asks before changes are lost, keeps line ends, and notices changes of others.
await list.getByRole('link', { name: /notes\.txt/ }).click();
await panel.getByRole('button', { name: 'Edit' }).click();
const editor = panel.getByRole('textbox', { name: 'Content of notes.txt' });
await editor.fill('one\ntwo\nthree\n');
await page.getByRole('link', { name: 'Tools' }).click();
await confirm('Discard your changes?').getByRole('button', { name: 'Cancel' }).click();
assert.equal(await editor.inputValue(), 'one\ntwo\nthree\n');
assert.match(page.url(), /notes\.txt$/);
await editor.press('Control+s');
await panel.getByText('three').waitFor();
const bytes = (path) =>
  page.evaluate((path) => fetch(`/api/workspace/file?path=${encodeURIComponent(path)}`).then((answer) => answer.text()), path);
assert.equal(await bytes('data/notes.txt'), 'one\r\ntwo\r\nthree\r\n');
await panel.getByRole('button', { name: 'Edit' }).click();
await editor.fill('mine\n');
await runCode(page, `open('/workspace/data/notes.txt', 'w').write('theirs, and longer')`);
await panel.getByRole('button', { name: 'Save' }).click();
const conflict = confirm('notes.txt has changed');
await conflict.getByText('or overwrite it with them').waitFor();
await checked(page, 'files-conflict');
await conflict.getByRole('button', { name: 'Keep editing' }).click();
assert.ok(await editor.evaluate((field) => field === document.activeElement && field.value === 'mine\n'));
assert.equal(await bytes('data/notes.txt'), 'theirs, and longer');
await editor.press('Control+s');
await conflict.getByRole('button', { name: 'Overwrite' }).click();
await panel.getByText('mine').waitFor();
assert.equal(await bytes('data/notes.txt'), 'mine\r\n');
await panel.getByRole('button', { name: 'Edit' }).click();
await editor.fill('given up');
await runCode(page, `open('/workspace/data/notes.txt', 'w', newline='').write('newest\\r\\n')`);
await panel.getByRole('button', { name: 'Save' }).click();
await conflict.getByRole('button', { name: 'Reload' }).click();
await panel.getByText('newest').waitFor();
assert.equal(await editor.count(), 0);
assert.equal(await bytes('data/notes.txt'), 'newest\r\n');
await panel.getByRole('button', { name: 'Edit' }).click();
await editor.fill('lost');
await page.getByRole('link', { name: 'Tools' }).click();
await confirm('Discard your changes?').getByRole('button', { name: 'Discard changes' }).click();
await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
assert.equal(await bytes('data/notes.txt'), 'newest\r\n');

// Uploads by button and by dropping; existing files are replaced only after a question.
await page.goto(`${base}/#/files/workspace`);
const file = (name, content) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(content) });
await page.locator('input[type=file]').setInputFiles([file('a.txt', 'first'), file('b.txt', 'second')]);
await list.getByText('2 files uploaded.').waitFor();
await page.locator('input[type=file]').setInputFiles([file('a.txt', 'replaced'), file('c.txt', 'third')]);
await confirm('Replace existing files?').getByText('a.txt exists already.').waitFor();
assert.equal(await bytes('a.txt'), 'first');
await confirm('Replace existing files?').getByRole('button', { name: 'Replace' }).click();
await confirm('Replace existing files?').waitFor({ state: 'hidden' });
assert.equal(await bytes('a.txt'), 'replaced');
const dropped = await page.evaluateHandle(() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(['dropped'], 'dropped.txt', { type: 'text/plain' }));
  return transfer;
});
const folder = list.getByRole('group', { name: 'data', exact: true });
await folder.dispatchEvent('dragover', { dataTransfer: dropped });
await list.getByText('Drop to upload to data').waitFor();
await folder.dispatchEvent('drop', { dataTransfer: dropped });
await list.getByRole('link', { name: /dropped\.txt/ }).waitFor();
assert.equal(await bytes('data/dropped.txt'), 'dropped');

// By keyboard alone: the menu of a file, a move, and a deletion.
await list.getByRole('button', { name: 'Actions for b.txt' }).focus();
await page.keyboard.press('Enter');
await page.keyboard.press('Tab');
await page.keyboard.press('Enter');
await page.getByRole('textbox', { name: 'Path in the workspace' }).fill('data/deep/moved.txt');
await page.keyboard.press('Enter');
await list.getByRole('link', { name: /b\.txt/ }).waitFor({ state: 'hidden' });
assert.equal(await bytes('data/deep/moved.txt'), 'second');
await list.getByRole('button', { name: 'Actions for data', exact: true }).click();
await page.getByRole('button', { name: 'Delete' }).click();
const deletion = confirm('Delete data?');
await deletion.getByText('with everything in it').waitFor();
await deletion.getByRole('button', { name: 'Cancel' }).click();
assert.equal(await bytes('data/deep/moved.txt'), 'second');
await list.getByRole('button', { name: 'Actions for data', exact: true }).click();
await page.getByRole('button', { name: 'Delete' }).click();
await deletion.getByRole('button', { name: 'Delete' }).click();
await list.getByRole('button', { name: 'data', exact: true }).waitFor({ state: 'hidden' });

// A new file is created empty, and not over another one.
await list.getByRole('button', { name: 'New file' }).click();
await page.getByRole('textbox', { name: 'Path in the workspace' }).fill('a.txt');
await page.getByRole('button', { name: 'Create' }).click();
await page.getByRole('dialog').getByRole('alert').getByText('a.txt exists already.').waitFor();
await page.getByRole('textbox', { name: 'Path in the workspace' }).fill('new/empty.py');
await page.getByRole('button', { name: 'Create' }).click();
await panel.getByText('The file is empty.').waitFor();

// Nobody overwrites what code has written into an empty file, either.
await panel.getByRole('button', { name: 'Edit' }).click();
await panel.getByRole('textbox', { name: 'Content of empty.py' }).fill('mine');
await runCode(page, `open('/workspace/new/empty.py', 'w').write('theirs')`);
await page.keyboard.press('Control+s');
await confirm('empty.py has changed').getByRole('button', { name: 'Reload' }).click();
await panel.getByText('theirs').waitFor();

// Folders are created by keyboard, also inside of others, and not over anything.
await list.getByRole('button', { name: 'New folder' }).focus();
await page.keyboard.press('Enter');
await page.keyboard.type('new');
await page.keyboard.press('Enter');
await page.getByRole('dialog', { name: 'New folder' }).getByRole('alert').getByText(/"new"/).waitFor();
await page.getByRole('textbox', { name: 'Path in the workspace' }).fill('reports/2026');
await page.keyboard.press('Enter');
await list.getByText('The folder reports/2026 was created.').waitFor();
const year = list.getByRole('group', { name: '2026', exact: true });
await year.waitFor();
await list.getByText('Empty', { exact: true }).waitFor();
await checked(page, 'files-folder');
await list.getByRole('button', { name: 'Actions for 2026' }).click();
await page.getByRole('button', { name: 'New folder in this folder' }).click();
assert.equal(await page.getByRole('textbox', { name: 'Path in the workspace' }).inputValue(), 'reports/2026/');
await page.keyboard.press('End');
await page.keyboard.type('May');
await page.keyboard.press('Enter');
await list.getByRole('group', { name: 'May', exact: true }).waitFor();

// Links in an answer lead to the files, and to nothing else of this server.
await page.goto(`${base}/#/`);
await ask(page, '[script:echo] [one](sandbox:/artifacts/report.md) [two](/workspace/a.txt) [three](sandbox:/workspace/../secret)');
await ended(page);
const answer = page.locator('.answer');
assert.equal(await answer.getByRole('link').count(), 2);
await answer.getByRole('link', { name: 'one' }).click();
await panel.getByRole('heading', { name: 'Second' }).waitFor();
await page.goBack();
await answer.getByRole('link', { name: 'two' }).click();
await panel.getByText('replaced').waitFor();

// Models also invent paths, and name files alone. Those are looked for among the artifacts and in the workspace.
await runCode(page, `
import struct, zlib
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
rows = b''.join(b'\\0' + bytes([200, 30, 30] * 8) for _ in range(8))
png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 8, 8, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
open('/artifacts/plot.png', 'wb').write(png)
`);
await page.goto(`${base}/#/`);
await ask(page, '[script:echo] [four](sandbox:/mnt/data/report.md) [five](a.txt) [six](sandbox:/nowhere.csv) [seven](words) ![red](plot.png) ![none](sandbox:/none.png)');
await ended(page);
assert.deepEqual(await answer.getByRole('link').allTextContents(), ['four', 'five', 'six', '', 'none']);
await answer.getByRole('img', { name: 'red' }).evaluate((image) => image.decode());
await answer.getByRole('link', { name: 'four' }).click();
await panel.getByRole('heading', { name: 'Second' }).waitFor();
assert.match(page.url(), /files\/artifacts\/report\.md/);
await page.goBack();
await answer.getByRole('link', { name: 'five' }).click();
await panel.getByText('replaced').waitFor();
await page.goBack();
await answer.getByRole('link', { name: 'six' }).click();
await page.getByText('There is no file nowhere.csv').waitFor();
await checked(page, 'file-not-found');
await page.goto(`${base}/#/files/workspace/gone.txt`);
await panel.getByText('This file does not exist any more.').waitFor();
await finish(/409 \(Conflict\)|412 \(Precondition Failed\)/, /^Applying inline style violates/);
