//! Code that is meant to break the checks themselves: they end, with a finding, and the process goes on.

use coracle_guardrails::{Access, Catalogue, Guardrails, Known, MAX_FINDINGS, Report, Rule};
use coracle_types::Language;
use coracle_types::Language::{Bash, Python, TypeScript};

const MANY: usize = 100_000;

struct Unlisted;

impl Catalogue for Unlisted {
    fn look_up(&self, _server: &str, _tool: Option<&str>) -> Known {
        Known::Nothing
    }
}

fn check(language: Language, code: &str) -> Report {
    let strict = Guardrails { is_enabled: true, is_strict: true, ..Guardrails::default() };
    strict.check(language, code, &Unlisted, Access::Any)
}

fn nested(open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(MANY), close.repeat(MANY))
}

#[test]
#[expect(clippy::format_collect, reason = "texts of a test")]
fn deep_nesting_is_refused_in_each_language() {
    let cases = [
        (Python, nested("(", ")")),
        (Python, nested("[", "]")),
        (Python, nested("-", "")),
        (Python, nested("not ", "")),
        (Python, nested("lambda: ", "")),
        (Python, nested("lambda a, b: ", "")),
        (Python, format!("x{}", ".y".repeat(MANY))),
        (Python, format!("x{}", "[0]".repeat(MANY / 2))),
        (Python, format!("x{}", "()".repeat(MANY))),
        (Python, format!("1{}", "+1".repeat(MANY))),
        (Python, nested("1 if 1 else ", "")),
        (
            Python,
            (0..700).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect::<String>()
                + &" ".repeat(700)
                + &nested("(", ")"),
        ),
        (TypeScript, nested("(", ")")),
        (TypeScript, nested("[", "]")),
        (TypeScript, nested("!", "")),
        (TypeScript, nested("a=>", "")),
        (TypeScript, nested("a?b:", "")),
        (TypeScript, nested("if(a)b;else ", "")),
        (TypeScript, nested("{", "}")),
        (TypeScript, nested("`${", "}`")),
        (TypeScript, nested("new ", "")),
        (TypeScript, format!("x{}", ".y".repeat(MANY))),
        (TypeScript, format!("type T = {}1{};", "[".repeat(MANY), "]".repeat(MANY))),
        (TypeScript, format!("type T = string{};", "[]".repeat(MANY))),
        (TypeScript, nested("(/*)*/", ")")),
        (Bash, nested("(", ")")),
        (Bash, nested("$(", ")")),
        (Bash, nested("{ ", "; }")),
        (Bash, nested("\"$(", ")\"")),
        (Bash, nested("if ", "")),
        (Bash, format!("echo $(({}1{}))", "(".repeat(MANY / 2), ")".repeat(MANY / 2))),
        (Bash, format!("echo {}x", "${a:-".repeat(MANY / 3))),
    ];
    for (language, code) in cases {
        let begin: String = code.chars().take(30).collect();
        assert!(!check(language, &code).is_harmless(), "{language:?} {begin}");
    }
}

#[test]
fn nesting_within_the_limit_is_checked() {
    // Control: the same shapes, less deep.
    for (language, code) in [
        (Python, format!("x = {}1{}", "(".repeat(150), ")".repeat(150))),
        (Python, format!("x = 1{}", "+1".repeat(1_000))),
        (TypeScript, format!("const x = {}1{};", "(".repeat(500), ")".repeat(500))),
        (TypeScript, format!("const x = 1{};", "+1".repeat(1_000))),
        (Bash, format!("echo {}echo{}", "$(echo ".repeat(30), ")".repeat(30))),
    ] {
        let report = check(language, &code);
        assert!(report.is_harmless(), "{language:?}: {report:?}");
    }
    // And what is in the depth is found.
    let code = format!("x = {}eval(y){}", "(".repeat(190), ")".repeat(190));
    assert!(check(Python, &code).dangers().any(|finding| finding.rule == Rule::DynamicCode));
}

