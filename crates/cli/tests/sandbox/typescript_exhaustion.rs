//! The exhaustion tests through TypeScript: each limit has its own error code, never a hang; nothing is left, the next
//! execution works, and so does the same code just below the limit.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{assert_settled, json};
use serde_json::{Value, json as value};

const SHORT: &[&str] = &["--timeout", "1"];
const SMALL: &[&str] = &["--memory", "100", "--timeout", "60"];

/// Code above a limit, the error codes that may name it, and code just below the limit.
struct Case {
    name: &'static str,
    code: &'static str,
    limits: &'static [&'static str],
    ends: &'static [&'static str],
    control: &'static str,
    gives: Value,
}

/// Runs cases. `ends` has several codes if the engine may notice before the kernel.
fn try_all(who: As, cases: &[Case]) {
    let coracle = Coracle::new(who);
    for Case { name, code, limits, ends, control, gives } in cases {
        let ran = json(&coracle, "typescript", code, limits);
        let execution = ran.json();
        let ended = execution["error_code"].as_str().unwrap_or("success");
        assert!(ends.contains(&ended), "{name} as {who:?}: {ended}, must be {ends:?}: {execution:#}");
        assert!(execution["error"].is_string(), "{name} as {who:?}: {execution:#}");
        assert_settled(&coracle, &ran, name);
        let execution = json(&coracle, "typescript", control, &[]).json();
        assert_eq!(&execution["result"], gives, "control of {name} as {who:?}: {execution:#}");
    }
}

each_user!(endless_code_times_out);
fn endless_code_times_out(who: As) {
    let endless = |name, code, control, gives| Case { name, code, limits: SHORT, ends: &["timeout"], control, gives };
    try_all(
        who,
        &[
            endless(
                "a regular expression with nested repeats",
                "/^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(100))",
                "/^(([a-z])+.)+[A-Z]([a-z])+$/.test('aBc')",
                value!(false),
            ),
            endless(
                "a regular expression with references",
                "/^(?=(.*))(?:\\1|.)*(a|aa)+\\1$/.test('a'.repeat(40) + 'b')",
                "/(a)\\1/.test('aa')",
                value!(true),
            ),
            endless(
                "a regular expression with alternatives, replaced everywhere",
                "'a'.repeat(60).replace(/(a|a)*b/g, 'x').length",
                "'aab'.replace(/(a|a)*b/g, 'x')",
                value!("x"),
            ),
            endless(
                "promises that beget promises",
                "const again = (): Promise<void> => Promise.resolve().then(again); await again()",
                "let n = 0; const again = (): unknown => ++n < 1000 ? Promise.resolve().then(again) : n; await again()",
                value!(1000),
            ),
            endless(
                "an async generator without an end",
                "async function* all() { while (true) yield 1 } for await (const _ of all()) {}",
                "async function* some() { yield 1; yield 2 } let n = 0; for await (const each of some()) n += each; n",
                value!(3),
            ),
            endless(
                "a thenable that never answers and a timer that never stops",
                "setInterval(() => {}, 0); await { then() {} }",
                "await { then(done: (n: number) => void) { done(7) } }",
                value!(7),
            ),
            endless(
                "a comparison that lies",
                "const a = [3, 2, 1]; a.sort(() => { while (true) {} })",
                "[3, 2, 1].sort((a, b) => a - b)",
                value!([1, 2, 3]),
            ),
            endless(
                "a setter, a getter and a proxy",
                "const p: any = new Proxy({}, { get() { while (true) {} } }); p.x",
                "const p: any = new Proxy({}, { get() { return 5 } }); p.x",
                value!(5),
            ),
            endless(
                "text made of an object",
                "`${{ toString() { while (true) {} } }}`",
                "`${{ toString() { return 'x' } }}`",
                value!("x"),
            ),
            endless(
                "the result itself",
                "({ toJSON() { while (true) {} } })",
                "({ toJSON() { return 'told' } })",
                value!("told"),
            ),
            endless(
                "what is printed",
                "console.log({ get endless() { while (true) {} }, toJSON() { while (true) {} } }); while (true) {}",
                "console.log({ get a() { return 1 } }); 1",
                value!(1),
            ),
            endless(
                "a catch that goes on",
                "while (true) { try { throw new Error('x') } catch {} finally { continue } }",
                "let n = 0; try { throw new Error('x') } catch { n = 1 } n",
                value!(1),
            ),
            endless(
                "a module that never ends",
                "writeFile('/tmp/endless.ts', 'while (true) {}'); await import('/tmp/endless.ts')",
                "writeFile('/tmp/short.ts', 'export default 8'); (await import('/tmp/short.ts')).default",
                value!(8),
            ),
            endless(
                "modules that wait for each other",
                "writeFile('/tmp/a.ts', 'await new Promise((r) => setTimeout(r, 1e9))'); await import('/tmp/a.ts')",
                "writeFile('/tmp/a.ts', 'await new Promise((r) => setTimeout(r, 1))'); await import('/tmp/a.ts'); 1",
                value!(1),
            ),
        ],
    );
}

