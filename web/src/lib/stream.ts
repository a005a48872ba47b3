// The events of a run. A browser opens at most six connections to one server over HTTP/1.1, for all tabs together, so
// there is one stream per tab, and none while the tab is hidden.

import { ApiError, stream } from './api';

export type RunEvent = { type: string; sequence_number: number } & Record<string, unknown>;

/** Types of events that the page uses. A browser only hears those that it names. */
const TYPES = [
  'response.created',
  'response.output_item.added',
  'response.output_item.done',
  'response.output_text.delta',
  'response.reasoning_summary_text.delta',
  'response.coracle.sandbox',
  'response.coracle.output.delta',
  'response.coracle.call.began',
  'response.coracle.call.ended',
  'response.coracle.asked',
  'response.coracle.answered',
  'response.coracle.artifact',
  'response.coracle.waiting',
  'response.coracle.steered',
  'response.coracle.compacted',
  'response.completed',
  'response.incomplete',
  'response.failed',
];

/** Types that end a run. */
const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** The events of a run that has just been started by a request. */
export class FirstEvents {
  #rest = '';
  constructor(readonly reader: ReadableStreamDefaultReader<string>) {}

  /** The next events; `null` at the end of the stream. */
  async next(): Promise<RunEvent[] | null> {
    for (;;) {
      const { value, done } = await this.reader.read();
      if (done) return null;
      const parts = (this.#rest + value).split('\n\n');
      this.#rest = parts.pop() ?? '';
      const lines = parts.flatMap((part) => part.split('\n')).filter((line) => line.startsWith('data: {'));
      if (lines.length > 0) return lines.map((line) => JSON.parse(line.slice(6)) as RunEvent);
    }
  }
}

/** Starts a run, whose first events come with the answer. */
export async function start(body: object): Promise<{ run: string; events: RunEvent[]; first: FirstEvents }> {
  const first = new FirstEvents(await stream('/v1/responses', { ...body, stream: true }));
  const events = await first.next();
  const run = (events?.[0]?.response as { id?: string } | undefined)?.id;
  if (!events || !run) throw new ApiError(0, 'unreachable', 'The server closed the connection.');
  return { run, events, first };
}

/** First and longest pause before the stream is opened again, in milliseconds. */
const PAUSES = [500, 10_000] as const;

export type Listener = {
  /** Events since the last call, at most once per frame. */
  events: (events: RunEvent[]) => void;
  /** Whether the stream is open, or is being opened again. */
  connected: (isConnected: boolean) => void;
};

/** Follows a run until the returned function is called. */
export function follow(run: string, listener: Listener, begun?: { events: RunEvent[]; first: FirstEvents }): () => void {
  let source: EventSource | null = null;
  let first: FirstEvents | null = begun?.first ?? null;
  let last: number | null = null;
  let waiting: RunEvent[] = [];
  let frame = 0;
  let timer = 0;
  let pause: number = PAUSES[0];
  let isClosed = false;

  const flush = (): void => {
    frame = 0;
    const events = waiting;
    waiting = [];
    if (!isClosed && events.length > 0) listener.events(events);
  };
  const heard = (event: RunEvent): void => {
    // After a reconnection, the server may send an event again.
    if (last !== null && event.sequence_number <= last) return;
    last = event.sequence_number;
    waiting.push(event);
    // Hidden tabs have no frames.
    if (document.hidden) queueMicrotask(flush);
    else if (!frame) frame = requestAnimationFrame(flush);
  };
  const disconnect = (): void => {
    source?.close();
    source = null;
    first?.reader.cancel().catch(() => {});
    first = null;
    clearTimeout(timer);
  };
  const connect = (): void => {
    disconnect();
    if (isClosed || document.hidden) return;
    const query = new URLSearchParams({ stream: 'true', coracle_events: 'true' });
    if (last !== null) query.set('starting_after', String(last));
    source = new EventSource(`/v1/responses/${encodeURIComponent(run)}?${query}`);
    source.onopen = () => {
      pause = PAUSES[0];
      listener.connected(true);
    };
    source.onerror = () => {
      if (isClosed) return;
      listener.connected(false);
      // The browser connects again by itself, but not after an error status.
      if (source?.readyState !== EventSource.CLOSED) return;
      disconnect();
      timer = window.setTimeout(connect, pause);
      pause = Math.min(pause * 2, PAUSES[1]);
    };
    for (const type of TYPES) source.addEventListener(type, (message) => heard(JSON.parse(message.data as string) as RunEvent));
  };
  /** Reads the answer of the request that started the run, for as long as it lasts. */
  const readFirst = async (reading: FirstEvents): Promise<void> => {
    let isOver = false;
    try {
      for (let events = begun?.events ?? null; events; events = await reading.next()) {
        if (isClosed || first !== reading) return;
        for (const event of events) {
          heard(event);
          isOver ||= ENDS.has(event.type);
        }
      }
    } catch {
      // The connection is lost.
    }
    if (isOver || isClosed || first !== reading) return;
    listener.connected(false);
    connect();
  };
  const visibility = (): void => {
    if (document.hidden) disconnect();
    else if (!source && !first) connect();
    if (frame) {
      cancelAnimationFrame(frame);
      flush();
    }
  };

  document.addEventListener('visibilitychange', visibility);
  if (first) void readFirst(first);
  else connect();
  return () => {
    isClosed = true;
    disconnect();
    cancelAnimationFrame(frame);
    document.removeEventListener('visibilitychange', visibility);
  };
}
