// All escape attempts of TypeScript in one program. CANARY, a file of the host, and FOLDER, its folder, are inserted
// before this text. Each refused action is beside the same action where it is permitted.

const seen: string[] = [];
const failures: string[] = [];

async function refused(name: string, words: RegExp, act: () => unknown) {
  seen.push(name);
  try {
    const value = await act();
    failures.push(`${name} went through: ${String(value).slice(0, 200)}`);
  } catch (error) {
    if (!words.test(String(error))) failures.push(`${name}: ${String(error).slice(0, 200)}`);
  }
}

async function works(name: string, expected: unknown, act: () => unknown) {
  seen.push(name);
  try {
    const value = JSON.stringify(await act());
    if (value !== JSON.stringify(expected)) failures.push(`the control ${name} gave ${value}`);
  } catch (error) {
    failures.push(`the control ${name}: ${String(error).slice(0, 200)}`);
  }
}

const READ = /^Error: cannot read /;
const WRITE = /^Error: cannot write /;
const IMPORT = /^Error: cannot import /;

// The host's files, in every way to access a file. `link` and `link.json` in the workspace point to the canary.
for (const path of [CANARY, `/workspace/../../..${CANARY}`, "/workspace/link", `/proc/1/root${CANARY}`, `/proc/self/root/..${CANARY}`]) {
  await refused(`read ${path}`, READ, () => readFile(path));
  await refused(`read the bytes of ${path}`, READ, () => readBytes(path));
  await refused(`delete ${path}`, /^Error: cannot delete /, () => {
    if (path === "/workspace/link") throw new Error("cannot delete it: then the next probe would have none");
    return deleteFile(path);
  });
}
await refused("list the folder of the canary", /^Error: not a folder/, () => listFiles(FOLDER));
await works("list what is beside the root", [], () => listFiles("/..", "../*canary*"));
await works("read a file of one's own", "own", () => readFile("/workspace/own.txt"));
await works("read it by a link", "own", () => readFile("/workspace/own-link"));
await works("read its bytes", [111, 119, 110], () => Array.from(readBytes("/workspace/own.txt") as Uint8Array));
await works("list one's own folder", ["/workspace/own.txt"], () => listFiles("/workspace", "own.t*"));

// Modules of the host, and of the runner itself.
for (const name of [
  CANARY, "/workspace/link.json", "./link.json", "/proc/self/environ", "/proc/1/environ", "/etc/passwd", "/usr/bin/env",
  "/coracle/coracle_guest/agent.py", "/coracle/bin/coracle", "servers/../../etc/passwd", "skills/../../etc/passwd",
  "../etc/passwd", "./passwd.json", "file:///etc/passwd", "http://127.0.0.1/x.js", "https://example.com/x.js",
  "data:text/javascript,export default 1", "node:fs", "fs", "fs/promises", "child_process", "os", "std", "qjs:os",
  "qjs:std", "bjson", "coracle:base", "coracle:tools", "coracle:imports/1", "coracle/../etc/passwd", "", ".", "..", "/",
  "x".repeat(100_000),
]) {
  await refused(`import ${name.slice(0, 50)}`, IMPORT, () => import(name));
}
await refused("import a name that is cut", /Error/, () => import("./own\0.json"));
await works("import a file of one's own", { own: true }, async () => (await import("/workspace/own.json")).default);
await works("import it by a relative name", { own: true }, async () => (await import("./own.json")).default);
await works("import what is there for everybody", "function", async () => typeof (await import("coracle")).call);

// Read-only files, missing files, and files of others.
for (const path of [
  "/x", "/usr/x", "/bin/x", "/etc/passwd", "/coracle/x", "/coracle/bin/coracle", "/coracle/coracle_guest/agent.py", "/proc/self/exe", "/coracle/servers/x.ts", "/coracle/skills/x",
  "/skills/x", "/tools/x", "/proc/self/mem", "/proc/self/oom_score_adj", "/proc/1/mem", "/proc/sys/kernel/hostname",
  "/sys/x", "/dev/mem", "/dev/x", "/run/x", "/var/x", "/root/x", "/home/x",
]) {
  await refused(`write ${path}`, WRITE, () => writeFile(path, "x"));
}
for (const path of ["/workspace/made", "/workspace/deep/er/made", "/tmp/made", "/artifacts/made"]) {
  await works(`write ${path}`, `Successfully wrote 1 bytes to ${path}`, () => writeFile(path, "x"));
  await works(`delete ${path}`, `Deleted ${path}`, () => deleteFile(path));
}
for (const path of ["/etc/passwd", "/usr/bin/env", "/coracle/bin/tool", "/proc/self/exe", "/dev/null"]) {
  await refused(`delete ${path}`, /^Error: cannot delete /, () => deleteFile(path));
}

