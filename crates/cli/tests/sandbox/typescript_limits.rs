//! TypeScript that exhausts resources or tampers with its results: the same limits as in Python, through QuickJS. Each
//! one has its own error code, and each denied action has a control. Escape attempts are in `typescript_escape.rs`.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{assert_settled, json};
use serde_json::{Value, json as value};

/// Runs code that must end with this error and leave nothing.
fn ends(who: As, name: &str, code: &str, more: &[&str], error_code: &str) -> Value {
    let coracle = Coracle::new(who);
    let ran = json(&coracle, "typescript", code, more);
    let execution = ran.json();
    assert_eq!(execution["error_code"], error_code, "{name} as {who:?}: {execution:#}");
    assert_settled(&coracle, &ran, name);
    execution
}

/// Positive control: just below the limit.
fn works(who: As, name: &str, code: &str, expected: &Value) {
    let execution = json(&Coracle::new(who), "typescript", code, &[]).json();
    assert_eq!(execution["success"], true, "{name} as {who:?}: {execution:#}");
    assert_eq!(&execution["result"], expected, "{name} as {who:?}");
}

const SHORT: &[&str] = &["--timeout", "1"];

each_user!(loops_time_out);
fn loops_time_out(who: As) {
    ends(who, "busy", "while (true) {}", SHORT, "timeout");
    ends(
        who,
        "microtasks",
        "const again = () => { queueMicrotask(again) }; again(); await new Promise(() => {})",
        SHORT,
        "timeout",
    );
    ends(who, "interval", "setInterval(() => {}, 1)", SHORT, "timeout");
    ends(who, "getter", "({ get a() { while (true) {} } })", SHORT, "timeout");
    ends(who, "regex", "/^(a+)+$/.test('a'.repeat(60) + 'b')", SHORT, "timeout");
    ends(who, "a long timer", "await new Promise((r) => setTimeout(r, 1e12))", SHORT, "timeout");
    works(who, "a short timer", "await new Promise((r) => setTimeout(r, 100)); 1", &value!(1));
}

each_user!(memory_has_its_own_error_code);
fn memory_has_its_own_error_code(who: As) {
    let small = &["--memory", "100", "--timeout", "60"];
    let execution =
        ends(who, "arrays", "const a = []; while (true) a.push(new Array(1000).fill(1.5))", small, "memory");
    assert!(execution["hint"].as_str().is_some_and(|hint| hint.contains("memory")), "{execution:#}");
    ends(who, "buffers", "const a = []; while (true) a.push(new Uint8Array(1 << 20).fill(1))", small, "memory");
    ends(who, "strings", "const a = []; while (true) a.push('x'.repeat(1 << 20) + a.length)", small, "memory");
    ends(who, "one buffer", "new Uint8Array(2 ** 31 - 1).fill(1).length", small, "memory");
    works(who, "a few megabytes", "new Uint8Array(8 << 20).fill(1).length", &value!(8 << 20));
}

each_user!(recursion_and_deep_nesting_are_exceptions);
fn recursion_and_deep_nesting_are_exceptions(who: As) {
    let execution = ends(who, "recursion", "const f = (): number => f() + 1;\nf()", &[], "exception");
    assert_eq!(execution["error"], "RangeError: Maximum call stack size exceeded");
    ends(who, "by a getter", "const o: any = { get a() { return o.a } }; o.a", &[], "exception");
    ends(who, "by toJSON", "const o: any = { toJSON() { return JSON.stringify(o) } }; o.toJSON()", &[], "exception");
    works(
        who,
        "recursion that ends",
        "const f = (n: number): number => n === 0 ? 0 : 1 + f(n - 1);\nf(5000)",
        &value!(5000),
    );
    for (open, close) in [("[", "]"), ("(", ")"), ("{", "}"), ("a?.[", "]"), ("`${", "}`")] {
        let code = format!("const a: any = 1; {}1{}", open.repeat(100_000), close.repeat(100_000));
        ends(who, open, &code, &["--timeout", "20"], "syntax");
        let code = format!("const a: any = 1; {}1{}; 7", open.repeat(40), close.repeat(40));
        let execution = json(&Coracle::new(who), "typescript", &code, &[]).json();
        assert_ne!(execution["error_code"], "syntax", "{open}: {execution:#}");
    }
    // Deep nesting without brackets: any outcome is accepted.
    for code in [
        "!".repeat(500_000) + "1",
        "1+".repeat(200_000) + "1",
        "a=>".repeat(100_000) + "1",
        "if(1){}else ".repeat(50_000) + "{}",
    ] {
        let coracle = Coracle::new(who);
        let ran = json(&coracle, "typescript", &code, &["--timeout", "20"]);
        assert!(ran.json()["execution_id"].is_string());
        assert_settled(&coracle, &ran, &code[..3]);
    }
}

each_user!(output_is_shortened_and_counted);
fn output_is_shortened_and_counted(who: As) {
    ends(who, "a flood", "while (true) console.log('x'.repeat(10_000))", &["--timeout", "60"], "output");
    ends(who, "one line", "const s = 'x'.repeat(30e6); console.log(s)", &["--timeout", "60"], "output");
    let execution = json(&Coracle::new(who), "typescript", "for (let i = 0; i < 1000; i++) console.log(i)", &[]).json();
    assert_eq!(execution["stdout"].as_str().unwrap().lines().count(), 1000, "{who:?}");
}

each_user!(many_timers_and_promises_work);
fn many_timers_and_promises_work(who: As) {
    let timers = "let n = 0; for (let i = 0; i < 50_000; i++) setTimeout(() => n++, i % 10);\nawait new Promise((r) => setTimeout(r, 30)); n";
    works(who, "timers", timers, &value!(50_000));
    works(
        who,
        "promises",
        "(await Promise.all(Array.from({ length: 100_000 }, async (_, i) => i))).length",
        &value!(100_000),
    );
}

each_user!(files_and_disk_have_their_own_error_codes);
fn files_and_disk_have_their_own_error_codes(who: As) {
    ends(
        who,
        "too large a file",
        "const mb = new Uint8Array(1 << 20); let all = new Uint8Array(700 << 20); writeFile('/workspace/big', all)",
        &["--memory", "4000", "--timeout", "60"],
        "disk",
    );
    ends(
        who,
        "a full /tmp",
        "const mb = new Uint8Array(10 << 20); for (let i = 0; i < 50; i++) writeFile(`/tmp/${i}`, mb)",
        &["--memory", "2000", "--timeout", "60"],
        "disk",
    );
    works(
        who,
        "a small file",
        "writeFile('/tmp/a', new Uint8Array(1 << 20)); readBytes('/tmp/a').length",
        &value!(1 << 20),
    );
}

each_user!(tampering_with_built_ins_does_not_affect_the_result);
/// Code can change built-in objects, but the result is rendered with the original ones.
fn tampering_with_built_ins_does_not_affect_the_result(who: As) {
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
    let coracle = Coracle::new(who);
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
    let coracle = Coracle::new(As::current());
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

each_user!(the_program_inside_the_sandbox_is_confined);
/// The program that is in every sandbox can do only what code can do anyway.
fn the_program_inside_the_sandbox_is_confined(who: As) {
    let coracle = Coracle::new(who);
    let run = |code: &str| json(&coracle, "bash", code, &["--timeout", "20"]).json();
    let execution =
        run("/coracle/bin/coracle exec -c 'print(1)'; echo $?; /coracle/bin/coracle __launcher </dev/null; echo $?");
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
