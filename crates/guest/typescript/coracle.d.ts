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

  /**
   * Saves code under a name, so that later programs say `import { … } from "skills/NAME"`; a further version if it is
   * there. `example` is a program that uses it: it is run in a sandbox first, and if it fails nothing is saved.
   */
  export function save_skill(
    name: string,
    code: string,
    options?: {
      description?: string;
      tags?: string | string[];
      example?: string;
      /** As `server.tool`; those that the imports name, if nothing is said. */
      tools?: string[];
      language?: "typescript" | "python";
      author?: string;
    },
  ): Promise<{ name: string; version: number; [key: string]: any }>;

  /** The source of a saved skill; of its newest version, if none is named. */
  export function load_skill(name: string, version?: number | null): Promise<string>;

  /** All saved skills. */
  export function list_skills(): Promise<{ name: string; [key: string]: any }[]>;

  /** Finds skills by what they do, best first: saved code, and instructions. */
  export function search_skills(query?: string, limit?: number): Promise<{ name: string; [key: string]: any }[]>;

  /** Deletes a saved skill with all its versions. */
  export function delete_skill(name: string): Promise<string>;

  /** The text of the instructions of this name (`SKILL.md`), or of a file beside them. */
  export function get_skill(name: string, path?: string | null): Promise<string>;

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
