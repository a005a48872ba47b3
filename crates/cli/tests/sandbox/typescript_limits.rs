//! TypeScript that exhausts resources or tampers with its results: the same limits as in Python, through QuickJS. Each
//! one has its own error code, and each denied action has a control. Escape attempts are in `typescript_escape.rs`.

use coracle_testing::harness::{Coracle, everybody};
use coracle_testing::outcome::{assert_settled, json};
use serde_json::{Value, json as value};

/// Runs code as all users; it must end with this error and leave nothing.
fn ends(name: &str, code: &str, more: &[&str], error_code: &str) -> Vec<Value> {
    let run = |coracle: &Coracle| {
        let ran = json(coracle, "typescript", code, more);
        let execution = ran.json();
        assert_eq!(execution["error_code"], error_code, "{name} as {:?}: {execution:#}", coracle.who);
        assert_settled(coracle, &ran, name);
        execution
    };
    everybody().iter().map(|who| run(&Coracle::new(*who))).collect()
}

/// Positive control: just below the limit, as all users.
fn works(name: &str, code: &str, expected: &Value) {
    for who in everybody() {
        let execution = json(&Coracle::new(*who), "typescript", code, &[]).json();
        assert_eq!(execution["success"], true, "{name} as {who:?}: {execution:#}");
        assert_eq!(&execution["result"], expected, "{name} as {who:?}");
    }
}

const SHORT: &[&str] = &["--timeout", "1"];

#[test]
fn loops_time_out() {
    ends("busy", "while (true) {}", SHORT, "timeout");
    ends(
        "microtasks",
        "const again = () => { queueMicrotask(again) }; again(); await new Promise(() => {})",
        SHORT,
        "timeout",
    );
    ends("interval", "setInterval(() => {}, 1)", SHORT, "timeout");
    ends("getter", "({ get a() { while (true) {} } })", SHORT, "timeout");
    ends("regex", "/^(a+)+$/.test('a'.repeat(60) + 'b')", SHORT, "timeout");
    ends("a long timer", "await new Promise((r) => setTimeout(r, 1e12))", SHORT, "timeout");
    works("a short timer", "await new Promise((r) => setTimeout(r, 100)); 1", &value!(1));
}

#[test]
fn memory_has_its_own_error_code() {
    let small = &["--memory", "100", "--timeout", "60"];
    for execution in ends("arrays", "const a = []; while (true) a.push(new Array(1000).fill(1.5))", small, "memory") {
        assert!(execution["hint"].as_str().is_some_and(|hint| hint.contains("memory")), "{execution:#}");
    }
    ends("buffers", "const a = []; while (true) a.push(new Uint8Array(1 << 20).fill(1))", small, "memory");
    ends("strings", "const a = []; while (true) a.push('x'.repeat(1 << 20) + a.length)", small, "memory");
    ends("one buffer", "new Uint8Array(2 ** 31 - 1).fill(1).length", small, "memory");
    works("a few megabytes", "new Uint8Array(8 << 20).fill(1).length", &value!(8 << 20));
}

#[test]
fn recursion_and_deep_nesting_are_exceptions() {
    for execution in ends("recursion", "const f = (): number => f() + 1;\nf()", &[], "exception") {
        assert_eq!(execution["error"], "RangeError: Maximum call stack size exceeded");
    }
    ends("by a getter", "const o: any = { get a() { return o.a } }; o.a", &[], "exception");
    ends("by toJSON", "const o: any = { toJSON() { return JSON.stringify(o) } }; o.toJSON()", &[], "exception");
    works(
        "recursion that ends",
        "const f = (n: number): number => n === 0 ? 0 : 1 + f(n - 1);\nf(5000)",
        &value!(5000),
    );
    for (open, close) in [("[", "]"), ("(", ")"), ("{", "}"), ("a?.[", "]"), ("`${", "}`")] {
        let code = format!("const a: any = 1; {}1{}", open.repeat(100_000), close.repeat(100_000));
        ends(open, &code, &["--timeout", "20"], "syntax");
        let code = format!("const a: any = 1; {}1{}; 7", open.repeat(40), close.repeat(40));
        let execution = json(&Coracle::new(everybody()[0]), "typescript", &code, &[]).json();
        assert_ne!(execution["error_code"], "syntax", "{open}: {execution:#}");
    }
    // Deep nesting without brackets: any outcome is accepted.
    for code in [
        "!".repeat(500_000) + "1",
        "1+".repeat(200_000) + "1",
        "a=>".repeat(100_000) + "1",
        "if(1){}else ".repeat(50_000) + "{}",
    ] {
        let coracle = Coracle::new(everybody()[0]);
        let ran = json(&coracle, "typescript", &code, &["--timeout", "20"]);
        assert!(ran.json()["execution_id"].is_string());
        assert_settled(&coracle, &ran, &code[..3]);
    }
}

#[test]
fn output_is_shortened_and_counted() {
    ends("a flood", "while (true) console.log('x'.repeat(10_000))", &["--timeout", "60"], "output");
    ends("one line", "const s = 'x'.repeat(30e6); console.log(s)", &["--timeout", "60"], "output");
    for who in everybody() {
        let execution =
            json(&Coracle::new(*who), "typescript", "for (let i = 0; i < 1000; i++) console.log(i)", &[]).json();
        assert_eq!(execution["stdout"].as_str().unwrap().lines().count(), 1000, "{who:?}");
    }
}

#[test]
fn many_timers_and_promises_work() {
    let timers = "let n = 0; for (let i = 0; i < 50_000; i++) setTimeout(() => n++, i % 10);\nawait new Promise((r) => setTimeout(r, 30)); n";
    works("timers", timers, &value!(50_000));
    works(
        "promises",
        "(await Promise.all(Array.from({ length: 100_000 }, async (_, i) => i))).length",
        &value!(100_000),
    );
}

