//! Analysis of one program, by its language.

use crate::facts::{python::PYTHON, typescript::TYPESCRIPT};
use crate::flow::Flow;
use crate::nesting;
use crate::program::Node;
use crate::report::{Analysis, Spot};
use crate::rules::Rule;
use crate::{bash, lower};
use coracle_types::Language;
use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

/// Maximum length of code that is checked, in bytes.
pub const MAX_CODE_BYTES: usize = 256 << 10;

/// Maximum depth of a syntax tree. The interpreters have lower limits.
pub const MAX_NESTING: usize = 1_500;

/// Stack for each level of a syntax tree, in bytes. Programs without optimisation need most of it.
const STACK_PER_LEVEL: usize = 48 << 10;

/// Stack for everything else, in bytes.
const STACK: usize = 256 << 10;

/// Analyses a program. `level` is the number of programs around it.
pub(crate) fn analyse(language: Language, code: &str, is_session: bool, level: usize) -> Analysis {
    let mut analysis = match language {
        Language::Bash => with_stack(MAX_NESTING / 2, || bash::analyse(code, level, nested)),
        Language::Python | Language::TypeScript => {
            let depth = depth(language, code);
            if depth > MAX_NESTING {
                let message = "the code is nested too deeply to be checked".to_owned();
                Analysis { spots: vec![Spot { at: 0, rule: Rule::Size, message, name: None }], ..Analysis::default() }
            } else {
                with_stack(depth, || follow(language, code, is_session))
            }
        }
    };
    if let Some(at) = code.find(is_direction) {
        let message = "contains invisible characters that change the direction of text".to_owned();
        analysis.spots.push(Spot { at, rule: Rule::Obfuscation, message, name: None });
    }
    analysis
}

/// Analyses code that a script runs in another interpreter.
fn nested(language: Language, code: &str, level: usize) -> Analysis {
    analyse(language, code, false, level)
}

/// Whether a character makes an editor show the code in another order than it runs.
fn is_direction(one: char) -> bool {
    matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn depth(language: Language, code: &str) -> usize {
    if language == Language::Python { nesting::python(code) } else { nesting::typescript(code) }
}

/// Runs something recursive with enough stack for a tree of this depth.
fn with_stack<T>(depth: usize, work: impl FnOnce() -> T) -> T {
    let needed = STACK + depth * STACK_PER_LEVEL;
    stacker::maybe_grow(needed, needed, work)
}

fn follow(language: Language, code: &str, is_session: bool) -> Analysis {
    let (facts, parse): (_, crate::flow::Parse) = match language {
        Language::Python => (&PYTHON, |code| literal(Language::Python, code)),
        _ => (&TYPESCRIPT, |code| literal(Language::TypeScript, code)),
    };
    let (program, error) = lowered(language, code);
    let flow = Flow::run(facts, parse, is_session, &program);
    let mut analysis = flow;
    analysis.spots.extend(error);
    analysis
}

/// The program and its first syntax error.
fn lowered(language: Language, code: &str) -> (Vec<Node>, Option<Spot>) {
    if language == Language::Python {
        let parsed = parse_unchecked(code, ParseOptions::from(Mode::Module));
        let error = parsed.errors().first().map(|error| Spot {
            at: error.location.start().to_usize(),
            rule: Rule::Syntax,
            message: format!("syntax error: {}", error.error),
            name: None,
        });
        let program = parsed.try_into_module().map(|module| lower::python::statements(module.suite()));
        return (program.unwrap_or_default(), error);
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::ts().with_module(true)).parse();
    let error = parsed.diagnostics.iter().next().map(|error| {
        let at = error.labels.iter().next().map_or(0, |label| label.offset() as usize);
        Spot { at, rule: Rule::Syntax, message: format!("syntax error: {}", error.message), name: None }
    });
    let error = error.or_else(|| {
        let message = "the code cannot be parsed".to_owned();
        parsed.panicked.then_some(Spot { at: 0, rule: Rule::Syntax, message, name: None })
    });
    (lower::typescript::statements(&parsed.program.body), error)
}

/// Code in a literal, which the program runs.
fn literal(language: Language, code: &str) -> Option<Vec<Node>> {
    if depth(language, code) > MAX_NESTING / 10 {
        return None;
    }
    // The body of a function may return.
    let (program, error) = if language == Language::TypeScript {
        lowered(language, &format!("async function* f() {{ {code}\n}}"))
    } else {
        lowered(language, code.trim_start_matches([' ', '\t', '\n']))
    };
    match error {
        None => Some(program),
        Some(_) if language == Language::TypeScript => {
            let (program, error) = lowered(language, code);
            error.is_none().then_some(program)
        }
        Some(_) => None,
    }
}
