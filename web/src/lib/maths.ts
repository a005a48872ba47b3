// Formulas in Markdown: `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. They become MathML, by a library that is loaded when the
// first one appears.

import type { TokenizerAndRendererExtension, Tokens } from 'marked';

export type Formula = Tokens.Generic & { text: string; isDisplay: boolean };

/** Longer formulas are shown as they are written. */
const MAX_LENGTH = 2_000;
/** Macros could be made to grow without end, and marks that need more than MathML would be lost. */
const REFUSED =
  /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand|global|long|b?cancel|xcancel|cancelto|sout|phase|longdiv|angl|CD)\b/;

// A dollar sign is a price unless the text between two of them touches both, does not begin with a number and a word, and
// no letter or digit follows. Formulas have no empty lines. Lengths are limited, so that a hostile text does not take long.
const INLINE = /^\$(?![\s$]|\d[\d.,]*\s+[A-Za-z]{2})((?:\\[^\n]|[^\\$\n]){0,2000}?(?:\\[^\n]|[^\\$\s]))\$(?![\dA-Za-z$])/;
const INLINE_DISPLAY = /^\$\$(?!\s*\$)((?:\\[^\n]|[^\\$\n]){1,2000}?)\$\$/;
const INLINE_PARENTHESES = /^\\\(((?:\\[^)\n]|[^\\\n]){1,2000}?)\\\)/;
const INLINE_BRACKETS = /^\\\[((?:\\[^\]\n]|[^\\\n]){1,2000}?)\\\]/;
const BLOCK = /^ {0,3}\$\$((?:\\[^]|[^\\$\n]|\n(?![ \t]*\n)){1,2000}?)\$\$[ \t]*(?:\n|$)/;
const BLOCK_BRACKETS = /^ {0,3}\\\[((?:\\[^\]]|[^\\\n]|\n(?![ \t]*\n)){1,2000}?)\\\][ \t]*(?:\n|$)/;
/** How far the parser looks ahead for the next formula. */
const AHEAD = 4_000;

function token(type: string, source: string, patterns: [RegExp, boolean][]): Formula | undefined {
  for (const [pattern, isDisplay] of patterns) {
    const found = pattern.exec(source);
    if (found?.[1]?.trim()) return { type, raw: found[0], text: found[1].trim(), isDisplay };
  }
  return undefined;
}

const block = (source: string): Formula | undefined => token('formulaBlock', source, [[BLOCK, true], [BLOCK_BRACKETS, true]]);

/** The place in a paragraph where a formula begins that is a block. It is not cut anywhere else: joining is slow. */
function nextBlock(source: string): number | undefined {
  const [paragraph = ''] = source.slice(0, AHEAD).split(/\n[ \t]*\n/, 1);
  for (const { index } of paragraph.matchAll(/\n(?= {0,3}(?:\$\$|\\\[))/g)) {
    if (block(source.slice(index + 1))) return index;
  }
  return undefined;
}

/** The place of the next beginning of what may be a formula in a line. */
function nextInline(source: string): number | undefined {
  const place = source.slice(0, AHEAD).search(/\$|\\[([]/);
  return place < 0 ? undefined : place;
}

export const extensions: TokenizerAndRendererExtension[] = [
  {
    name: 'formulaBlock',
    level: 'block',
    start: nextBlock,
    tokenizer: block,
  },
  {
    name: 'formula',
    level: 'inline',
    start: nextInline,
    tokenizer: (source) =>
      token('formula', source, [[INLINE_DISPLAY, true], [INLINE, false], [INLINE_PARENTHESES, false], [INLINE_BRACKETS, true]]),
  },
];

/** Whether a block begins a formula whose end has not arrived yet. Its lines could be taken for lists or headings. */
export const beginsFormula = (raw: string): boolean => /^\s*(?:\$\$|\\\[)/.test(raw);

type Library = (typeof import('temml'))['default'];
let loading: Promise<Library> | null = null;

/** Loads the library, again if that has failed. */
function library(): Promise<Library> {
  loading ??= import('temml').then(
    (module) => module.default,
    (error: unknown) => {
      loading = null;
      throw error;
    },
  );
  return loading;
}

/** Puts a formula into an element. Returns whether it could be read. */
export async function renderFormula(source: string, isDisplay: boolean, target: HTMLElement): Promise<boolean> {
  if (source.length > MAX_LENGTH || REFUSED.test(source)) return false;
  try {
    // Sizes are in units of the font and in points.
    (await library()).render(source, target, { displayMode: isDisplay, throwOnError: true, trust: false, maxSize: [20, 400], maxExpand: 200 });
    return true;
  } catch {
    return false;
  }
}
