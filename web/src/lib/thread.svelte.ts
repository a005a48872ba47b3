// One conversation: its items, and the run that works in it.

import { type Relatives, relatives } from './branches';
import { ApiError, get, messageOf, part, post } from './api';
import { type Entry, NoteEntry, UserEntry } from './entries.svelte';
import * as history from './history';
import { type Item, taken } from './items';
import { type Message, contentOf, isSame, steeringOf } from './message';
import { preferences } from './preferences.svelte';
import { Queue } from './queue.svelte';
import { joined, takeCall } from './run-events';
import { session } from './session.svelte';
import { type FirstEvents, type RunEvent, follow, start } from './stream';
import { text } from './text';

export type Usage = {
  input_tokens: number;
  output_tokens: number;
  input_tokens_details?: { cached_tokens?: number };
  output_tokens_details?: { reasoning_tokens?: number };
};
type Response = {
  id: string;
  status: string;
  output?: Item[];
  usage?: Usage | null;
  error?: { message?: string } | null;
  coracle?: { ended?: string; message?: string | null } | null;
};
type Items = { data: Item[]; has_more: boolean; last_id: string | null };

/** Tabs tell each other which runs they have started. */
type Started = { conversation: string; run: string };
const CHANNEL = 'coracle.runs';

/** Time between two looks for the run that a queued message starts, in milliseconds, and the number of these looks. */
const LOOK = 250;
const MAX_LOOKS = 40;
/** Number of items that are loaded at once. */
const PAGE = 50;

export class Thread {
  id = $state<string | null>(null);
  title = $state('');
  relatives = $state.raw<Relatives>({ origin: null, branches: [] });
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
  /** Tokens of all requests of the last run. */
  usage = $state.raw<Usage | null>(null);
  /** Estimated tokens of the context of the next request; `null` if they were not measured. */
  context = $state<number | null>(null);
  /** Why the conversation cannot be shown or continued. */
  problem = $state('');
  isMissing = $state(false);
  /** Messages for the run that no step has got yet. */
  steering = $state.raw<{ id: string; message: Message }[]>([]);
  /** Messages for the runs after this one. */
  readonly queue = new Queue();
  /** Counts changes, for views that follow the end. */
  version = $state(0);

  #channel = new BroadcastChannel(CHANNEL);
  #close: (() => void) | null = null;
  #oldest: string | null = null;
  #added = 0;
  /** ID of the last run that is known. */
  #known: string | null = null;
  /** IDs of entries of the run that are not finished. */
  #open = new Set<string>();
  #isDiscarded = false;
  #isFollowingQueue = false;

