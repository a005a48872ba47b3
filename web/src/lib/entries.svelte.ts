// What a conversation shows, one entry for each item. Only the fields that change while a run goes on are reactive.

import type { Artifact } from './artifacts';
import type { Sandbox } from './executions';
import { guessed } from './highlight';
import { Markdown } from './markdown.svelte';
import type { Message } from './message';

/** How far an entry is. */
export type Progress = 'running' | 'done' | 'failed' | 'stopped';

export type Citation = { name: string; uri: string };

export class UserEntry {
  readonly kind = 'user';
  constructor(
    readonly id: string,
    readonly message: Message,
  ) {}
}

export class TextEntry {
  readonly kind = 'text';
  readonly markdown = new Markdown();
  progress = $state<Progress>('running');
  citations = $state.raw<Citation[]>([]);
  constructor(readonly id: string) {}
}

export class ReasoningEntry {
  readonly kind = 'reasoning';
  text = $state('');
  progress = $state<Progress>('running');
  constructor(readonly id: string) {}
}

export type NestedCall = {
  number: number;
  server: string;
  tool: string;
  arguments: string;
  progress: Progress;
  /** Time since the begin of the execution, in milliseconds. Older records lack it. */
  began?: number | undefined;
  ms?: number;
  /** Sizes of the arguments and of the result. */
  bytesIn?: number;
  bytes?: number;
  code?: string;
};

export type Question = { approval: string; number: number; server: string; tool: string; reason: string; allowed?: boolean };

/** Maximum number of characters of live output that are kept. */
const MAX_LIVE = 64_000;

/** Code that runs in the sandbox. */
export class CodeEntry {
  readonly kind = 'code';
  language: 'python' | 'typescript' | 'bash' = 'python';
  code = $state('');
  progress = $state<Progress>('running');
  output = $state('');
  images = $state.raw<string[]>([]);
  calls = $state.raw<NestedCall[]>([]);
  questions = $state.raw<Question[]>([]);
  artifacts = $state.raw<Artifact[]>([]);
  waiting = $state.raw<string[]>([]);
  /** The sandbox, while the code runs in it. */
  sandbox = $state.raw<Sandbox | null>(null);
  /** Path of the whole output for code, if the model got only a part of it. */
  outputFile = $state('');
  /** ID of the execution, once it has ended. */
  execution = '';
  /** The ID of a call whose output is an item of its own. */
  callId = '';
  constructor(
    readonly id: string,
    code: string,
    language?: 'bash',
  ) {
    this.code = code;
    this.language = language ?? guessed(code);
  }

  more(delta: string): void {
    const all = this.output + delta;
    this.output = all.length > MAX_LIVE ? all.slice(-MAX_LIVE) : all;
  }

  began(call: NestedCall): void {
    this.calls = [...this.calls.filter((one) => one.number !== call.number), call];
  }

  ended(number: number, change: Partial<NestedCall>): void {
    this.calls = this.calls.map((call) => (call.number === number ? { ...call, ...change } : call));
  }

  asked(question: Question): void {
    this.questions = [...this.questions.filter((one) => one.approval !== question.approval), question];
  }

  answered(approval: string, allowed: boolean): void {
    this.questions = this.questions.map((one) => (one.approval === approval ? { ...one, allowed } : one));
  }
}

/** A call of another tool of the agent, such as a search. */
export class ToolEntry {
  readonly kind = 'tool';
  arguments = $state('');
  output = $state('');
  progress = $state<Progress>('running');
  constructor(
    readonly id: string,
    readonly name: string,
  ) {}
}

export class NoteEntry {
  readonly kind = 'note';
  constructor(
    readonly id: string,
    readonly note: 'compacted',
  ) {}
}

export type Entry = UserEntry | TextEntry | ReasoningEntry | CodeEntry | ToolEntry | NoteEntry;
