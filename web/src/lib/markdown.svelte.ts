// Markdown that arrives in pieces. Blocks that are complete are never parsed again.

import { type Token, lexer } from 'marked';

export type Block = { key: number; token: Token };

const parse = (text: string): Token[] => lexer(text, { gfm: true, breaks: true });

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
  #text = '';
  /** The blocks that cannot change any more, and where the rest of the text begins. */
  #settled: Block[] = [];
  #rest = 0;

  constructor(text = '') {
    if (text) this.finish(text);
  }

  get text(): string {
    return this.#text;
  }

  append(delta: string): void {
    this.#text += delta.replaceAll('\r', '');
    const tokens = parse(this.#text.slice(this.#rest));
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]?.type === 'space') last -= 1;
    for (const token of tokens.slice(0, Math.max(last, 0))) {
      this.#rest += token.raw.length;
      this.#settle(token);
    }
    const open = this.#text.slice(this.#rest);
    let token = tokens[Math.max(last, 0)];
    if (token?.type === 'paragraph') token = parse(closed(open))[0] ?? token;
    this.blocks = token ? [...this.#settled, { key: this.#settled.length, token }] : [...this.#settled];
  }

  /** The text is complete. It is only parsed again if it is not the text that arrived. */
  finish(text: string): void {
    const whole = text.replaceAll('\r', '');
    if (!whole.startsWith(this.#text.slice(0, this.#rest)) || this.#rest === 0) {
      this.#settled = [];
      this.#rest = 0;
    }
    this.#text = whole;
    for (const token of parse(whole.slice(this.#rest))) {
      this.#rest += token.raw.length;
      this.#settle(token);
    }
    this.#rest = whole.length;
    this.blocks = [...this.#settled];
  }

  #settle(token: Token): void {
    if (token.type !== 'space') this.#settled.push({ key: this.#settled.length, token });
  }
}