  constructor() {
    this.#channel.onmessage = ({ data }: MessageEvent<Started>) => {
      if (data.conversation === this.id && data.run !== this.run && !this.isStarting) void this.#reopen(this.id);
    };
  }

  get isBusy(): boolean {
    return this.run !== null || this.isStarting;
  }

  /** Shows a conversation, and follows its run if there is one. */
  async open(id: string): Promise<void> {
    this.id = id;
    await this.#load(id);
    if (this.isMissing) return;
    await this.queue.attach(id);
    if (this.queue.isActive && !this.isBusy) void this.followQueue();
  }

  async #load(id: string): Promise<void> {
    this.isLoading = true;
    try {
      const [{ title, run, metadata }] = await Promise.all([history.show(id), this.earlier()]);
      this.title = title;
      this.relatives = relatives(metadata);
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
    const later = this.#oldest ? this.entries : [];
    this.#oldest = page.last_id ?? this.#oldest;
    this.hasEarlier = page.has_more;
    const known = new Set(later.map((entry) => entry.id));
    this.entries = [...older.filter((entry) => !known.has(entry.id)), ...later];
    this.version += 1;
  }

  async #found(run: string): Promise<void> {
    this.#known = run;
    try {
      const response = await get<Response>(`/v1/responses/${part(run)}`);
      if (response.status === 'in_progress' || response.status === 'queued') this.#follow(run);
      else this.#ended(response);
    } catch (error) {
      // The run may have been deleted; the conversation can be read without it.
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }

  /** Shows the conversation as the server has it, with the run that another tab or device has started. */
  async #reopen(id: string): Promise<void> {
    this.#close?.();
    this.#close = null;
    this.run = null;
    this.#oldest = null;
    this.steering = [];
    this.ending = null;
    void this.queue.load();
    await this.#load(id);
  }

  /** Shows a run that was started somewhere else, for example on another device. */
  async look(): Promise<void> {
    const { id } = this;
    const isIdle = (): boolean => !this.isBusy && !this.isLoading && !this.#isDiscarded;
    if (!id || this.isMissing || !isIdle()) return;
    if (!this.queue.editing) void this.queue.load();
    const before = this.#known;
    // The next look may succeed.
    const run = await history.lastRun(id).catch(() => null);
    if (run && run !== before && before === this.#known && isIdle()) await this.#reopen(id);
  }

  /** Sends a message; without one, the agent goes on with what it has. Returns whether it was accepted. */
  async send(message: Message | null, model: string): Promise<boolean> {
    if (this.isBusy) return false;
    this.isStarting = true;
    this.problem = '';
    this.ending = null;
    const before = this.entries;
    if (message) {
      this.#added += 1;
      this.entries = [...before, new UserEntry(`new-${this.#added}`, message)];
      this.version += 1;
    }
    try {
      if (!this.id) {
        this.title = history.titleOf(message?.text || (message?.files ?? []).map((file) => file.name).join(', '));
        this.id = await history.create(this.title);
      }
      const { run, ...begun } = await start({
        ...(model ? { model } : {}),
        input: message ? [{ role: 'user', content: contentOf(message) }] : [],
        conversation: this.id,
        background: true,
        coracle: { events: true, ...(preferences.plans ? { mode: 'plan' } : {}) },
      });
      this.usage = null;
      this.#channel.postMessage({ conversation: this.id, run } satisfies Started);
      this.#follow(run, begun);
      // Not before: what was queued meanwhile comes after this message.
      void this.queue.attach(this.id);
      return true;
    } catch (error) {
      this.entries = before;
      this.problem = messageOf(error);
      if (this.id && isLocked(error)) await this.#reopen(this.id);
      return false;
    } finally {
      this.isStarting = false;
    }
  }

  /** Queues a message for when the run has ended. Returns whether it was accepted. */
  async enqueue(message: Message, isFirst = false): Promise<boolean> {
    const isAccepted = await this.queue.add(message, isFirst);
    if (!isAccepted) this.problem = this.queue.problem;
    // The run may have ended meanwhile, so that the message was sent at once.
    if (isAccepted && !this.isBusy) void this.followQueue();
    return isAccepted;
  }

  /** Shows the runs that the server starts with queued messages. */
  async followQueue(): Promise<void> {
    const { id } = this;
    if (!id || this.#isFollowingQueue) return;
    this.#isFollowingQueue = true;
    try {
      for (let looks = 0; looks < MAX_LOOKS && !this.isBusy && !this.#isDiscarded; looks += 1) {
        await this.queue.load();
        const runs = await history.runsAfter(id, this.#known);
        for (const run of runs) if (!this.isBusy && !this.#isDiscarded) await this.#adopt(run);
        if (runs.length > 0) looks = 0;
        else if (this.queue.isActive) await new Promise((done) => setTimeout(done, LOOK));
        else return;
      }
    } catch {
      // The page looks for runs from time to time anyway.
    } finally {
      this.#isFollowingQueue = false;
    }
  }

  /** Adds a run that was started with a queued message. */
  async #adopt(run: string): Promise<void> {
    const query = new URLSearchParams({ limit: '100', order: 'asc' });
    const [input, response] = await Promise.all([
      get<Items>(`/v1/responses/${part(run)}/input_items?${query}`),
      get<Response>(`/v1/responses/${part(run)}`),
    ]);
    if (this.isBusy || this.#isDiscarded) return;
    for (const item of input.data) this.entries = taken(this.entries, item);
    this.usage = null;
    this.ending = null;
    this.problem = '';
    this.version += 1;
    this.#known = run;
    if (response.status === 'in_progress' || response.status === 'queued') {
      this.#follow(run);
      return;
    }
    for (const item of response.output ?? []) this.entries = taken(this.entries, item);
    this.#ended(response);
  }

  /** Estimates the context of the next request. */
  async measure(): Promise<void> {
    const conversation = this.id;
    if (!conversation) return;
    try {
      this.context = (await post<{ input_tokens: number }>('/v1/responses/input_tokens', { conversation })).input_tokens;
    } catch {
      // It is not worth a message: the next run may have begun, or the conversation may be gone.
      this.context = null;
    }
  }

  /** Sends a message to the run that is under way. Returns whether it was accepted. */
  async steer(message: Message): Promise<boolean> {
    if (!this.run || !this.id) return false;
    this.#added += 1;
    const waiting = { id: `new-${this.#added}`, message };
    this.problem = '';
    this.steering = [...this.steering, waiting];
    try {
      await post(`/api/conversations/${part(this.id)}/steer`, steeringOf(message));
      return true;
    } catch (error) {
      this.steering = this.steering.filter((one) => one !== waiting);
      // The run has just ended: the message is sent next.
      if (error instanceof ApiError && error.status === 409) {
        return this.enqueue(message, true);
      }
      this.problem = messageOf(error);
      return false;
    }
  }

  async stop(): Promise<void> {
    if (!this.run || this.isStopping) return;
    this.isStopping = true;
    // A run that completes before it is stopped would send the next message.
    await this.queue.hold();
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
    this.queue.discard();
    this.#channel.close();
    this.#close?.();
    this.#close = null;
  }

  #follow(run: string, begun?: { events: RunEvent[]; first: FirstEvents }): void {
    if (this.#isDiscarded) return;
    this.#close?.();
    this.run = run;
    this.#known = run;
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
      case 'response.coracle.steered':
        this.#steered(event.item as Item);
        break;
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

  /** The model gets a message that was sent to the run, here or elsewhere. */
  #steered(item: Item): void {
    const before = this.entries.length;
    this.entries = taken(this.entries, item);
    const entry = this.entries.at(-1);
    if (this.entries.length === before || entry?.kind !== 'user') return;
    const place = this.steering.findIndex((one) => isSame(one.message, entry.message));
    if (place >= 0) this.steering = this.steering.filter((_, index) => index !== place);
  }

  #ended(response: Response): void {
    const wasFollowed = this.run !== null;
    this.#close?.();
    this.#close = null;
    this.run = null;
    this.isStopping = false;
    this.isConnected = true;
    if (response.output) {
      // What was begun and is not part of the result was given up, for example when the server was killed.
      const kept = new Set(response.output.map((item) => item.id));
      this.entries = this.entries.filter((entry) => !this.#open.has(entry.id) || kept.has(entry.id));
      this.#open.clear();
    }
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
    // Messages that no step has got stay in the conversation.
    this.entries = [...this.entries, ...this.steering.map((one) => new UserEntry(one.id, one.message))];
    this.steering = [];
    this.version += 1;
    // The server holds the queue, or has sent its next message.
    if (wasFollowed) void this.followQueue();
  }
}

/** Whether another run is under way in the conversation. */
const isLocked = (error: unknown): boolean => error instanceof ApiError && error.code === 'conversation_locked';
