// What the events of a run say about the code that runs in it.

import { changed as artifactsChanged, fromEvent } from './artifacts';
import type { CodeEntry } from './entries.svelte';
import type { Call, Sandbox } from './executions';
import type { RunEvent } from './stream';

/** Joins successive pieces of the same text, so that each frame parses it once. */
export function joined(events: RunEvent[]): RunEvent[] {
  const all: RunEvent[] = [];
  for (const event of events) {
    const last = all.at(-1);
    const isSame = last?.type === event.type && last.item_id === event.item_id && last.stream === event.stream;
    if (last && isSame && event.type.endsWith('.delta')) last.delta = String(last.delta) + String(event.delta);
    else all.push({ ...event });
  }
  return all;
}

/** Takes over what happens while code runs. */
export function takeCall(entry: CodeEntry, event: RunEvent): void {
  const number = Number(event.number);
  switch (event.type) {
    case 'response.coracle.output.delta':
      if (entry.progress === 'running') entry.more(String(event.delta));
      break;
    case 'response.coracle.sandbox':
      entry.sandbox = (event.sandbox as Sandbox | undefined) ?? null;
      break;
    case 'response.coracle.waiting':
      entry.waiting = (event.servers as string[] | undefined) ?? [];
      break;
    case 'response.coracle.call.began':
      entry.began({
        number,
        server: String(event.server),
        tool: String(event.tool),
        arguments: String(event.arguments),
        progress: 'running',
        began: typeof event.began_ms === 'number' ? event.began_ms : undefined,
      });
      break;
    case 'response.coracle.call.ended': {
      const call = (event.call ?? {}) as Partial<Call>;
      entry.ended(number, {
        progress: call.ok ? 'done' : 'failed',
        ms: call.ms ?? 0,
        bytesIn: call.bytes_in ?? 0,
        bytes: call.bytes_out ?? 0,
        code: call.code ?? '',
      });
      break;
    }
    case 'response.coracle.asked':
      entry.asked({
        approval: String(event.approval_id),
        number,
        server: String(event.server),
        tool: String(event.tool),
        reason: String(event.reason),
      });
      break;
    case 'response.coracle.answered':
      entry.answered(String(event.approval_id), Boolean(event.allowed));
      break;
    case 'response.coracle.artifact': {
      artifactsChanged();
      const artifact = fromEvent(event.artifact);
      if (artifact) entry.artifacts = [...entry.artifacts.filter((one) => one.name !== artifact.name), artifact];
      break;
    }
  }
}