#[test]
fn files_and_disk_have_their_own_error_codes() {
    ends(
        "too large a file",
        "const mb = new Uint8Array(1 << 20); let all = new Uint8Array(700 << 20); writeFile('/workspace/big', all)",
        &["--memory", "4000", "--timeout", "60"],
        "disk",
    );
    ends(
        "a full /tmp",
        "const mb = new Uint8Array(10 << 20); for (let i = 0; i < 50; i++) writeFile(`/tmp/${i}`, mb)",
        &["--memory", "2000", "--timeout", "60"],
        "disk",
    );
    works("a small file", "writeFile('/tmp/a', new Uint8Array(1 << 20)); readBytes('/tmp/a').length", &value!(1 << 20));
}

/// Code can change built-in objects, but the result is rendered with the original ones.
#[test]
fn tampering_with_built_ins_does_not_affect_the_result() {
    let tampering = [
        "Object.prototype.toJSON = () => 'polluted'; Object.prototype.text = '1'; Object.prototype.items = []",
        "JSON.stringify = () => 'lies'; (globalThis as any).JSON = undefined",
        "Array.isArray = () => false; Array.prototype.push = () => 0; Array.prototype.join = () => 'lies'",
        "Map.prototype.forEach = () => {}; Set.prototype.has = () => true; Set.prototype.add = function () { return this }",
        "Reflect.ownKeys = () => []; Object.keys = () => []; Reflect.apply = () => 0; Function.prototype.call = () => 0; Function.prototype.apply = () => 0",
        "Object.defineProperty(Array.prototype, '0', { set() { throw 1 }, configurable: true })",
        "Promise.prototype.then = () => 0 as any; (globalThis as any).Promise = null",
        "for (const key of Reflect.ownKeys(globalThis)) if (key !== 'globalThis') try { delete (globalThis as any)[key] } catch {}",
        "Object.freeze(globalThis)",
        "Object.setPrototypeOf(globalThis, null)",
        "String.prototype.isWellFormed = () => false; String.prototype.charCodeAt = () => 0xd800; Symbol.prototype.toString = () => 'x'",
    ];
    for who in everybody() {
        let coracle = Coracle::new(*who);
        for code in tampering {
            let code =
                format!("const kept = {{ a: [1, {{ b: 'c' }}], m: new Map([['k', new Set([2])]]) }};\n{code};\nkept");
            let execution = json(&coracle, "typescript", &code, &[]).json();
            assert_eq!(
                execution["result"],
                value!({"a": [1, {"b": "c"}], "m": {"k": [2]}}),
                "{who:?}: {code}: {execution:#}"
            );
        }
    }
}

#[test]
fn hostile_values_are_described_and_others_kept() {
    let cases = [
        (
            "new Proxy({}, { ownKeys() { throw new RangeError('no') } })",
            value!("<Object object; reading it raised RangeError>"),
        ),
        ("new Proxy([], { get() { throw 7 } })", value!("<Object object; reading it raised Number>")),
        ("({ get a() { throw new TypeError('x') } })", value!({"a": "<Object object; reading it raised TypeError>"})),
        ("({ toJSON() { throw new Error('x') } })", value!("<Object object; reading it raised Error>")),
        ("({ [Symbol.toPrimitive]() { throw 1 }, constructor: null })", value!({"constructor": null})),
        ("Object.create(null)", value!({})),
        (
            "(() => { const p = Proxy.revocable({}, {}); p.revoke(); return p.proxy })()",
            value!("<Object object; reading it raised TypeError>"),
        ),
    ];
    let coracle = Coracle::new(everybody()[0]);
    for (code, expected) in cases {
        let execution = json(&coracle, "typescript", &format!("[1, {code}, 2]"), &[]).json();
        assert_eq!(execution["result"], value!([1, expected, 2]), "{code}: {execution:#}");
        let thrown = json(&coracle, "typescript", &format!("throw {code}"), &[]).json();
        assert_eq!(
            (&thrown["error_code"], thrown["error"].is_string()),
            (&value!("exception"), true),
            "{code}: {thrown:#}"
        );
        let printed = json(&coracle, "typescript", &format!("console.log({code}); 1"), &[]).json();
        assert_eq!(printed["result"], 1, "{code}: {printed:#}");
    }
    let hostile = "class Liar extends Error { get message(): string { throw 1 } get stack(): string { throw 2 } get name(): string { throw 3 } }\nthrow new Liar()";
    assert_eq!(json(&coracle, "typescript", hostile, &[]).json()["error_code"], "exception");
}

/// The program that is in every sandbox can do only what code can do anyway.
#[test]
fn the_program_inside_the_sandbox_is_confined() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let run = |code: &str| json(&coracle, "bash", code, &["--timeout", "20"]).json();
        let execution = run(
            "/coracle/bin/coracle exec -c 'print(1)'; echo $?; /coracle/bin/coracle __launcher </dev/null; echo $?",
        );
        assert!(!execution["stdout"].as_str().unwrap().contains("\n0\n"), "{execution:#}");
        let execution = run(
            "head -c 1000 /coracle/bin/coracle > /tmp/c && echo x >> /tmp/c && echo copied; echo x >> /coracle/bin/coracle || echo refused",
        );
        assert_eq!(execution["stdout"], "copied\nrefused\n", "{execution:#}");
        // A runner that is started from bash has no channel, and ends.
        let execution = run("/coracle/bin/coracle __typescript </dev/null; echo $?");
        assert_eq!(
            execution["stdout"].as_str().unwrap().trim().parse::<i32>().map(|status| status != 0),
            Ok(true),
            "{execution:#}"
        );
    }
}
