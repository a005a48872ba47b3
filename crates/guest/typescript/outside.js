// Replaces the module `coracle` outside a sandbox, for modules written by `coracle tools generate`: they can be
// imported anywhere, and a call is rejected with an error that says where it would work.
const WHERE =
  "tools can only be called inside a Coracle sandbox; run this program with `coracle exec FILE`, " +
  "or pass it to the `execute_code` tool of `coracle mcp`";

export class ToolError extends Error {
  constructor(server, tool, code, message, retryable = false) {
    super(message);
    this.name = "ToolError";
    Object.assign(this, { server, tool, code, retryable });
  }
}

export class MediaFile {}

const refuse = (server, tool) => Promise.reject(new ToolError(server, tool, "outside_sandbox", WHERE));
const own = (name) => () => refuse("coracle", name);

export const call = (server, tool) => refuse(server, tool);
export const search_tools = own("search_tools");
export const checkpoint = own("checkpoint");
export const save_skill = own("save_skill");
export const load_skill = own("load_skill");
export const list_skills = own("list_skills");
export const search_skills = own("search_skills");
export const delete_skill = own("delete_skill");
export const get_skill = own("get_skill");
export const tokenize_pii = own("tokenize_pii");
export const detokenize_pii = own("detokenize_pii");
