// Items of `/v1` as entries.

import {
  CodeEntry, type Entry, NoteEntry, type Progress, ReasoningEntry, TextEntry, ToolEntry, UserEntry,
} from './entries.svelte';
import { isOwnImage, messageIn } from './message';

type Part = { type?: string; text?: string; image_url?: string; annotations?: Annotation[] };
type Annotation = { type?: string; filename?: string; file_id?: string };
type Output = { type?: string; logs?: string; url?: string };
type ShellOutput = { stdout?: string; stderr?: string; outcome?: { type?: string; exit_code?: number } };

/** An item, as far as the page reads it. */
export type Item = {
  type: string;
  id: string;
  role?: string;
  status?: string;
  content?: Part[];
  code?: string;
  outputs?: Output[] | null;
  action?: { commands?: string[] };
  call_id?: string;
  execution_id?: string | null;
  output_file?: string | null;
  output?: unknown;
  error?: string | null;
  name?: string;
  arguments?: string;
  summary?: { text?: string }[];
};

function progress(item: Item): Progress {
  switch (item.status) {
    case 'in_progress':
    case 'interpreting':
      return 'running';
    case 'failed':
      return 'failed';
    case 'incomplete':
      return 'stopped';
    default:
      return 'done';
  }
}

const textOf = (item: Item): string => (item.content ?? []).map((part) => part.text ?? '').join('');

/** Makes the entry of an item; `null` if it has none of its own. */
function made(item: Item): Entry | null {
  switch (item.type) {
    case 'message':
      if (item.role === 'user') return new UserEntry(item.id, messageIn(item.content ?? []));
      return item.role === 'assistant' ? new TextEntry(item.id) : null;
    case 'reasoning':
      return new ReasoningEntry(item.id);
    case 'code_interpreter_call':
      return new CodeEntry(item.id, item.code ?? '');
    case 'shell_call': {
      const entry = new CodeEntry(item.id, (item.action?.commands ?? []).join('\n'), 'bash');
      entry.callId = item.call_id ?? '';
      return entry;
    }
    case 'mcp_call':
      return new ToolEntry(item.id, item.name ?? '');
    case 'compaction':
      return new NoteEntry(item.id, 'compacted');
    default:
      return null;
  }
}

/** Takes over what an item says into its entry. */
function update(entry: Entry, item: Item): void {
  switch (entry.kind) {
    case 'text': {
      const text = textOf(item);
      if (text) entry.markdown.finish(text);
      const annotations = (item.content ?? []).flatMap((part) => part.annotations ?? []);
      entry.citations = annotations
        .filter((one) => one.type === 'container_file_citation' && one.filename)
        .map((one) => ({ name: one.filename ?? '', uri: one.file_id ?? '' }));
      entry.progress = progress(item);
      break;
    }
    case 'reasoning': {
      const text = (item.summary ?? []).map((part) => part.text ?? '').join('\n\n');
      if (text) entry.text = text;
      entry.progress = progress(item);
      break;
    }
    case 'code': {
      if (item.code) entry.code = item.code;
      if (item.execution_id) entry.execution = item.execution_id;
      entry.outputFile = item.output_file ?? '';
      const outputs = item.outputs ?? [];
      const logs = outputs.filter((one) => one.type === 'logs').map((one) => one.logs ?? '');
      if (logs.length > 0) entry.output = logs.join('\n');
      entry.images = outputs.filter((one) => one.type === 'image').map((one) => one.url ?? '').filter(isOwnImage);
      entry.progress = progress(item);
      if (entry.progress !== 'running') entry.waiting = [];
      break;
    }
    case 'tool':
      entry.arguments = item.arguments ?? '';
      entry.output = item.error ?? (typeof item.output === 'string' ? item.output : '');
      entry.progress = progress(item);
      break;
    case 'user':
    case 'note':
      break;
  }
}

/** The output of a shell belongs to the entry of its call. */
function shellOutput(entries: readonly Entry[], item: Item): void {
  const entry = entries.find((one): one is CodeEntry => one.kind === 'code' && one.callId === item.call_id);
  if (!entry || !Array.isArray(item.output)) return;
  if (item.execution_id) entry.execution = item.execution_id;
  entry.outputFile = item.output_file ?? '';
  const parts = item.output as ShellOutput[];
  const texts = parts.flatMap((one) => [one.stdout ?? '', one.stderr ?? '']).filter(Boolean);
  if (texts.length > 0) entry.output = texts.join('\n');
  const failed = parts.some((one) => one.outcome?.type === 'timeout' || (one.outcome?.exit_code ?? 0) !== 0);
  entry.progress = failed ? 'failed' : 'done';
}

/** Adds or updates the entry of an item. Returns the list, which is another one if it has changed. */
export function taken(entries: Entry[], item: Item): Entry[] {
  if (item.type === 'shell_call_output') {
    shellOutput(entries, item);
    return entries;
  }
  const known = entries.find((entry) => entry.id === item.id);
  // A text without content was given up, and is not part of the answer.
  const isEmpty = item.type === 'message' && item.status === 'incomplete' && !textOf(item);
  if (known) {
    if (isEmpty) return entries.filter((entry) => entry !== known);
    update(known, item);
    return entries;
  }
  const entry = isEmpty ? null : made(item);
  if (!entry) return entries;
  update(entry, item);
  return [...entries, entry];
}
