// Accessibility: no violations in both themes and at two widths, and nothing wider than the screen.

import { assert, axe } from './browser.mjs';

const pictures = process.env.CORACLE_PAGE_PICTURES;

/** Checks what the page shows in both themes and at two widths. `CORACLE_PAGE_PICTURES` names a folder for pictures. */
export async function accessible(page, name) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    for (const [width, height] of [[1280, 800], [390, 844]]) {
      await page.setViewportSize({ width, height });
      await page.waitForFunction((wanted) => innerWidth === wanted, width);
      const violations = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, {
          runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
        });
        return violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.html).join(' | ')}`);
      });
      assert.deepEqual(violations, [], `${name}, ${theme}, ${width}`);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide at ${width}`);
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}
