// Messages that are sent one after the other when the run has ended. The server keeps and sends them, so that they do not
// need this page.

import { call, get, messageOf, part, post } from './api';
import type { Queue as Listed } from './generated/api';
import { type Message, type SentFile, steeringOf } from './message';
import { preferences, queueKey, store, stored } from './preferences.svelte';
import { session } from './session.svelte';

export type Queued = { id: string; text: string; files: SentFile[] };

/** Tabs tell each other which queues they have changed. */
const CHANNEL = 'coracle.queues';

/** Messages that an earlier version of this page has kept in the browser. */
function kept(conversation: string): Message[] {
  try {
    const { messages = [] } = JSON.parse(stored(queueKey(conversation))) as { messages?: Partial<Message>[] };
    return messages.map(({ text = '', files = [] }) => ({ text, files, images: [] }));
  } catch {
    return [];
  }
}

export class Queue {
  messages = $state.raw<Queued[]>([]);
  /** Whether the messages wait until the user sends them, for example after a stop. */
  isHeld = $state(false);
  /** Why the queue could not be read or changed, or its next message not sent. */
  problem = $state('');
  /** ID of the message that is being edited. */
  editing = $state<string | null>(null);

  #conversation: string | null = null;
  #channel = new BroadcastChannel(CHANNEL);
  /** Messages that were added before the conversation had an ID. */
  #early: Message[] = [];
  /** Requests are made one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#channel.onmessage = ({ data }: MessageEvent<string>) => {
      if (data === this.#conversation) void this.load();
    };
  }

  /** Whether the next message is sent when the run ends. */
  get isActive(): boolean {
    return this.messages.length > 0 && !this.isHeld;
  }

  /** Uses the queue of a conversation, after what has been added before it had an ID. */
  async attach(conversation: string): Promise<void> {
    if (this.#conversation) return;
    this.#conversation = conversation;
    const early = [...kept(conversation), ...this.#early];
    this.#early = [];
    store(queueKey(conversation), '');
    for (const message of early) await this.add(message);
    if (early.length === 0) await this.load();
  }

  discard(): void {
    this.#channel.close();
  }

  /** Reads the queue, which other tabs and devices change, too. */
  async load(): Promise<void> {
    await this.#ask((address) => get<Listed>(address), false);
  }

  /** Adds a message. Returns whether it was accepted. */
  async add(message: Message, isFirst = false): Promise<boolean> {
    if (!this.#conversation) {
      this.#early = isFirst ? [message, ...this.#early] : [...this.#early, message];
      this.messages = this.#early.map(({ text, files }, index) => ({ id: `early-${index}`, text, files }));
      return true;
    }
    const body = {
      ...steeringOf(message),
      ...(session.model ? { model: session.model } : {}),
      ...(preferences.plans ? { mode: 'plan' } : {}),
      ...(isFirst ? { first: true } : {}),
    };
    return this.#ask((address) => post<Listed>(address, body));
  }

  remove(id: string): Promise<boolean> {
    if (this.editing === id) this.editing = null;
    return this.#ask((address) => call<Listed>('DELETE', `${address}/${part(id)}`));
  }

  change(id: string, text: string): Promise<boolean> {
    return this.#ask((address) => call<Listed>('PATCH', `${address}/${part(id)}`, { text }));
  }

  /** Moves a message by one place. */
  async move(id: string, by: -1 | 1): Promise<boolean> {
    const order = this.messages.map((one) => one.id);
    const from = order.indexOf(id);
    const other = order[from + by];
    if (from < 0 || other === undefined) return false;
    [order[from], order[from + by]] = [other, id];
    return this.#ask((address) => call<Listed>('PATCH', address, { order }));
  }

  clear(): Promise<boolean> {
    this.editing = null;
    return this.#ask((address) => call<Listed>('DELETE', address));
  }

  /** Sends nothing until the user says so. */
  async hold(): Promise<boolean> {
    return this.messages.length === 0 || this.isHeld || this.#ask((address) => call<Listed>('PATCH', address, { held: true }));
  }

  resume(): Promise<boolean> {
    return this.#ask((address) => call<Listed>('PATCH', address, { held: false }));
  }

  /** Makes a request and takes over the queue in its answer. Returns whether it succeeded. */
  #ask(request: (address: string) => Promise<Listed>, isChange = true): Promise<boolean> {
    const conversation = this.#conversation;
    if (!conversation) return Promise.resolve(false);
    const asked = this.#last.then(async () => {
      try {
        this.#take(await request(`/api/conversations/${part(conversation)}/queue`));
        if (isChange) this.#tell(conversation);
        return true;
      } catch (error) {
        // A conversation that does not exist says so itself.
        if (isChange) this.problem = messageOf(error);
        return false;
      }
    });
    this.#last = asked;
    return asked;
  }

  #tell(conversation: string): void {
    try {
      this.#channel.postMessage(conversation);
    } catch {
      // The conversation is not shown any more.
    }
  }

  #take({ messages, held, problem }: Listed): void {
    this.messages = messages.map(({ id, text, files }) => ({
      id,
      text,
      files: files.map((file) => ({ id: file.id, name: file.name, bytes: file.bytes, isShown: file.is_shown })),
    }));
    this.isHeld = held;
    this.problem = problem ?? '';
    if (!messages.some((one) => one.id === this.editing)) this.editing = null;
  }
}
