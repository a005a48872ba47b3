// Tools of MCP servers.

import { get } from './api';
import type { ToolList } from './generated/api';

/** A tool in a list. The document of the API describes it in words only. */
export type ListedTool = { server: string; name: string; summary?: string };
export type FoundTools = Omit<ToolList, 'tools'> & { tools: ListedTool[] };

export const list = (query: { server?: string; search?: string; limit: string }): Promise<FoundTools> =>
  get<FoundTools>(`/api/tools?${new URLSearchParams(query)}`);
