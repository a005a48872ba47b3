/** What generated modules import, and what code may use by hand. */
declare module "coracle" {
  /** Calls a tool by its names on the wire. Rejects with a `ToolError`. */
  export function call(server: string, tool: string, args: object): Promise<any>;

  /** A call of a tool failed. */
  export class ToolError extends Error {
    readonly server: string;
    readonly tool: string;
    readonly code: string;
    /** Whether the same call may go well later. */
    readonly retryable: boolean;
    constructor(server: string, tool: string, code: string, message: string, retryable?: boolean);
  }

  /** A file that a tool returned. */
  export class MediaFile {
    readonly path: string;
    readonly mime: string;
    readonly size: number;
    /** Where it is from, if it is a resource. */
    readonly uri?: string;
    readBytes(): Uint8Array;
  }
}
