// Styles of a previewed page, without everything that loads something. They are read by the browser and changed as
// objects, so that neither the syntax of CSS has to be known here, nor the policy of the page to allow inline styles.

/** Rules that are kept, if what is in them loads nothing. */
const RULES = new Set([
  'CSSStyleRule', 'CSSNestedDeclarations', 'CSSMediaRule', 'CSSSupportsRule', 'CSSContainerRule', 'CSSLayerBlockRule',
  'CSSLayerStatementRule', 'CSSScopeRule', 'CSSKeyframesRule', 'CSSKeyframeRule',
]);

/** Places in the same page, and images in the file itself. There are no quotes, spaces or brackets in the middle, so
 * this is one address and not the end of a text and the beginning of another. */
const OWN = /url\((["']?)(?:#[\w.:-]*|data:image\/(?:png|jpeg|gif|webp|svg\+xml)[;,][\w+/=,;%.:~!*-]*)\1\)/gi;
/** Functions that load something, and escapes, in which the values of variables could hide them. */
const LOADS = /\\|(?:url|src|image|image-set|cross-fade|element|paint)\(/i;

/** Whether a value loads nothing. */
export const isHarmless = (value: string): boolean => !LOADS.test(value.replace(OWN, ''));

/** Drops the declarations that load something. */
export function cleanDeclarations(style: CSSStyleDeclaration): void {
  if (isHarmless(style.cssText)) return;
  for (const name of [...style]) {
    if (!isHarmless(style.getPropertyValue(name))) style.removeProperty(name);
  }
  // A shorthand with a variable in it has no values of its own.
  if (!isHarmless(style.cssText)) style.cssText = '';
}

type Rules = { cssRules: CSSRuleList; deleteRule?: (index: number) => void };

function cleanRules(parent: Rules): void {
  for (let index = parent.cssRules.length - 1; index >= 0; index -= 1) {
    const rule = parent.cssRules[index] as CSSRule & Partial<Rules> & { style?: CSSStyleDeclaration };
    // The classes of another window are not those of this one.
    const kind = Object.prototype.toString.call(rule).slice('[object '.length, -1);
    if (!RULES.has(kind)) {
      parent.deleteRule?.(index);
      continue;
    }
    if (rule.style) cleanDeclarations(rule.style);
    if (rule.cssRules) cleanRules(rule as Rules);
  }
}

/** A sheet for the document of this window. */
export function sheet(window: Window & typeof globalThis, text: string, media: string): CSSStyleSheet {
  const made = new window.CSSStyleSheet({ media });
  made.replaceSync(text);
  cleanRules(made);
  return made;
}
