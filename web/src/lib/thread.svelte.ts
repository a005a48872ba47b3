// One conversation: its items, and the run that works in it.

import { fromEvent } from './artifacts';
import { ApiError, get, messageOf, part, post } from './api';
import { CodeEntry, type Entry, NoteEntry, UserEntry } from './entries.svelte';
import * as history from './history';
import { type Item, taken } from './items';
import { session } from './session.svelte';
import { type FirstEvents, type RunEvent, follow, start } from './stream';
import { text } from './text';

type Usage = { input_tokens: number; output_tokens: number; input_tokens_details?: { cached_tokens?: number } };
type Response = {
  id: string;
  status: string;
  output?: Item[];
  usage?: Usage | null;
  error?: { message?: string } | null;
  coracle?: { ended?: string; message?: string | null } | null;
};
type Items = { data: Item[]; has_more: boolean; last_id: string | null };

/** Number of items that are loaded at once. */
const PAGE = 50;

export class Thread {
  id = $state<string | null>(null);
  title = $state('');
  entries = $state.raw<Entry[]>([]);
  /** Whether older items can be loaded. */
  hasEarlier = $state(false);
  isLoading = $state(false);
  /** ID of the run that is under way. */
  run = $state<string | null>(null);
  isStarting = $state(false);
  isStopping = $state(false);
  isConnected = $state(true);
  /** How the last run ended, if it did not complete. */
  ending = $state<{ kind: 'stopped' | 'failed' | 'incomplete'; message: string } | null>(null);
  usage = $state.raw<Usage | null>(null);
  /** Why the conversation cannot be shown or continued. */
  problem = $state('');
  isMissing = $state(false);
  /** Counts changes, for views that follow the end. */
  version = $state(0);

  #close: (() => void) | null = null;
  #oldest: string | null = null;
  #added = 0;
  /** IDs of entries of the run that are not finished. */
  #open = new Set<string>();
  #isDiscarded = false;

  get isBusy(): boolean {
    return this.run !== null || this.isStarting;
  }

  /** Loads a conversation, and follows its run if there is one. */
  async open(id: string): Promise<void> {
    this.id = id;
    this.isLoading = true;
    try {
      const [{ title, run }] = await Promise.all([history.show(id), this.earlier()]);
      this.title = title;
      if (run) await this.#found(run);
    } catch (error) {
      this.isMissing = error instanceof ApiError && error.status === 404;
      this.problem = this.isMissing ? text.chat.missing : messageOf(error);
    } finally {
      this.isLoading = false;
    }
  }

  /** Loads older items. */
  async earlier(): Promise<void> {
    const query = new URLSearchParams({ limit: String(PAGE), order: 'desc' });
    if (this.#oldest) query.set('after', this.#oldest);
    const page = await get<Items>(`/v1/conversations/${part(this.id ?? '')}/items?${query}`);
    let older: Entry[] = [];
    for (const item of page.data.reverse()) older = taken(older, item);
    this.#oldest = page.last_id ?? this.#oldest;
    this.hasEarlier = page.has_more;
    const known = new Set(this.entries.map((entry) => entry.id));
    this.entries = [...older.filter((entry) => !known.has(entry.id)), ...this.entries];
    this.version += 1;
  }

  async #found(run: string): Promise<void> {
    try {
      const response = await get<Response>(`/v1/responses/${part(run)}`);
      if (response.status === 'in_progress' || response.status === 'queued') this.#follow(run);
      else this.#ended(response);
    } catch (error) {
      // The run may have been deleted; the conversation can be read without it.
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }

  /** Sends a message; without one, the agent goes on with what it has. Returns whether it was accepted. */
  async send(message: string, model: string): Promise<boolean> {
    if (this.isBusy) return false;
    this.isStarting = true;
    this.problem = '';
    this.ending = null;
    const before = this.entries;
    if (message) {
      this.#added += 1;
      this.entries = [...before, new UserEntry(`new-${this.#added}`, message, [])];
      this.version += 1;
    }
    try {
      if (!this.id) {
        this.title = history.titleOf(message);
        this.id = await history.create(this.title);
      }
      const { run, ...begun } = await start({
        ...(model ? { model } : {}),
        input: message ? [{ role: 'user', content: message }] : [],
        conversation: this.id,
        background: true,
        coracle: { events: true },
      });
      this.usage = null;
      this.#follow(run, begun);
      return true;
    } catch (error) {
      this.entries = before;
      this.problem = messageOf(error);
      return false;
    } finally {
      this.isStarting = false;
    }
  }

  async stop(): Promise<void> {
    if (!this.run || this.isStopping) return;
    this.isStopping = true;
    try {
      await post(`/v1/responses/${part(this.run)}/cancel`);
    } catch (error) {
      this.problem = messageOf(error);
      this.isStopping = false;
    }
  }

  /** Stops listening. The run goes on. */
  discard(): void {
    this.#isDiscarded = true;
    this.#close?.();
    this.#close = null;
  }

  #follow(run: string, begun?: { events: RunEvent[]; first: FirstEvents }): void {
    if (this.#isDiscarded) return;
    this.#close?.();
    this.run = run;
    this.isStopping = false;
    this.isConnected = true;
    this.#open.clear();
    const listener = {
      events: (events: RunEvent[]) => {
        for (const event of joined(events)) this.#take(event);
        this.version += 1;
      },
      connected: (isConnected: boolean) => {
        this.isConnected = isConnected;
        if (!isConnected) void session.check();
      },
    };
    this.#close = follow(run, listener, begun);
  }

  #entry<K extends Entry['kind']>(event: RunEvent, kind: K): Extract<Entry, { kind: K }> | undefined {
    const entry = this.entries.findLast((one) => one.id === event.item_id);
    return entry?.kind === kind ? (entry as Extract<Entry, { kind: K }>) : undefined;
  }