#[test]
fn the_deepest_permitted_trees_do_not_overflow_the_stack() {
    for (language, code) in [
        (Python, format!("x = {}1", "-".repeat(1_400))),
        (Python, format!("x = y{}", ".z".repeat(1_400))),
        (TypeScript, format!("x = {}1", "!".repeat(1_400))),
        (TypeScript, format!("x = {}1{}", "(".repeat(1_400), ")".repeat(1_400))),
        (TypeScript, format!("x = {}1{}", "[".repeat(1_400), "]".repeat(1_400))),
        (TypeScript, format!("{}{}", "{".repeat(1_400), "}".repeat(1_400))),
        (TypeScript, format!("x = {}1", "a=>".repeat(1_400))),
    ] {
        assert!(check(language, &code).is_harmless(), "{language:?}");
    }
}

#[test]
fn long_code_is_refused() {
    for language in [Python, TypeScript, Bash] {
        let report = check(language, &"x=1\n".repeat(100_000));
        assert_eq!(report.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::Size]);
    }
}

#[test]
#[expect(clippy::format_collect, reason = "texts of a test")]
fn expensive_python_ends() {
    let copies = format!("a = {:?}\n{}", "x".repeat(60_000), "b = a\n".repeat(20_000));
    let sums = format!("{}{}", "a = 'x'\n", "a = a + 'y' + a\n".repeat(10_000));
    let lists = format!("a = [1]\n{}", "a = [a, a, a, a, a, a, a, a]\n".repeat(5_000));
    let literals = format!("a = {:?}\n{}", "b = 1\n".repeat(10_000), "exec(a)\n".repeat(10_000));
    let names: String = (0..15_000).map(|number| format!("a{number} = {number}\n")).collect();
    for code in [copies, sums, lists, literals, names] {
        check(Python, &code);
    }
    let report = check(Python, &"eval(x)\n".repeat(20_000));
    assert!(report.findings.len() <= MAX_FINDINGS && report.left_out > 0, "{report:?}");
}

#[test]
fn expensive_typescript_ends() {
    check(TypeScript, &"x = `${x}${x}`;".repeat(5_000));
    check(TypeScript, &"x = x + x + 'a';\n".repeat(10_000));
    check(TypeScript, &format!("{}{}", "(".repeat(1_000), "=".repeat(1_000)));
}

#[test]
fn expensive_bash_ends() {
    check(Bash, &"a=\"$a$a$a\"\n".repeat(5_000));
    check(Bash, &"bash -c 'bash -c \"echo 1\"'\n".repeat(2_000));
    check(Bash, &"|".repeat(50_000));
    check(Bash, &format!("echo {}echo{}", "$(echo ".repeat(120), ")".repeat(120)));
    check(Bash, &format!("f() {{ {} }}", "f | f; ".repeat(5_000)));
}

#[test]
fn odd_bytes_are_no_problem() {
    for language in [Python, TypeScript, Bash] {
        for code in [
            "\0",
            "a\0b",
            "\u{feff}x = 1",
            "x = '\u{10ffff}'",
            "é".repeat(10_000).as_str(),
            "\"",
            "'",
            "`",
            "\\",
            "f'{",
            "`${",
            "$(",
            "<<",
            "cat <<END\n",
            "/",
            "/*",
            "#",
            "",
            "\r\r\n",
            "x = \"\\ud800\"",
            "eval('\u{fffc}\u{e000}')",
        ] {
            check(language, code);
        }
    }
}

/// Every prefix of a program, and the program with every single character removed.
#[test]
fn broken_programs_are_no_problem() {
    for (language, code) in [
        (Python, include_str!("corpus/harmless/python/match_statement.py")),
        (TypeScript, include_str!("corpus/harmless/typescript/event_emitter.ts")),
        (Bash, include_str!("corpus/harmless/bash/functions.sh")),
    ] {
        for (index, letter) in code.char_indices() {
            check(language, &code[..index]);
            check(language, &format!("{}{}", &code[..index], &code[index + letter.len_utf8()..]));
        }
    }
}
