/** The API for generated modules and for code. */
declare module "coracle" {
  /** Calls a tool by its names on the wire. Rejects with a `ToolError`. */
  export function call(server: string, tool: string, args: object): Promise<any>;

  /** A search result: `name`, as in `github.list_issues`, and the fields of `detail_level`. */
  export interface FoundTool {
    name: string;
    [key: string]: any;
  }

  /** Finds tools by what they do, best first; without a query, any tools. Rejects with a `ToolError`. */
  export function search_tools(
    query?: string,
    options?: {
      server?: string | null;
      category?: string | null;
      detail_level?: "name" | "summary" | "full" | "python" | "typescript";
      /** At most 100. Defaults to 10. */
      limit?: number;
    },
  ): Promise<FoundTool[]>;

  /**
   * Records progress in the log of the session, with information for the next program. When it resolves, the checkpoint
   * is on the disk. Rejects with a `ToolError`, also without a session.
   */
  export function checkpoint(step: string, context?: any): Promise<void>;

  /**
   * Saves code under a name, so that later programs can import it from "skills/NAME", or adds a version to that name.
   * `example` is a program that uses it: it is run in a sandbox first, and if it fails, nothing is saved.
   */
  export function save_skill(
    name: string,
    code: string,
    options?: {
      description?: string;
      tags?: string | string[];
      example?: string;
      /** Tools as `server.tool`. Defaults to those that the imports name. */
      tools?: string[];
      language?: "typescript" | "python";
      author?: string;
    },
  ): Promise<{ name: string; version: number; [key: string]: any }>;

  /** Returns the source of a saved skill, by default of its newest version. */
  export function load_skill(name: string, version?: number | null): Promise<string>;

  /** Returns all saved skills. */
  export function list_skills(): Promise<{ name: string; [key: string]: any }[]>;

  /** Finds skills by what they do, best first: saved code, and instructions. */
  export function search_skills(query?: string, limit?: number): Promise<{ name: string; [key: string]: any }[]>;

  /** Deletes a saved skill with all its versions. */
  export function delete_skill(name: string): Promise<string>;

  /** Returns the instructions with this name (`SKILL.md`), or a file beside them. */
  export function get_skill(name: string, path?: string | null): Promise<string>;

  /** Returns the text with tokens such as `[EMAIL_3f9a1c0d5e7b2a64]` instead of the personal data in it. */
  export function tokenize_pii(text: string): Promise<string>;

  /** Returns the text with what its tokens stand for. Refused where code must not see personal data. */
  export function detokenize_pii(text: string): Promise<string>;

  /** A tool call failed. */
  export class ToolError extends Error {
    readonly server: string;
    readonly tool: string;
    readonly code: string;
    /** Whether the same call may succeed later. */
    readonly retryable: boolean;
    constructor(server: string, tool: string, code: string, message: string, retryable?: boolean);
  }

  /** A file that a tool returned. */
  export class MediaFile {
    readonly path: string;
    readonly mime: string;
    readonly size: number;
    /** The URI, if it is a resource. */
    readonly uri?: string;
    readBytes(): Uint8Array;
  }
}
