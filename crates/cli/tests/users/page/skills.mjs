// Skills: saved code with versions, examples and search, and the instructions of the operator.

import { assert, base, checked, finish, runCode, signedIn } from './browser.mjs';

const { page } = await signedIn();
const main = page.getByRole('main');
const hostile = '<img src=x onerror=alert(1)>';
const field = (name) => main.getByRole('textbox', { name, exact: true });
const save = main.getByRole('button', { name: 'Save', exact: true });
const dialog = page.getByRole('dialog');
const saved = (version) =>
  page.evaluate(async (version) => {
    const answer = await fetch(`/api/skills/clean_rows${version ? `?version=${version}` : ''}`);
    return { status: answer.status, ...(await answer.json()) };
  }, version);

// Without skills, the view says how they come about. Instructions are listed from the beginning.
await page.goto(`${base}/#/tools`);
await main.getByRole('link', { name: 'Skills' }).click();
await page.getByText('You have no skills yet.').waitFor();
await page.getByText('/skills/data-analysis/SKILL.md').waitFor();
await checked(page, 'skills-empty');

// A new skill: nothing is saved while its example fails.
await page.getByRole('button', { name: 'New skill' }).click();
await field('Name').fill('clean_rows');
await field('Description').fill(`Drops empty rows ${hostile}`);
await field('Tags').fill('tables, tidy');
await field('Code').fill('def clean(rows):\n    kept = [row for row in rows if row]\n    return kept\n');
await field('Example').fill('from skills.clean_rows import clean\nassert clean([1, 0]) == [0]\n');
await save.click();
await page.getByRole('alert').getByText('AssertionError').waitFor();
assert.equal((await saved()).status, 404);
await checked(page, 'skill-new');

// Changes that were not saved are not lost without a question.
await page.getByRole('link', { name: 'Activity' }).click();
await dialog.getByRole('button', { name: 'Cancel' }).click();
await field('Example').fill('from skills.clean_rows import clean\nprint("cleaned", clean([1, 0]))\nassert clean([1, 0]) == [1]\n');
await page.keyboard.press('Control+s');
await page.getByRole('heading', { name: 'clean_rows' }).waitFor();
await page.getByText(`Drops empty rows ${hostile}`).waitFor();
await page.getByText('tables, tidy').waitFor();
assert.equal(await main.locator('img').count(), 0);

// The example is run on request, and its output shown.
const outcome = page.getByRole('region', { name: 'Outcome of the example' });
await page.getByRole('button', { name: 'Run example' }).click();
await outcome.getByText(/^The example works/).waitFor();
await outcome.getByText('cleaned [1]').waitFor();

// A new version begins with the code of the one that is open. Older versions are compared with the newest.
await page.getByRole('button', { name: 'New version' }).click();
assert.ok(await save.isDisabled());
await field('Code').fill('def clean(rows):\n    kept = [row for row in rows if row not in (0, None)]\n    return kept\n');
await save.click();
const version = page.getByRole('combobox', { name: 'Version' });
await version.waitFor();
await page.getByText('2 (newest)').waitFor({ state: 'attached' });
assert.deepEqual((await saved()).versions.toSorted(), [1, 2]);
assert.deepEqual((await saved()).metadata.tags, ['tables', 'tidy']);
await version.selectOption('1');
const difference = page.getByRole('group', { name: 'From version 1 to version 2' });
await difference.waitFor();
const lines = (await difference.locator(':scope > div').allTextContents()).map((line) => line.trim());
assert.deepEqual(lines, [
  'def clean(rows):',
  '−Removed:    kept = [row for row in rows if row]',
  '+Added:    kept = [row for row in rows if row not in (0, None)]',
  'return kept',
]);
assert.equal(await page.getByRole('button', { name: 'Run example' }).count(), 0);
await checked(page, 'skill-difference');
await page.reload();
await difference.waitFor();

// An old version becomes the newest again without a change.
await page.getByRole('button', { name: 'New version' }).click();
await save.click();
await difference.waitFor({ state: 'hidden' });
await page.getByText('3 (newest)').waitFor({ state: 'attached' });
assert.equal((await saved()).code, (await saved(1)).code);
assert.notEqual((await saved()).code, (await saved(2)).code);

// An example that has stopped working says why. Code in the sandbox saves skills as well.
await runCode(page, 'save_skill("limits", "LIMIT = 1\\n", "Limits")');
await runCode(page, `save_skill("clean_rows", "from skills.limits import LIMIT\\n", example="from skills.clean_rows import LIMIT\\nassert LIMIT == 1")`);
await runCode(page, 'save_skill("limits", "LIMIT = 2\\n", "Limits")');
await page.goto(`${base}/#/tools/skills`);
await page.getByRole('link', { name: /^limits/ }).waitFor();
await checked(page, 'skills');
await page.getByRole('link', { name: /^clean_rows/ }).click();
await page.getByText('4 (newest)').waitFor({ state: 'attached' });
await page.getByRole('button', { name: 'Run example' }).click();
await outcome.getByText('The example fails.').waitFor();
await outcome.getByText('AssertionError').first().waitFor();
await checked(page, 'skill');

// Search, deletion with a confirmation, and a skill that is gone.
await page.getByRole('link', { name: 'All skills' }).click();
await page.getByRole('searchbox', { name: 'Search skills' }).fill('clean rows');
await page.getByRole('link', { name: /^limits/ }).waitFor({ state: 'hidden' });
await page.getByRole('link', { name: /^clean_rows/ }).click();
await page.getByRole('button', { name: 'Delete' }).click();
await dialog.getByRole('button', { name: 'Cancel' }).click();
assert.equal((await saved()).status, 200);
await page.getByRole('button', { name: 'Delete' }).click();
await dialog.getByRole('button', { name: 'Delete' }).click();
await page.getByRole('link', { name: /^limits/ }).waitFor();
assert.equal((await saved()).status, 404);
await page.goto(`${base}/#/tools/skills/code/clean_rows`);
await page.getByText('There is no such skill or version.').waitFor();
await finish(/404 \(Not Found\)/, /400 \(Bad Request\)/);
