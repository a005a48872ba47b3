/** What an execution has left, as far as the page shows it. The document of the API does not describe it. */
export type Outcome = {
  success?: boolean;
  stdout?: string;
  stderr?: string;
  result?: unknown;
  error?: string;
  traceback?: string;
  execution_time_ms?: number;
};

/** A value as text: texts as they are, all else as indented JSON. */
export const readable = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
