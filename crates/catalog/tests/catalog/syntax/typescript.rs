//! The syntax that generated TypeScript may have.

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast::ast::{Expression, Statement};
use oxc_ast_visit::Visit;
use oxc_parser::Parser;
use oxc_span::SourceType;

const ALLOWED: &[&str] = &[
    "Program",
    "ArrowFunctionExpression",
    "BindingIdentifier",
    "BooleanLiteral",
    "CallExpression",
    "ExportDeclaration",
    "FormalParameter",
    "FormalParameters",
    "Function",
    "FunctionBody",
    "IdentifierName",
    "IdentifierReference",
    "ImportDeclaration",
    "ImportSpecifier",
    "NumericLiteral",
    "ObjectExpression",
    "ReturnStatement",
    "StringLiteral",
    "TSAnyKeyword",
    "TSBooleanKeyword",
    "TSImportType",
    "TSIndexSignature",
    "TSIndexSignatureName",
    "TSInterfaceBody",
    "TSInterfaceDeclaration",
    "TSLiteralType",
    "TSNullKeyword",
    "TSNumberKeyword",
    "TSPropertySignature",
    "TSStringKeyword",
    "TSTupleType",
    "TSTypeAliasDeclaration",
    "TSTypeAnnotation",
    "TSTypeLiteral",
    "TSTypeParameterInstantiation",
    "TSTypeQuery",
    "TSTypeReference",
    "TSUnionType",
    "UnaryExpression",
    "VariableDeclaration",
    "VariableDeclarator",
];

struct Look<'a> {
    text: &'a str,
    is_stub: bool,
}

impl<'a> Visit<'a> for Look<'_> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        let name = format!("{:?}", kind.ty());
        assert!(ALLOWED.contains(&name.as_str()), "{name} in {}", self.text);
        if let AstKind::CallExpression(call) = kind {
            let Expression::Identifier(name) = &call.callee else { panic!("a call of an expression in {}", self.text) };
            assert_eq!(name.name.as_str(), "call", "{}", self.text);
        }
        if let AstKind::ImportDeclaration(import) = kind {
            let from = import.source.value.as_str();
            assert!(if self.is_stub { from.starts_with("servers/") } else { from == "coracle" }, "{}", self.text);
        }
        if let AstKind::ObjectExpression(object) = kind {
            assert!(object.properties.is_empty(), "{}", self.text);
        }
    }
}

/// Fails for syntax that the generator does not intend.
pub(crate) fn check(path: &str, text: &str) {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    assert!(parsed.diagnostics.is_empty() && !parsed.panicked, "{path}: {:?} in {text}", parsed.diagnostics);
    Look { text, is_stub: false }.visit_program(&parsed.program);
    let kinds: Vec<&str> = parsed.program.body.iter().map(kind).collect();
    if path.ends_with("/index.ts") {
        let (first, rest) = kinds.split_first().unwrap();
        assert!(*first == "import" && rest.iter().all(|kind| *kind == "export"), "{kinds:?} in {text}");
        return;
    }
    let (last, rest) = kinds.split_last().unwrap();
    let is_plain = *last == "function" && rest[0] == "import" && rest[1..].iter().all(|kind| *kind == "type");
    assert!(is_plain, "{kinds:?} in {text}");
}

/// Like [`check`], for the stub that is shown before a call.
pub(crate) fn check_stub(text: &str) {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    assert!(parsed.diagnostics.is_empty() && !parsed.panicked, "{:?} in {text}", parsed.diagnostics);
    Look { text, is_stub: true }.visit_program(&parsed.program);
    let kinds: Vec<&str> = parsed.program.body.iter().map(kind).collect();
    let [first, types @ .., last] = kinds.as_slice() else { panic!("{kinds:?} in {text}") };
    assert!((*first, *last) == ("import", "signature"), "{kinds:?} in {text}");
    assert!(types.iter().all(|kind| *kind == "interface"), "{kinds:?} in {text}");
}

fn kind(statement: &Statement<'_>) -> &'static str {
    use oxc_ast::ast::Declaration;

    match statement {
        Statement::ImportDeclaration(_) => "import",
        Statement::TSInterfaceDeclaration(_) => "interface",
        Statement::FunctionDeclaration(function) if function.body.is_none() => "signature",
        Statement::ExportDeclaration(export) => match &export.declaration {
            Declaration::FunctionDeclaration(_) => "function",
            Declaration::TSInterfaceDeclaration(_) | Declaration::TSTypeAliasDeclaration(_) => "type",
            Declaration::VariableDeclaration(_) => "export",
            _ => "other",
        },
        _ => "other",
    }
}
