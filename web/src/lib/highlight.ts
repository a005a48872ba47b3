// Colours for code. The result is a list of plain texts with a class, never HTML.

import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

for (const [name, language] of Object.entries({
  bash, css, diff, json, python, rust, sql, typescript, xml, yaml,
})) {
  hljs.registerLanguage(name, language);
}
hljs.registerAliases(['js', 'javascript', 'jsx', 'ts', 'tsx'], { languageName: 'typescript' });
hljs.registerAliases(['shell', 'console'], { languageName: 'bash' });

/** Longer code is shown without colours. */
const MAX_LENGTH = 50_000;

export type Piece = { text: string; kind: string };
type Node = { scope?: string; children: (Node | string)[] };

/** The pieces of some code, or the whole as one piece if the language is not known. */
export function highlighted(code: string, language: string): Piece[] {
  const plain = [{ text: code, kind: '' }];
  if (code.length > MAX_LENGTH || !hljs.getLanguage(language)) return plain;
  const result = hljs.highlight(code, { language, ignoreIllegals: true });
  const root = (result as unknown as { _emitter?: { rootNode?: Node } })._emitter?.rootNode;
  if (!root) return plain;
  const pieces: Piece[] = [];
  const walk = (node: Node, kind: string): void => {
    for (const child of node.children) {
      if (typeof child === 'string') pieces.push({ text: child, kind });
      else walk(child, child.scope ? (child.scope.split('.')[0] ?? kind) : kind);
    }
  };
  walk(root, '');
  return pieces;
}

/** Guesses which of the two languages some code is in; the API does not say. */
export function guessed(code: string): 'python' | 'typescript' {
  const isTypeScript = /^\s*(?:const|let|var|export|interface|type)\s|=>|^import\b.*\bfrom\s*["']|;\s*$/m.test(code);
  const isPython = /^\s*(?:def|from|import|elif|with)\s[^"';]*:?\s*$|^\s*print\(|:\s*$/m.test(code);
  return isTypeScript && !isPython ? 'typescript' : 'python';
}
