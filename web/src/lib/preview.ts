// What can be shown of a file.

import { send } from './api';
import type { Source } from './files';
import { isSupported as rendersPages } from './html/support';
import { type Table, fromCsv, fromLines, fromValue } from './table';

/** Maximum number of bytes of a text that are loaded, and of images and PDF files that are displayed. */
export const MAX_TEXT = 1 << 20;
const MAX_IMAGE = 8_000_000;
const MAX_PDF = 32_000_000;

export type Content = {
  kind: 'image' | 'table' | 'markdown' | 'html' | 'code' | 'pdf' | 'converted' | 'too_large' | 'none';
  text: string;
  /** Whether `text` is a text, and all of it. */
  isWhole: boolean;
  /** Language of the text, for its colours. */
  language: string;
  table: Table | null;
  /** Changes with the content. */
  etag: string;
};

/** Media types that are displayed in an image element, none of which runs anything there. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml']);

const LANGUAGES: Record<string, string> = {
  bash: 'bash', css: 'css', diff: 'diff', htm: 'xml', html: 'xml', ipynb: 'json', js: 'typescript', json: 'json',
  jsx: 'typescript', mjs: 'typescript', patch: 'diff', py: 'python', rs: 'rust', sh: 'bash', sql: 'sql', svg: 'xml',
  ts: 'typescript', tsx: 'typescript', xml: 'xml', yaml: 'yaml', yml: 'yaml',
};

const extensionOf = (name: string): string => (name.includes('.') ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : '');

/** Endings of files that the sandbox converts. */
const CONVERTED = ['xlsx', 'ods', 'docx', 'odt', 'pptx', 'parquet'] as const;
export type ConvertKind = (typeof CONVERTED)[number];

/** The kind of a file that the sandbox converts; `null` for other files. */
export function convertKind(name: string): ConvertKind | null {
  const extension = extensionOf(name);
  return CONVERTED.find((kind) => kind === extension) ?? null;
}

/** The text in these bytes; `null` if they are no text. The end may be cut in the middle of a character. */
function decoded(bytes: ArrayBuffer, isWhole: boolean): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !isWhole });
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

/** Loads as much of a file as is shown. */
export async function load(source: Source): Promise<Content> {
  const extension = extensionOf(source.name);
  const content: Content = {
    kind: 'code', text: '', isWhole: true, language: LANGUAGES[extension] ?? '', table: null, etag: '',
  };
  if (source.bytes > 0 && convertKind(source.name)) return { ...content, isWhole: false, kind: 'converted' };
  // An empty file has no range.
  const range = source.bytes > 0 ? { range: `bytes=0-${MAX_TEXT - 1}` } : {};
  const response = await send('GET', source.download, undefined, range);
  const mime = source.mime || (response.headers.get('content-type') ?? '').split(';')[0] || '';
  content.etag = response.headers.get('etag') ?? '';
  if (source.bytes === 0) return content;
  if (IMAGES.has(mime) || mime === 'application/pdf') {
    await response.body?.cancel();
    const [kind, most] = mime === 'application/pdf' ? (['pdf', MAX_PDF] as const) : (['image', MAX_IMAGE] as const);
    return { ...content, isWhole: false, kind: source.bytes <= most ? kind : 'too_large' };
  }
  const bytes = await response.arrayBuffer();
  const isWhole = bytes.byteLength >= source.bytes || response.status === 200;
  const text = decoded(bytes, isWhole);
  if (text === null) return { ...content, isWhole: false, kind: 'none' };
  return formed({ ...content, text, isWhole }, mime, extension);
}

/** Finds out how a text is shown best. */
function formed(content: Content, mime: string, extension: string): Content {
  const { text, isWhole } = content;
  const plain = text.replace(/^\uFEFF/, '');
  if (mime === 'text/markdown' || extension === 'md' || extension === 'markdown') return { ...content, kind: 'markdown' };
  if (mime === 'text/html' || extension === 'html' || extension === 'htm') {
    return { ...content, language: 'xml', kind: rendersPages() ? 'html' : 'code' };
  }
  if (mime === 'text/csv' || extension === 'csv' || extension === 'tsv') {
    const table = fromCsv(plain);
    return table ? { ...content, kind: 'table', table } : content;
  }
  if (extension === 'jsonl' || extension === 'ndjson') {
    const whole = isWhole ? plain : plain.slice(0, plain.lastIndexOf('\n'));
    const table = fromLines(whole);
    return { ...content, language: 'json', ...(table ? { kind: 'table', table } : {}) };
  }
  if (mime === 'application/json' || extension === 'json') {
    try {
      const table = fromValue(JSON.parse(plain));
      if (table) return { ...content, language: 'json', kind: 'table', table };
    } catch {
      // JSON that is cut or invalid is shown as it is.
    }
    return { ...content, language: 'json' };
  }
  return content;
}
