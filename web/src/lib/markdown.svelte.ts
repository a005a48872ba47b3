// Markdown that arrives in pieces. Blocks that are complete are never parsed again.

import { Marked, type Token, type Tokens } from 'marked';
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

/** Takes over the items of a list and the rows of a table that have not changed, so that they are not rendered again. */
function shared(before: Token, token: Token): Token {
  if (before.type === 'list' && token.type === 'list') {
    const known = (before as Tokens.List).items;
    const list = token as Tokens.List;
    return { ...list, items: list.items.map((item, index) => (known[index]?.raw === item.raw ? known[index] : item)) };
  }
  if (before.type === 'table' && token.type === 'table') {
    const known = (before as Tokens.Table).rows;
    const table = token as Tokens.Table;
    const isSame = (row: Tokens.TableCell[], other: Tokens.TableCell[] | undefined): other is Tokens.TableCell[] =>
      other?.length === row.length && row.every((cell, column) => cell.text === other[column]?.text);
    return { ...table, rows: table.rows.map((row, index) => (isSame(row, known[index]) ? known[index] : row)) };
  }
  return token;
}

/** A text in Markdown that grows. */
export class Markdown {
  /** Counts changes of the text. */
  #version = $state(0);
  /** The blocks so far; `null` if they have to be made from the text. */
  #blocks: Block[] | null = null;
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

  get length(): number {
    return this.#sources.reduce((sum, source) => sum + source.length, this.#rest.length);
  }

  /** The blocks so far. The last one may still change while the text grows. A text that nobody looks at is not parsed. */
  get blocks(): Block[] {
    void this.#version;
    if (!this.#blocks) {
      for (const token of parse(this.#rest)) this.#settle(token);
      this.#blocks = [...this.#settled];
    }
    return this.#blocks;
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
    const key = this.#settled.length;
    const before = this.#blocks?.[key]?.token;
    this.#blocks = token ? [...this.#settled, { key, token: before ? shared(before, token) : token }] : [...this.#settled];
    this.#version += 1;
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
    this.#blocks = null;
    this.#version += 1;
  }

  /** Forgets the blocks of a complete text. They are made again when somebody looks at it. */
  release(): void {
    this.#rest = this.text;
    this.#settled = [];
    this.#sources = [];
    this.#blocks = null;
  }

  /** Moves a block from the beginning of the rest to those that are complete. */
  #settle(token: Token): void {
    this.#sources.push(this.#rest.slice(0, token.raw.length));
    this.#rest = this.#rest.slice(token.raw.length);
    if (token.type !== 'space') this.#settled.push({ key: this.#settled.length, token });
  }
}
