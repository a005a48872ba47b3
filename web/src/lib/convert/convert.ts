// Spreadsheets and documents are read by a program in the sandbox, not by the page. Its executions are not listed.

import { problem, send } from '../api';
import type { Source } from '../files';
import { type ConvertKind, convertKind } from '../preview';
import { files as texts } from '../text/files';
import common from './program/common.py?raw';
import documents from './program/documents.py?raw';
import main from './program/main.py?raw';
import parquet from './program/parquet.py?raw';
import sheets from './program/sheets.py?raw';
import { type Converted, read } from './result';

/** Maximum size of a file that is sent to the sandbox, since code cannot see it; variables have 4 MiB in Base64. */
const MAX_SENT = 3_000_000;
const SECONDS = 60;

/** The part of the program that reads files of a kind. */
const READERS: Record<ConvertKind, string> = { xlsx: sheets, ods: sheets, docx: documents, odt: documents, pptx: documents, parquet };

type Outcome = { success: boolean; result?: unknown; error?: string; hint?: string | null };

/** The file in Base64. */
async function base64(source: Source, signal: AbortSignal): Promise<string> {
  const response = await send('GET', source.download, undefined, {}, signal);
  const reader = new FileReader();
  const address = new Promise<string>((done, failed) => {
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error ?? new Error());
  });
  reader.readAsDataURL(await response.blob());
  return (await address).replace(/^[^,]*,/, '');
}

/** Converts a file. The signal also stops the code. */
export async function convert(source: Source, signal: AbortSignal): Promise<Converted> {
  const kind = convertKind(source.name);
  if (!kind || (source.path === null && source.bytes > MAX_SENT)) throw new Error(texts.unseen);
  const data = source.path === null ? await base64(source, signal) : null;
  const code = [common, READERS[kind], main].join('\n\n');
  const body = { code, context_vars: { kind, path: source.path, data }, timeout_seconds: SECONDS };
  const response = await send('POST', '/api/executions?read_only=true&listed=false', body, {}, signal);
  const outcome = (await response.json()) as Outcome;
  if (!outcome.success) throw problem(response.status, { error: [outcome.error, outcome.hint].filter(Boolean).join('. ') });
  const converted = read(outcome.result, source.name, texts.row);
  if (!converted) throw new Error(texts.problems.damaged(''));
  return converted;
}
