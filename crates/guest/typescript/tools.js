// The module `coracle`: the functions that generated modules of `servers/…` call, and tool search.
(function (native, shared) {
  "use strict";
  const { p } = shared;

  class ToolError extends p.Error {
    constructor(server, tool, code, message, retryable = false) {
      super(message);
      this.name = "ToolError";
      this.server = server;
      this.tool = tool;
      this.code = code;
      this.retryable = retryable;
    }
  }

  class MediaFile {
    constructor(path, mime, size, uri) {
      this.path = path;
      this.mime = mime;
      this.size = size;
      if (uri !== undefined) this.uri = uri;
    }
    toJSON() { return { type: "media", ...this }; }
    readBytes() { return native.readBytes(this.path); }
  }

  const isPlace = (value) =>
    value !== null && typeof value === "object" && p.isInteger(value.$media) && p.ownKeys(value).length === 1;

  // Media come beside the value, which contains placeholders for them.
  const unpack = (reply) => {
    if (reply === null || typeof reply !== "object") return reply;
    const media = p.isArray(reply.media) ? reply.media : [];
    if (media.length === 0) return reply.value;
    const files = media.map((part) => {
      const mime = p.String(part.mime);
      const { path, size } = native.saveMedia(mime, p.String(part.data));
      return new MediaFile(path, mime, size, part.uri);
    });
    const fill = (value) => (isPlace(value) && files[value.$media] !== undefined ? files[value.$media] : value);
    return p.isArray(reply.value) ? reply.value.map(fill) : fill(reply.value);
  };

  const ask = async (server, tool, method, params, stack) => {
    try {
      return await shared.ask(method, params);
    } catch (error) {
      if (error instanceof p.Error) throw error;
      const told = new ToolError(server, tool, p.String(error.code), p.String(error.message), error.retryable === true);
      p.defineProperty(told, "stack", { __proto__: null, value: stack, writable: true, configurable: true });
      throw told;
    }
  };

  const call = async (server, tool, args = {}) => {
    // Taken now, because after an await the engine no longer knows the caller.
    const { stack } = new p.Error();
    return unpack(await ask(server, tool, "tool", { __proto__: null, server, tool, arguments: args }, stack));
  };

  const search_tools = async (query = "", options = {}) => {
    const { stack } = new p.Error();
    return await ask("coracle", "search_tools", "search", { __proto__: null, ...options, query }, stack);
  };

  const checkpoint = async (step, context = null) => {
    const { stack } = new p.Error();
    await ask("coracle", "checkpoint", "checkpoint", { __proto__: null, step, context }, stack);
  };

  // Saved code that can be imported (`skills/NAME`), and instructions that can be read.
  const about = (act, tool) => async (params, stack) => await ask("coracle", tool, `skill.${act}`, params, stack);
  const asks = {
    save: about("save", "save_skill"),
    load: about("load", "load_skill"),
    list: about("list", "list_skills"),
    search: about("search", "search_skills"),
    delete: about("delete", "delete_skill"),
    get: about("get", "get_skill"),
  };
  const save_skill = async (name, code, options = {}) => {
    const { stack } = new p.Error();
    return await asks.save({ __proto__: null, language: "typescript", ...options, name, code }, stack);
  };
  const load_skill = async (name, version = null) => {
    const { stack } = new p.Error();
    return (await asks.load({ __proto__: null, name, version }, stack)).code;
  };
  const list_skills = async () => {
    const { stack } = new p.Error();
    return (await asks.list({ __proto__: null }, stack)).skills;
  };
  const search_skills = async (query = "", limit = 10) => {
    const { stack } = new p.Error();
    return (await asks.search({ __proto__: null, query, limit }, stack)).skills;
  };
  const delete_skill = async (name) => {
    const { stack } = new p.Error();
    await asks.delete({ __proto__: null, name }, stack);
    return `Deleted ${name}`;
  };
  const get_skill = async (name, path = null) => {
    const { stack } = new p.Error();
    return (await asks.get({ __proto__: null, name, path }, stack)).content;
  };

  // Tokens that stand for personal data.
  const personal = (act) => async (text) => {
    const { stack } = new p.Error();
    return await ask("coracle", `${act}_pii`, `pii.${act}`, { __proto__: null, text }, stack);
  };
  const tokenize_pii = personal("tokenize");
  const detokenize_pii = personal("detokenize");

  shared.exports = {
    call, search_tools, checkpoint, ToolError, MediaFile,
    save_skill, load_skill, list_skills, search_skills, delete_skill, get_skill, tokenize_pii, detokenize_pii,
  };
})
