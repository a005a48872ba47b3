// Markdown that arrives in pieces. Blocks that are complete are never parsed again.

import { Marked, type Token } from 'marked';
import { beginsFormula, extensions } from './maths';

export type Block = { key: number; token: Token };

const marked = new Marked({ gfm: true, breaks: true, extensions });
const parse = (text: string): Token[] => marked.lexer(text);

/** Maximum length of a formula whose end has not arrived yet. */
const MAX_OPEN = 4_000;

/** Closes marks of the last paragraph that the model has not closed yet, so that they do not flicker. */
function closed(text: string): string {
  const odd = (mark: string): boolean => text.split(mark).length % 2 === 0;
  if (odd('`')) return `${text}\``;
  if (odd('**')) return text.endsWith('**') ? text.slice(0, -2) : `${text.replace(/\*$/, '')}**`;
  return text;
}

/** A text in Markdown that grows. */
export class Markdown {
  /** The blocks so far. The last one may still change while the text grows. */
  blocks = $state.raw<Block[]>([]);
  /** The blocks that cannot change any more, and their source. */
  #settled: Block[] = [];
  #sources: string[] = [];
  /** The rest of the text. Blocks refer to parts of it, so it must not contain the text before it. */
  #rest = '';

  constructor(text = '') {
    if (text) this.finish(text);
  }

  get text(): string {
    return this.#sources.join('') + this.#rest;
  }

  append(delta: string): void {
    this.#rest += delta.replaceAll('\r', '');
    const tokens = parse(this.#rest);
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]?.type === 'space') last -= 1;
    const open = tokens.findIndex((token) => token.type !== 'formulaBlock' && beginsFormula(token.raw));
    const isOpen = open >= 0 && open <= last && tokens.slice(open).reduce((sum, { raw }) => sum + raw.length, 0) < MAX_OPEN;
    if (isOpen) last = open;
    for (const token of tokens.slice(0, Math.max(last, 0))) this.#settle(token);
    let token = tokens[Math.max(last, 0)];
    if (isOpen) token = { type: 'formulaOpen', raw: this.#rest };
    else if (token?.type === 'paragraph') token = parse(closed(this.#rest))[0] ?? token;
    this.blocks = token ? [...this.#settled, { key: this.#settled.length, token }] : [...this.#settled];
  }

  /** The text is complete. Blocks that arrived before are only parsed again if the text is another one. */
  finish(text: string): void {
    const whole = text.replaceAll('\r', '');
    const before = this.#sources.join('');
    if (whole.startsWith(before)) {
      this.#rest = whole.slice(before.length);
    } else {
      this.#settled = [];
      this.#sources = [];
      this.#rest = whole;
    }
    for (const token of parse(this.#rest)) this.#settle(token);
    this.blocks = [...this.#settled];
  }

  /** Moves a block from the beginning of the rest to those that are complete. */
  #settle(token: Token): void {
    this.#sources.push(this.#rest.slice(0, token.raw.length));
    this.#rest = this.#rest.slice(token.raw.length);
    if (token.type !== 'space') this.#settled.push({ key: this.#settled.length, token });
  }
}
