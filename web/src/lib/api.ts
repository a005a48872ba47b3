// Requests to the public API of this server, as the user who is signed in to this browser.

/** An error of the server, or of the connection to it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** Whether the server could not be reached. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

/** Reads the message of an error in the form of `/api` or of `/v1`. */
export function problem(status: number, body: unknown): ApiError {
  const found = body as { error?: unknown; code?: unknown } | null;
  const error = found?.error;
  if (typeof error === 'string') return new ApiError(status, String(found?.code ?? ''), error);
  if (error && typeof error === 'object') {
    const { message, code } = error as { message?: unknown; code?: unknown };
    return new ApiError(status, String(code ?? ''), String(message ?? ''));
  }
  return new ApiError(status, '', `The server answered with status ${status}.`);
}

/** Sends a request; an answer that is an error becomes an exception. Files are sent as they are, all else as JSON. */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  more: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  // Requests that change something need this header; pages of other sites cannot send it.
  const headers: Record<string, string> = { 'x-coracle-csrf': '1', ...more };
  if (body !== undefined) headers['content-type'] = body instanceof Blob ? 'application/octet-stream' : 'application/json';
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      credentials: 'same-origin',
      ...(signal ? { signal } : {}),
      // Chromium answers requests for a file from a cached range of an older version of it.
      cache: 'range' in more ? 'no-store' : 'default',
      ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
    });
  } catch {
    throw new ApiError(0, 'unreachable', 'The server cannot be reached.');
  }
  if (!response.ok && response.status !== 304) throw problem(response.status, await json(response));
  return response;
}

async function json(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    // An answer that is not JSON comes from something in between, such as a proxy.
    return null;
  }
}

/** Sends a request and returns the body of the answer. */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  return (await json(await send(method, path, body))) as T;
}

/** Sends a request and returns the texts of the answer as they arrive. */
export async function stream(path: string, body: unknown): Promise<ReadableStreamDefaultReader<string>> {
  const response = await send('POST', path, body);
  if (!response.body) throw new ApiError(0, 'unreachable', 'The server sent no answer.');
  return response.body.pipeThrough(new TextDecoderStream()).getReader();
}

export const get = <T>(path: string): Promise<T> => call<T>('GET', path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => call<T>('POST', path, body);

/** The text of an error for people. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Encodes one part of a path. */
export const part = encodeURIComponent;
