// Messages that are sent one after the other when the run has ended. They are kept in the browser, as drafts are.

import type { Message, SentFile } from './message';
import { queueKey, store, stored } from './preferences.svelte';

export type Queued = { id: string; text: string; files: SentFile[] };
type Stored = { messages: Queued[]; isHeld: boolean };

const isQueued = (value: unknown): value is Queued => {
  const { id, text, files } = (value ?? {}) as Partial<Queued>;
  return typeof id === 'string' && typeof text === 'string' && Array.isArray(files);
};

function parsed(value: string): Stored {
  try {
    const { messages, isHeld } = JSON.parse(value) as Partial<Stored>;
    return { messages: (messages ?? []).filter(isQueued), isHeld: isHeld === true };
  } catch {
    return { messages: [], isHeld: false };
  }
}

export class Queue {
  messages = $state.raw<Queued[]>([]);
  /** Whether the messages wait until the user sends them, for example after a stop. */
  isHeld = $state(false);
  /** ID of the message that is being edited, and is not sent meanwhile. */
  editing = $state<string | null>(null);

  /** Whether this tab sends the messages: one of those that show the conversation does. */
  isSender = false;

  #key: string | null = null;
  #release: (() => void) | null = null;
  /** Whether the storage of the browser has these messages. */
  #isStored = false;
  #added = 0;

  /** Whether the next message is sent when the run ends. */
  get isActive(): boolean {
    return this.messages.length > 0 && !this.isHeld;
  }

  /** Uses the messages that are stored for a conversation, after those that have been added before it had an ID. */
  attach(conversation: string): void {
    if (this.#key) return;
    this.#key = queueKey(conversation);
    window.addEventListener('storage', this.#changed);
    const before = this.messages;
    this.#read();
    if (before.length > 0) this.#write([...before, ...this.messages]);
    this.#becomeSender(this.#key);
  }

  discard(): void {
    window.removeEventListener('storage', this.#changed);
    this.isSender = false;
    this.#release?.();
  }

  /** Waits until no other tab sends the messages. Browsers have locks on secure pages only. */
  #becomeSender(name: string): void {
    if (!('locks' in navigator)) {
      this.isSender = true;
      return;
    }
    const done = new Promise<void>((resolve) => (this.#release = resolve));
    void navigator.locks.request(name, () => {
      this.isSender = true;
      return done;
    });
  }

  add(message: Message): void {
    if (this.messages.length === 0) this.isHeld = false;
    this.#write([...this.messages, this.#made(message)]);
  }

  /** Adds a message that is sent before all others. */
  addFirst(message: Message): void {
    if (this.messages.length === 0) this.isHeld = false;
    this.#write([this.#made(message), ...this.messages]);
  }

  remove(id: string): void {
    if (this.editing === id) this.editing = null;
    this.#write(this.messages.filter((one) => one.id !== id));
  }

  change(id: string, text: string): void {
    this.#write(this.messages.map((one) => (one.id === id ? { ...one, text } : one)));
  }

  /** Moves a message by one place. */
  move(id: string, by: -1 | 1): void {
    const from = this.messages.findIndex((one) => one.id === id);
    const moved = this.messages[from];
    const other = this.messages[from + by];
    if (!moved || !other) return;
    this.#write(this.messages.map((one) => (one === moved ? other : one === other ? moved : one)));
  }

  clear(): void {
    this.editing = null;
    this.#write([]);
  }

  /** Sends nothing until the user says so. */
  hold(): void {
    if (this.messages.length === 0 || this.isHeld) return;
    this.isHeld = true;
    this.#write(this.messages);
  }

  resume(): void {
    this.isHeld = false;
    this.#write(this.messages);
  }

  /** Takes the next message out, unless it is being edited. */
  take(): Queued | null {
    this.#read();
    const first = this.messages[0];
    if (!first || this.isHeld || first.id === this.editing) return null;
    this.#write(this.messages.slice(1));
    return first;
  }

  /** Returns a message that could not be sent. */
  putBack(message: Queued, isHeld: boolean): void {
    this.isHeld = isHeld;
    this.#write([message, ...this.messages]);
  }

  #made({ text, files }: Message): Queued {
    this.#added += 1;
    return { id: `${Date.now().toString(36)}-${this.#added}-${Math.random().toString(36).slice(2, 8)}`, text, files };
  }

  #changed = (event: StorageEvent): void => {
    if (event.key === this.#key) this.#read();
  };

  #read(): void {
    const value = this.#key ? stored(this.#key) : '';
    // A browser that stores nothing has the messages of this tab only.
    if (!value && this.messages.length > 0 && !this.#isStored) return;
    const { messages, isHeld } = parsed(value);
    this.messages = messages;
    this.isHeld = isHeld;
    this.#isStored = true;
  }

  #write(messages: Queued[]): void {
    this.messages = messages;
    if (messages.length === 0) this.isHeld = false;
    if (!this.#key) return;
    const value: Stored = { messages, isHeld: this.isHeld };
    this.#isStored = store(this.#key, messages.length > 0 ? JSON.stringify(value) : '');
  }
}
