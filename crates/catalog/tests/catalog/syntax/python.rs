//! The syntax that generated Python may have.

use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_body};
use ruff_python_ast::{AnyNodeRef, Expr, NodeKind, Stmt};
use ruff_python_parser::parse_module;

const ALLOWED: &[NodeKind] = &[
    NodeKind::ModModule,
    NodeKind::StmtFunctionDef,
    NodeKind::StmtClassDef,
    NodeKind::StmtReturn,
    NodeKind::StmtAssign,
    NodeKind::StmtAnnAssign,
    NodeKind::StmtIf,
    NodeKind::StmtImportFrom,
    NodeKind::StmtExpr,
    // The `|` of unions, and the minus sign of a literal.
    NodeKind::ExprBinOp,
    NodeKind::ExprUnaryOp,
    NodeKind::ExprDict,
    NodeKind::ExprCall,
    NodeKind::ExprStringLiteral,
    NodeKind::ExprNumberLiteral,
    NodeKind::ExprBooleanLiteral,
    NodeKind::ExprNoneLiteral,
    // The default of an argument in a stub.
    NodeKind::ExprEllipsisLiteral,
    NodeKind::ExprSubscript,
    NodeKind::ExprName,
    NodeKind::ExprTuple,
    NodeKind::Arguments,
    NodeKind::Parameters,
    NodeKind::Parameter,
    NodeKind::ParameterWithDefault,
    NodeKind::Alias,
    NodeKind::Decorator,
    NodeKind::StringLiteral,
    NodeKind::Identifier,
];

const CALLED: &[&str] = &["arguments", "offer", "tool", "TypedDict"];
const IMPORTED_FROM: &[&str] = &["__future__", "coracle", "typing"];

struct Look<'a> {
    text: &'a str,
    is_stub: bool,
}

impl<'a> SourceOrderVisitor<'a> for Look<'_> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        assert!(ALLOWED.contains(&node.kind()), "{:?} in {}", node.kind(), self.text);
        match node {
            AnyNodeRef::ExprCall(call) => {
                let Expr::Name(name) = &*call.func else { panic!("a call of an expression in {}", self.text) };
                assert!(CALLED.contains(&name.id.as_str()), "a call of {} in {}", name.id, self.text);
            }
            AnyNodeRef::StmtImportFrom(import) => {
                let from = import.module.as_ref().map_or("", |module| module.as_str());
                // A package imports its own tools by their names.
                let is_ours = import.level == 0 && IMPORTED_FROM.contains(&from);
                let is_own = import.level == 1 && import.names.iter().all(|name| name.name.as_str() == from);
                let is_called = import.level == 0 && from.starts_with("servers.") && self.is_stub;
                assert!(is_ours && !self.is_stub || is_own || is_called, "an import from {from} in {}", self.text);
            }
            // The only expression statements are docstrings and the call of `offer` in a package.
            AnyNodeRef::StmtExpr(statement) => {
                assert!(matches!(&*statement.value, Expr::StringLiteral(_) | Expr::Call(_)), "{}", self.text);
            }
            _ => {}
        }
        TraversalSignal::Traverse
    }
}

/// Fails for syntax that the generator does not intend.
pub(crate) fn check(path: &str, text: &str) {
    let parsed = parse_module(text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"));
    let body = &parsed.syntax().body;
    walk_body(&mut Look { text, is_stub: false }, body);
    let kinds: Vec<&str> = body.iter().map(kind).collect();
    let expected: &[&[&str]] = match path.rsplit('/').next() {
        Some("__init__.py") if path == "servers/__init__.py" => &[&["words"]],
        Some("__init__.py") => &[&["words", "import", "offer"], &["words", "import", "constant", "types", "offer"]],
        _ => &[&["import", "import", "function"], &["import", "import", "constant", "types", "function"]],
    };
    assert!(expected.contains(&kinds.as_slice()), "{kinds:?} in {text}");
    let Some(Stmt::FunctionDef(function)) = body.last() else { return };
    let kinds: Vec<&str> = function.body.iter().map(kind).collect();
    assert_eq!(function.decorator_list.len(), 1, "{text}");
    assert!([&["words", "return"][..], &["return"]].contains(&kinds.as_slice()), "{kinds:?} in {text}");
}

/// Like [`check`], for the stub that is shown before a call.
pub(crate) fn check_stub(text: &str) {
    let parsed = parse_module(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let body = &parsed.syntax().body;
    walk_body(&mut Look { text, is_stub: true }, body);
    let kinds: Vec<&str> = body.iter().map(kind).collect();
    let [first, types @ .., last] = kinds.as_slice() else { panic!("{kinds:?} in {text}") };
    assert!((*first, *last) == ("import", "function"), "{kinds:?} in {text}");
    assert!(types.iter().all(|kind| ["class", "constant"].contains(kind)), "{kinds:?} in {text}");
    let Some(Stmt::FunctionDef(function)) = body.last() else { return };
    assert_eq!(function.body.iter().map(kind).collect::<Vec<_>>(), ["words"], "{text}");
}

fn kind(statement: &Stmt) -> &'static str {
    match statement {
        Stmt::Expr(expression) if expression.value.is_string_literal_expr() => "words",
        Stmt::Expr(_) => "offer",
        Stmt::ImportFrom(_) => "import",
        Stmt::Assign(_) => "constant",
        Stmt::If(_) => "types",
        Stmt::ClassDef(_) => "class",
        Stmt::FunctionDef(_) => "function",
        Stmt::Return(_) => "return",
        _ => "other",
    }
}