// Processes, devices and sockets, as far as they are files.
for (const path of [
  "/proc/self/mem", "/proc/self/maps", "/proc/self/environ", "/proc/self/cmdline", "/proc/self/mountinfo",
  "/proc/self/status", "/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/2/environ", "/proc/kcore", "/proc/kmsg",
  "/dev/mem", "/dev/kmsg", "/dev/port", "/sys/kernel/notes", "/run/docker.sock", "/var/run/docker.sock", "/root/.ssh/id_rsa",
  "/etc/shadow",
]) {
  await refused(`read ${path}`, READ, () => readBytes(path));
}
await works("read what every sandbox has", "coracle\n", () => readFile("/etc/hostname"));

// The channel to the agent, which could be used to forge calls: it is standard input, and no file refers to it.
for (const path of ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/1/fd/3", "/proc/1/fd/4", "/dev/fd/3"]) {
  await refused(`read ${path}`, READ, () => readBytes(path));
  await refused(`write ${path}`, WRITE, () => writeFile(path, '\0\0\0\x0b{"type":"x"}'));
}

// Evaluation of text: such code has the same access as other code, and none to the runner.
const makers = [
  eval, Function, Object.getPrototypeOf(async () => {}).constructor, Object.getPrototypeOf(function* () {}).constructor,
  (text: string) => (readFile as any).constructor(text)(), (text: string) => Reflect.construct(Function, [text])(),
];
for (const [number, make] of makers.entries()) {
  const reach = async (text: string) => {
    let value = make(make === eval ? `(() => { ${text} })()` : text);
    if (typeof value === "function") value = value();
    return value !== null && typeof value === "object" && "next" in value ? value.next().value : value;
  };
  await refused(`code of text ${number} reads the canary`, READ, () => reach(`return readFile(${JSON.stringify(CANARY)})`));
  await works(`code of text ${number} reads what is allowed`, "own", () => reach("return readFile('/workspace/own.txt')"));
}
const inner = ["native", "natives", "shared", "hooks", "primordials", "__coracle_exports", "scriptArgs", "Deno", "process", "require", "module", "WebAssembly", "Worker", "XMLHttpRequest", "navigator", "gc"];
await works("nothing of the runner is a global", [], () => inner.filter((name) => name in globalThis));
await works("a global of one's own is", true, () => { (globalThis as any).mine = 1; return "mine" in globalThis; });
await works("no caller is told", [], () => {
  const callers: unknown[] = [];
  const look = new Function("try { return arguments.callee.caller } catch { return undefined }");
  for (const value of [look(), (() => look())()]) if (value !== undefined && value !== null) callers.push(value);
  try { readFile({ toString() { callers.push(...[(readFile as any).caller, (readFile as any).arguments].filter((it) => it != null)); return "/x"; } } as any); } catch {}
  return callers;
});
await works("stacks hand out no functions", [], () => {
  const leaked: unknown[] = [];
  const before = (Error as any).prepareStackTrace;
  (Error as any).prepareStackTrace = (_: unknown, frames: any[]) => {
    for (const frame of Array.isArray(frames) ? frames : []) {
      for (const name of ["getFunction", "getThis"]) {
        const value = frame?.[name]?.();
        if (value !== undefined && value !== null && value !== globalThis) leaked.push(String(value).slice(0, 80));
      }
    }
    return "";
  };
  try { readFile("/missing"); } catch (error) { String((error as Error).stack); }
  (Error as any).prepareStackTrace = before;
  return leaked;
});

// The path refers to the sandbox's own `/tmp`. The test checks that the canary is unchanged.
await works("write where the canary is", `Successfully wrote 1 bytes to ${CANARY}`, () => writeFile(CANARY, "x"));

({ seen: seen.length, failures });
