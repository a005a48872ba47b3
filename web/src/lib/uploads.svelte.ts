// Files for the next message. They go into the workspace as soon as they are added.

import { call, part, problem } from './api';
import type { SentFile } from './message';
import { store, stored } from './preferences.svelte';
import { text } from './text';

/** Maximum number of files of a message. */
const MAX_FILES = 20;
/** Number of files that are uploaded at the same time. */
const AT_ONCE = 2;
/** Images that models take, and the maximum size up to which they get them without being asked to. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const MAX_SHOWN = 5_000_000;

export type UploadState = 'waiting' | 'uploading' | 'done' | 'failed';

export class Upload {
  state = $state<UploadState>('waiting');
  /** Share that is sent, from 0 to 1. */
  progress = $state(0);
  problem = $state('');
  /** Whether the model gets the file as an image. */
  isShown = $state(false);
  /** Address of the image in this page. */
  preview = '';
  id = '';
  #request: XMLHttpRequest | null = null;

  constructor(
    readonly key: number,
    readonly name: string,
    readonly bytes: number,
    readonly file: File | null,
  ) {
    if (file && IMAGES.has(file.type)) {
      this.preview = URL.createObjectURL(file);
      this.isShown = file.size <= MAX_SHOWN;
    }
  }

  fail(message: string): void {
    this.state = 'failed';
    this.problem = message;
  }

  /** Uploads the file. It never rejects. */
  start(): Promise<void> {
    const { file } = this;
    if (!file) return Promise.resolve();
    this.state = 'uploading';
    this.problem = '';
    this.progress = 0;
    return new Promise((resolve) => {
      // Only this kind of request tells its progress.
      const request = new XMLHttpRequest();
      this.#request = request;
      request.open('POST', '/v1/files');
      request.setRequestHeader('x-coracle-csrf', '1');
      request.responseType = 'json';
      request.upload.onprogress = (event) => {
        if (event.lengthComputable) this.progress = event.loaded / event.total;
      };
      request.onload = () => {
        if (request.status === 200) {
          this.id = String((request.response as { id?: string } | null)?.id ?? '');
          this.state = 'done';
        } else this.fail(problem(request.status, request.response).message);
      };
      request.onerror = () => this.fail(text.upload.unreachable);
      request.onloadend = () => resolve();
      const form = new FormData();
      form.append('purpose', 'user_data');
      form.append('file', file, this.name);
      request.send(form);
    });
  }

  /** Ends the upload, or deletes the file. */
  discard(): void {
    this.#request?.abort();
    if (this.preview) URL.revokeObjectURL(this.preview);
    if (this.id) deleteFiles([{ id: this.id, name: this.name, bytes: this.bytes }]);
  }
}

/** Deletes files that are not sent after all. A file that cannot be deleted only takes up space. */
export function deleteFiles(files: SentFile[]): void {
  for (const { id } of files) if (id) call('DELETE', `/v1/files/${part(id)}`).catch(() => {});
}

const keyFor = (conversation: string | null): string => `coracle.files.${conversation ?? 'new'}`;

export const forgetFiles = (conversation: string | null): void => void store(keyFor(conversation), '');

/** The files of the message that is being written. */
export class Uploads {
  list = $state.raw<Upload[]>([]);
  problem = $state('');
  #added = 0;
  #running = 0;

  get isEmpty(): boolean {
    return this.list.length === 0;
  }

  get isUploading(): boolean {
    return this.list.some((one) => one.state === 'waiting' || one.state === 'uploading');
  }

  get hasFailed(): boolean {
    return this.list.some((one) => one.state === 'failed');
  }

  add(files: Iterable<File>, folders: string[] = []): void {
    this.problem = '';
    for (const file of files) {
      if (this.list.length >= MAX_FILES) {
        this.problem = text.upload.tooMany(MAX_FILES);
        break;
      }
      const upload = new Upload((this.#added += 1), file.name, file.size, file);
      if (folders.includes(file.name)) upload.fail(text.upload.folder);
      this.list = [...this.list, upload];
    }
    this.#pump();
  }

  remove(upload: Upload): void {
    upload.discard();
    this.list = this.list.filter((one) => one !== upload);
    this.problem = '';
  }

  retry(upload: Upload): void {
    upload.state = 'waiting';
    this.#pump();
  }

  /** The files that are uploaded, as the message refers to them. */
  get files(): SentFile[] {
    return this.list
      .filter((one) => one.state === 'done')
      .map(({ id, name, bytes, isShown }) => ({ id, name, bytes, isShown }));
  }

  /** Addresses of the images that the model gets. */
  get previews(): string[] {
    return this.list.filter((one) => one.isShown && one.preview).map((one) => one.preview);
  }

  /** Empties the list without deleting the files. */
  clear(): void {
    this.list = [];
    this.problem = '';
  }

  restore(files: SentFile[]): void {
    this.list = files.map((file) => {
      const upload = new Upload((this.#added += 1), file.name, file.bytes, null);
      upload.id = file.id ?? '';
      upload.isShown = file.isShown ?? false;
      upload.state = 'done';
      return upload;
    });
  }

  /** Ends the uploads that are under way. */
  abort(): void {
    for (const upload of this.list) if (upload.state === 'waiting' || upload.state === 'uploading') upload.discard();
  }

  load(conversation: string | null): void {
    try {
      this.restore(JSON.parse(stored(keyFor(conversation)) || '[]') as SentFile[]);
    } catch {
      this.list = [];
    }
  }

  keep(conversation: string | null): void {
    store(keyFor(conversation), this.files.length > 0 ? JSON.stringify(this.files) : '');
  }

  #pump(): void {
    while (this.#running < AT_ONCE) {
      const next = this.list.find((one) => one.state === 'waiting');
      if (!next) return;
      this.#running += 1;
      void next.start().then(() => {
        this.#running -= 1;
        this.#pump();
      });
    }
  }
}
