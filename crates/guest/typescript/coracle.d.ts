/** What generated modules import, and what code may use by hand. */
declare module "coracle" {
  /** Calls a tool by its names on the wire. Rejects with a `ToolError`. */
  export function call(server: string, tool: string, args: object): Promise<any>;

  /** A tool that was found: `name`, as in `github.list_issues`, and what `detail_level` asks for. */
  export interface FoundTool {
    name: string;
    [key: string]: any;
  }

  /** Finds tools by what they do, best first; without a query, any. Rejects with a `ToolError`. */
  export function search_tools(
    query?: string,
    options?: {
      server?: string | null;
      category?: string | null;
      detail_level?: "name" | "summary" | "full" | "python" | "typescript";
      /** At most 100; 10 if nothing is said. */
      limit?: number;
    },
  ): Promise<FoundTool[]>;

  /**
   * Says in the log of the session where the work has come to, and what the next program should know. When it resolves,
   * that is on the disk. Rejects with a `ToolError`, also without a session.
   */
  export function checkpoint(step: string, context?: any): Promise<void>;

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