  #take(event: RunEvent): void {
    switch (event.type) {
      case 'response.created':
        // Another attempt after the server was restarted: what was not finished begins again.
        this.entries = this.entries.filter((entry) => !this.#open.has(entry.id));
        this.#open.clear();
        break;
      case 'response.output_item.added': {
        const item = event.item as Item;
        const known = this.entries.find((entry) => entry.id === item.id);
        // What is complete already was loaded with the conversation.
        if (known && 'progress' in known && (known.progress === 'done' || known.progress === 'failed')) break;
        this.#open.add(item.id);
        this.entries = taken(this.entries, item);
        break;
      }
      case 'response.output_item.done': {
        const item = event.item as Item;
        this.#open.delete(item.id);
        this.entries = taken(this.entries, item);
        break;
      }
      case 'response.output_text.delta': {
        const entry = this.#entry(event, 'text');
        if (entry?.progress === 'running') entry.markdown.append(String(event.delta));
        break;
      }
      case 'response.reasoning_summary_text.delta': {
        const entry = this.#entry(event, 'reasoning');
        if (entry?.progress === 'running') entry.text += String(event.delta);
        break;
      }
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        this.#ended(event.response as Response);
        break;
      default: {
        const entry = this.#entry(event, 'code');
        if (entry) takeCall(entry, event);
        else if (event.type === 'response.coracle.compacted') {
          this.entries = [...this.entries, new NoteEntry(`note-${event.sequence_number}`, 'compacted')];
        }
      }
    }
  }

  #ended(response: Response): void {
    this.#close?.();
    this.#close = null;
    this.run = null;
    this.isStopping = false;
    this.isConnected = true;
    for (const item of response.output ?? []) {
      // Only what the conversation does not show yet; a long one may not have been loaded to its beginning.
      if (!this.hasEarlier || this.entries.some((entry) => entry.id === item.id)) {
        this.entries = taken(this.entries, item);
      }
    }
    for (const entry of this.entries) {
      if ('progress' in entry && entry.progress === 'running') entry.progress = 'stopped';
    }
    this.usage = response.usage ?? null;
    const message = response.coracle?.message ?? response.error?.message ?? '';
    const kinds = { cancelled: 'stopped', failed: 'failed', incomplete: 'incomplete' } as const;
    const kind = kinds[response.status as keyof typeof kinds];
    this.ending = kind ? { kind, message } : null;
    this.version += 1;
  }
}

/** Joins successive pieces of the same text, so that each frame parses it once. */
function joined(events: RunEvent[]): RunEvent[] {
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
function takeCall(entry: CodeEntry, event: RunEvent): void {
  const number = Number(event.number);
  switch (event.type) {
    case 'response.coracle.output.delta':
      if (entry.progress === 'running') entry.more(String(event.delta));
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
      });
      break;
    case 'response.coracle.call.ended': {
      const call = (event.call ?? {}) as { ok?: boolean; ms?: number; bytes_out?: number; code?: string | null };
      entry.ended(number, {
        progress: call.ok ? 'done' : 'failed',
        ms: call.ms ?? 0,
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
      const artifact = fromEvent(event.artifact);
      if (artifact) entry.artifacts = [...entry.artifacts.filter((one) => one.name !== artifact.name), artifact];
      break;
    }
  }
}
