use super::{module, program};
use crate::typescript::positions::Place;

#[test]
fn types_are_removed_and_the_top_level_becomes_global() {
    let source = "type T = number;\nconst x: T = 1;\nlet y: string;\nclass P<A> { constructor(private a: A) {} }\nexport function f(n: number): number { const inner = n; return inner }\nenum E { A = 1 }\nf(x) satisfies number";
    let compiled = program(source).unwrap();
    insta::assert_snapshot!(compiled.code);
    assert!(compiled.has_value && compiled.imports.is_none());
}

#[test]
fn imports_become_a_separate_module_with_the_same_lines() {
    let source = "// first\nimport list, { a as b, type T } from \"servers/x\";\nimport * as all from './lib';\nimport './effects';\nimport { unused } from 'y';\nimport { U } from 'z';\nconst z: T | U = b(list, all);";
    let compiled = program(source).unwrap();
    insta::assert_snapshot!(compiled.imports.unwrap());
    assert_eq!((compiled.code.as_str(), compiled.has_value), ("var z = b(list, all);\n", false));
}

#[test]
fn positions_in_the_script_are_mapped_to_the_source() {
    let compiled =
        program("interface A { b: number }\n\n\nfunction f(): void {\n  throw new Error('x');\n}\n").unwrap();
    let line = compiled.code.lines().position(|line| line.contains("throw")).unwrap() as u32 + 1;
    let place = compiled.positions.source(Place { line, column: 2 });
    assert_eq!(place, Place { line: 5, column: 3 });
}

#[test]
fn errors_are_reported_with_their_position() {
    let wrong = |source: &str| {
        let rejected = program(source).unwrap_err();
        (rejected.message, rejected.place.map(|place| (place.line, place.column)))
    };
    assert_eq!(wrong("const a = 1;\na = 2;"), ("cannot assign to \"a\": it is a constant".to_owned(), Some((2, 1))));
    assert_eq!(wrong("let a = 1;\nlet a = 2;").1, Some((2, 5)));
    assert_eq!(wrong("f(;").1, Some((1, 3)));
    assert_eq!(wrong(&"[".repeat(100_000)).0, "the code is nested too deeply");
    assert!(wrong("export * from './x'").0.contains("import it instead"));
}

#[test]
fn a_module_stays_a_module() {
    let (code, _) = module("export const a: number = 1; export type B = string;").unwrap();
    assert_eq!(code, "export const a = 1;\n");
}

/// Any program is either compiled or rejected: the snapshot has the result of each.
#[test]
fn odd_programs_are_compiled_or_rejected() {
    let results = [
        "",
        ";",
        "'use strict'",
        "#!/usr/bin/env node\n1",
        "await 0",
        "\u{feff}1",
        "export default 5",
        "return 1",
        "<b>x</b>",
        "@d class A {}",
        "\0",
        "a\u{2028}b",
    ]
    .map(|source| match program(source) {
        Ok(compiled) => {
            assert_eq!(compiled.imports, None, "{source:?}");
            let value = if compiled.has_value { "a value" } else { "no value" };
            format!("{source:?}: {:?} with {value}\n", compiled.code)
        }
        Err(rejected) => {
            let place = rejected.place.map(|place| (place.line, place.column));
            format!("{source:?}: rejected at {place:?}: {:?}\n", rejected.message)
        }
    });
    insta::assert_snapshot!(results.concat());
}