each_user!(growing_memory_is_limited);
fn growing_memory_is_limited(who: As) {
    let grows = |name, code, control, gives| Case { name, code, limits: SMALL, ends: &["memory"], control, gives };
    try_all(
        who,
        &[
            grows(
                "a string that doubles",
                "let s = 'x'.repeat(1 << 20); const all = []; while (true) { all.push(s); s = s + s.length + s; if (s.length > 1 << 28) s = s.slice(0, 1 << 20) + all.length }",
                "'x'.repeat(1 << 20).length",
                value!(1 << 20),
            ),
            grows(
                "promises that nobody settles",
                "const all = []; while (true) all.push(new Promise(() => {}).then(() => 1))",
                "const all = []; for (let i = 0; i < 10_000; i++) all.push(new Promise(() => {})); all.length",
                value!(10_000),
            ),
            // If the engine notices before the kernel, each job without memory fails alone, and others continue.
            Case {
                name: "a queue of jobs",
                code: "const more = () => { for (let i = 0; i < 1000; i++) queueMicrotask(more) }; more(); await new Promise(() => {})",
                limits: &["--memory", "100", "--timeout", "10"],
                ends: &["memory", "timeout"],
                control: "let n = 0; for (let i = 0; i < 10_000; i++) queueMicrotask(() => n++); await new Promise((r) => setTimeout(r, 1)); n",
                gives: value!(10_000),
            },
            grows(
                "timers",
                "const f = 'x'.repeat(1000); while (true) setTimeout(() => f, 1e6, new Array(1000).fill(f))",
                "for (let i = 0; i < 1000; i++) clearTimeout(setTimeout(() => {}, 1e6)); 1",
                value!(1),
            ),
            grows(
                "a map",
                "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i, again: [i] })",
                "const m = new Map(); for (let i = 0; i < 10_000; i++) m.set(i, i); m.size",
                value!(10_000),
            ),
            grows(
                "closures",
                "let f: any = () => 1; const all: any[] = []; while (true) { const g = f; f = () => g; all.push(new Array(100).fill(f)) }",
                "let f: any = () => 1; for (let i = 0; i < 100; i++) { const g = f; f = () => g() } f()",
                value!(1),
            ),
            grows(
                "symbols and names",
                "const o: any = {}; for (let i = 0; ; i++) { o['name of a property, number ' + i] = Symbol.for('symbol ' + i) }",
                "const o: any = {}; for (let i = 0; i < 1000; i++) o['n' + i] = Symbol.for('s' + i); Object.keys(o).length",
                value!(1000),
            ),
            grows(
                "buffers that are resized",
                "const all = []; while (true) { const b = new (ArrayBuffer as any)(1 << 20); new Uint8Array(b).fill(1); all.push(b) }",
                "new Uint8Array(new ArrayBuffer(1 << 20)).fill(1).length",
                value!(1 << 20),
            ),
            grows(
                "JSON",
                "let text = '[1]'; while (true) text = JSON.stringify([text, JSON.parse(text), text])",
                "JSON.parse(JSON.stringify([[1]]))",
                value!([[1]]),
            ),
            grows(
                "what is spread",
                "let a: number[] = [1]; while (true) a = [...a, ...a]",
                "[...[1], ...[2]]",
                value!([1, 2]),
            ),
            grows(
                "one array of all there is",
                "new Array(50_000_000).fill(1.5).length",
                "new Array(50_000).fill(1.5).length",
                value!(50_000),
            ),
        ],
    );
}

each_user!(impossible_operations_are_exceptions);
/// The engine refuses these with an exception that code may catch.
fn impossible_operations_are_exceptions(who: As) {
    let refused = |name, code, control, gives| Case { name, code, limits: &[], ends: &["exception"], control, gives };
    try_all(
        who,
        &[
            refused("a string of two gigabytes", "'x'.repeat(2 ** 31)", "'x'.repeat(3)", value!("xxx")),
            refused("an array that is too long", "new Array(-1)", "new Array(1).length", value!(1)),
            refused(
                "a number of a hundred million digits",
                "2n ** (2n ** 40n)",
                "(2n ** 64n).toString()",
                value!("18446744073709551616"),
            ),
            refused(
                "text that is nested a million times",
                "JSON.parse('['.repeat(1_000_000))",
                "JSON.parse('['.repeat(50) + ']'.repeat(50)).length",
                value!(1),
            ),
            refused(
                "code that is nested a million times",
                "eval('('.repeat(1_000_000) + '1' + ')'.repeat(1_000_000))",
                "eval('('.repeat(20) + '1' + ')'.repeat(20))",
                value!(1),
            ),
            refused(
                "recursion by way of a proxy",
                "const p: any = new Proxy({}, { get: (_, name, self) => self[name] }); p.x",
                "const p: any = new Proxy({ x: 2 }, { get: (it: any, name) => it[name] }); p.x",
                value!(2),
            ),
            refused(
                "recursion by way of a native function",
                "const f = (): any => [1].map(f); f()",
                "[1].map((n) => n + 1)",
                value!([2]),
            ),
            refused(
                "recursion by way of a regular expression",
                "const f = (): string => 'a'.replace(/a/, f); f()",
                "'a'.replace(/a/, () => 'b')",
                value!("b"),
            ),
            refused(
                "recursion by way of code of text",
                "(globalThis as any).f = () => eval('f()'); f()",
                "eval('1 + 1')",
                value!(2),
            ),
            refused(
                "waiting for another thread",
                "Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0); throw new Error('it came back')",
                "Atomics.add(new Int32Array(new SharedArrayBuffer(8)), 0, 3)",
                value!(0),
            ),
            refused(
                "a promise that nothing can settle",
                "await new Promise(() => {})",
                "await new Promise((done) => done(1))",
                value!(1),
            ),
            refused(
                "a module of five megabytes",
                "writeFile('/tmp/long.ts', '//' + 'x'.repeat(5 << 20)); await import('/tmp/long.ts')",
                "writeFile('/tmp/long.ts', '//' + 'x'.repeat(1 << 20) + '\\nexport default 4'); (await import('/tmp/long.ts')).default",
                value!(4),
            ),
        ],
    );
}

each_user!(output_and_errors_are_shortened);
fn output_and_errors_are_shortened(who: As) {
    let floods = |name, code, control, gives| Case {
        name,
        code,
        limits: &["--timeout", "60", "--memory", "2000"],
        ends: &["output"],
        control,
        gives,
    };
    try_all(
        who,
        &[
            floods(
                "errors that are printed",
                "while (true) console.error('e'.repeat(10_000))",
                "console.error('e'); 1",
                value!(1),
            ),
            floods(
                "both streams by turns",
                "for (let i = 0; ; i++) (i % 2 ? console.log : console.warn)('x'.repeat(5_000), i)",
                "for (let i = 0; i < 10; i++) (i % 2 ? console.log : console.warn)(i); 2",
                value!(2),
            ),
            floods(
                "from a timer",
                "setInterval(() => { for (let i = 0; i < 1000; i++) console.log('t'.repeat(1000)) }, 0)",
                "await new Promise<void>((done) => setTimeout(() => { console.log('t'); done() }, 1)); 3",
                value!(3),
            ),
        ],
    );
    let coracle = Coracle::new(who);
    // An error of a hundred megabytes is shortened, and a result of that size is summarized.
    let execution = json(&coracle, "typescript", "throw new Error('r'.repeat(1e8))", &["--memory", "2000"]).json();
    assert_eq!(execution["error_code"], "exception", "as {who:?}");
    assert!(execution["error"].as_str().unwrap().len() < 100_000, "as {who:?}");
    let execution = json(&coracle, "typescript", "'r'.repeat(1e8)", &["--memory", "2000"]).json();
    assert_eq!((&execution["success"], &execution["truncated"]), (&value!(true), &value!(true)), "as {who:?}");
    assert!(execution.to_string().len() < 1_000_000, "as {who:?}");
    let deep = "let o: any = 1; for (let i = 0; i < 1e6; i++) o = [o]; o";
    let execution = json(&coracle, "typescript", deep, &["--memory", "2000"]).json();
    assert!(execution["execution_id"].is_string() && execution.to_string().len() < 1_000_000, "as {who:?}");
    let execution = json(&coracle, "typescript", "[['small']]", &[]).json();
    assert_eq!((&execution["result"], &execution["truncated"]), (&value!([["small"]]), &value!(false)));
}
