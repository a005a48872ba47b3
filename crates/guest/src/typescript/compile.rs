//! Compiles TypeScript for QuickJS: removes types, and adapts the top level of a program for a session.
//!
//! A program runs as a script in the global scope, so that its declarations are visible to the next run. That needs
//! three changes at its top level: `let`, `const` and `class` become `var` (a second run of the same code must not be a
//! redeclaration), imports become a separate module that runs first, and `export` is dropped.

use super::positions::{Place, Positions};
use oxc_allocator::{Allocator, ArenaVec, TakeIn};
use oxc_ast::ast::{
    BindingPattern, ClassType, Declaration, ExportDefaultDeclarationKind, Expression, ImportDeclaration,
    ImportDeclarationSpecifier, Program, Statement, VariableDeclaration, VariableDeclarationKind, VariableDeclarator,
};
use oxc_ast::builder::AstBuilder;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::{OxcDiagnostic, Severity};
use oxc_parser::Parser;
use oxc_semantic::{Reference, Scoping, Semantic, SemanticBuilder};
use oxc_span::{GetSpan, SourceType, Span};
use oxc_transformer::{TransformOptions, Transformer};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

/// A compiled program.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The script.
    pub(super) code: String,
    /// The source positions of the script.
    pub(super) positions: Positions,
    /// A module to run first, which adds the imports of the program to the global scope.
    pub(super) imports: Option<String>,
    /// Whether the last statement is an expression, whose value is the result.
    pub(super) has_value: bool,
}

/// Why code cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// The error.
    pub(super) message: String,
    /// The position, if known.
    pub(super) place: Option<Place>,
}

/// The maximum nesting of code: more would exceed the stack, when it is parsed or run.
const MAX_NESTING: usize = 1500;

/// Compiles a program.
pub(super) fn program(source: &str) -> Result<Compiled, Rejected> {
    check_nesting(source)?;
    let allocator = Allocator::default();
    let Parsed { mut program, scoping, uses, written } = parse(&allocator, source)?;
    if let Some((name, span)) = written {
        let message = format!("cannot assign to \"{name}\": it is a constant");
        return Err(Rejected { message, place: Some(Place::of_offset(source, span.start as usize)) });
    }
    strip(&allocator, source, &mut program, scoping, Unused::Kept)?;
    let imports = to_global_scope(&allocator, source, &mut program, uses)?;
    let has_value = matches!(program.body.last(), Some(Statement::ExpressionStatement(_)))
        || (program.body.is_empty() && !program.directives.is_empty());
    let (code, positions) = generate(&program);
    Ok(Compiled { code, positions, imports, has_value })
}

/// Compiles a module, which stays a module.
pub(super) fn module(source: &str) -> Result<(String, Positions), Rejected> {
    check_nesting(source)?;
    let allocator = Allocator::default();
    let Parsed { mut program, scoping, .. } = parse(&allocator, source)?;
    strip(&allocator, source, &mut program, scoping, Unused::Dropped)?;
    Ok(generate(&program))
}

/// Limits nesting, because the parser is recursive. Brackets in strings count too, which is acceptable.
fn check_nesting(source: &str) -> Result<(), Rejected> {
    let mut depth: usize = 0;
    for (at, byte) in source.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            let place = Some(Place::of_offset(source, at));
            return Err(Rejected { message: "the code is nested too deeply".to_owned(), place });
        }
    }
    Ok(())
}

/// What to do with unused imports. In a program, the next run of the session may use them; in a module, they are types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unused {
    Kept,
    Dropped,
}

/// How an imported name is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Value,
    TypeOnly,
    Nothing,
}

struct Parsed<'a> {
    program: Program<'a>,
    scoping: Scoping,
    uses: HashMap<String, Use>,
    /// A top-level constant that is assigned to, which a `var` would not prevent.
    written: Option<(String, Span)>,
}

fn parse<'a>(allocator: &'a Allocator, source: &'a str) -> Result<Parsed<'a>, Rejected> {
    let parsed = Parser::new(allocator, source, SourceType::ts().with_module(true)).parse();
    reject(source, &parsed.diagnostics)?;
    if parsed.panicked {
        return Err(Rejected { message: "the code cannot be parsed as TypeScript".to_owned(), place: None });
    }
    let built = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_build_nodes(true)
        .with_excess_capacity(2.0)
        .with_enum_eval(true)
        .build(&parsed.program);
    reject(source, &built.diagnostics)?;
    let (uses, written) = (uses(&built.semantic), written(&built.semantic));
    let scoping = built.semantic.into_scoping();
    Ok(Parsed { program: parsed.program, scoping, uses, written })
}

fn uses(semantic: &Semantic<'_>) -> HashMap<String, Use> {
    let scoping = semantic.scoping();
    let imported = scoping.symbol_ids().filter(|symbol| scoping.symbol_flags(*symbol).is_import());
    imported
        .map(|symbol| {
            let used = if scoping.symbol_is_unused(symbol) {
                Use::Nothing
            } else if scoping.get_resolved_references(symbol).all(Reference::is_type) {
                Use::TypeOnly
            } else {
                Use::Value
            };
            (scoping.symbol_name(symbol).to_owned(), used)
        })
        .collect()
}

fn written(semantic: &Semantic<'_>) -> Option<(String, Span)> {
    let scoping = semantic.scoping();
    let root = scoping.root_scope_id();
    let constants = scoping
        .symbol_ids()
        .filter(|symbol| scoping.symbol_scope_id(*symbol) == root && scoping.symbol_flags(*symbol).is_const_variable());
    constants.into_iter().find_map(|symbol| {
        let write = scoping.get_resolved_references(symbol).find(|reference| reference.is_write())?;
        Some((scoping.symbol_name(symbol).to_owned(), semantic.nodes().kind(write.node_id()).span()))
    })
}

fn reject(source: &str, diagnostics: &[OxcDiagnostic]) -> Result<(), Rejected> {
    let Some(worst) = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error) else {
        return Ok(());
    };
    let mut message = worst.message.to_string();
    if let Some(help) = &worst.help {
        let _ = write!(message, " ({help})");
    }
    let label = worst.labels.iter().find(|label| label.primary()).or_else(|| worst.labels.last());
    let place = label.map(|label| Place::of_offset(source, label.offset() as usize));
    Err(Rejected { message, place })
}

fn strip<'a>(
    allocator: &'a Allocator,
    source: &str,
    program: &mut Program<'a>,
    scoping: Scoping,
    unused: Unused,
) -> Result<(), Rejected> {
    let mut options = TransformOptions::default();
    options.typescript.only_remove_type_imports = unused == Unused::Kept;
    let done = Transformer::new(allocator, Path::new("code.ts"), &options).build_with_scoping(scoping, program);
    reject(source, &done.diagnostics)
}

fn generate(program: &Program<'_>) -> (String, Positions) {
    let options = CodegenOptions {
        source_map_path: Some("code.ts".into()),
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    };
    let made = Codegen::new().with_options(options).build(program);
    let mark = |token: oxc_sourcemap::Token| {
        ((token.get_dst_line(), token.get_dst_col()), (token.get_src_line(), token.get_src_col()))
    };
    let positions = made.map.map(|map| Positions::new(map.get_tokens().map(mark).collect())).unwrap_or_default();
    (made.code, positions)
}

/// Rewrites the top level. Returns the source of the module with the imports, if there are any.
fn to_global_scope<'a>(
    allocator: &'a Allocator,
    source: &str,
    program: &mut Program<'a>,
    uses: HashMap<String, Use>,
) -> Result<Option<String>, Rejected> {
    let builder = AstBuilder::new(allocator);
    let mut imports = Imports { uses, ..Imports::default() };
    let mut body = ArenaVec::with_capacity_in(program.body.len(), &allocator);
    for statement in program.body.take_in(&allocator) {
        match statement {
            Statement::ImportDeclaration(import) => imports.add(source, &import),
            Statement::ExportNamedDeclaration(_) => {}
            Statement::ExportAllDeclaration(_) | Statement::ExportFromDeclaration(_) => {
                return Err(Rejected {
                    message: "a program cannot export from another module: import it instead".to_owned(),
                    place: Some(Place::of_offset(source, statement.span().start as usize)),
                });
            }
            Statement::ExportDeclaration(export) => {
                body.push(declared(export.unbox().declaration, &builder));
            }
            Statement::ExportDefaultDeclaration(export) => {
                let span = export.span;
                body.push(default_export(span, export.unbox().declaration, &builder));
            }
            statement if statement.is_declaration() => body.push(declared(statement.into_declaration(), &builder)),
            statement => body.push(statement),
        }
    }
    program.body = body;
    Ok(imports.into_module())
}

/// A declaration that may be repeated in a later run.
fn declared<'a>(declaration: Declaration<'a>, builder: &AstBuilder<'a>) -> Statement<'a> {
    match declaration {
        Declaration::VariableDeclaration(mut variables) => {
            loosen(&mut variables, builder);
            Statement::VariableDeclaration(variables)
        }
        Declaration::ClassDeclaration(mut class) if class.id.is_some() => {
            let span = class.span;
            let Some(name) = class.id.as_ref().map(|id| (id.span, id.name)) else {
                return Statement::ClassDeclaration(class);
            };
            class.r#type = ClassType::ClassExpression;
            assigned(span, name, Expression::ClassExpression(class), builder)
        }
        other => Statement::from(other),
    }
}

fn assigned<'a>(
    span: Span,
    (name_span, name): (Span, oxc_ast::ast::Ident<'a>),
    value: Expression<'a>,
    builder: &AstBuilder<'a>,
) -> Statement<'a> {
    let pattern = BindingPattern::new_binding_identifier(name_span, name, builder);
    let declarator = VariableDeclarator::new(span, pattern, None, Some(value), false, builder);
    let all = ArenaVec::from_array_in([declarator], builder);
    Statement::new_variable_declaration(span, VariableDeclarationKind::Var, all, false, builder)
}

fn loosen<'a>(variables: &mut VariableDeclaration<'a>, builder: &AstBuilder<'a>) {
    if !matches!(variables.kind, VariableDeclarationKind::Let | VariableDeclarationKind::Const) {
        return;
    }
    variables.kind = VariableDeclarationKind::Var;
    for declarator in &mut variables.declarations {
        // `let x;` resets the variable each time, but `var x;` would keep its value from an earlier run.
        if declarator.init.is_none() {
            declarator.init = Some(Expression::new_void_0(declarator.span, builder));
        }
    }
}

fn default_export<'a>(span: Span, export: ExportDefaultDeclarationKind<'a>, builder: &AstBuilder<'a>) -> Statement<'a> {
    match export {
        ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.id.is_some() => {
            Statement::FunctionDeclaration(function)
        }
        ExportDefaultDeclarationKind::ClassDeclaration(class) if class.id.is_some() => {
            declared(Declaration::ClassDeclaration(class), builder)
        }
        other => match Expression::try_from(other) {
            Ok(value) => Statement::new_expression_statement(span, value, builder),
            // Without a name it cannot be used.
            Err(()) => Statement::new_empty_statement(span, builder),
        },
    }
}

/// The imports of a program, as a module in which each import is on its line of the source.
#[derive(Debug, Default)]
struct Imports {
    uses: HashMap<String, Use>,
    text: String,
    lines: usize,
    /// Statements that add names to the global scope.
    handed_on: String,
}

impl Imports {
    fn add(&mut self, source: &str, import: &ImportDeclaration<'_>) {
        let line = Place::of_offset(source, import.span.start as usize).line as usize;
        while self.lines + 1 < line {
            self.text.push('\n');
            self.lines += 1;
        }
        let from = quoted(import.source.value.as_str());
        let Some(specifiers) = &import.specifiers else {
            let _ = write!(self.text, "import {from};");
            return;
        };
        if specifiers.is_empty() {
            let _ = write!(self.text, "import {from};");
        }
        for specifier in specifiers {
            let local = specifier.local().name.as_str();
            let used = self.uses.get(local).copied().unwrap_or(Use::Value);
            let what = match specifier {
                _ if used == Use::TypeOnly => continue,
                // It may be a type, which modules do not export at run time. Then nothing is missing.
                ImportDeclarationSpecifier::ImportSpecifier(named) if used == Use::Nothing => {
                    let name = quoted(named.imported.name().as_str());
                    let _ = write!(self.text, "import * as {local} from {from};");
                    let _ = write!(self.handed_on, "if ({name} in {local}) globalThis.{local} = {local}[{name}];");
                    continue;
                }
                ImportDeclarationSpecifier::ImportSpecifier(named) => {
                    format!("{{ {} as {local} }}", quoted(named.imported.name().as_str()))
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => local.to_owned(),
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => format!("* as {local}"),
            };
            let _ = write!(self.text, "import {what} from {from};");
            let _ = write!(self.handed_on, "globalThis.{local} = {local};");
        }
    }

    fn into_module(mut self) -> Option<String> {
        if self.text.is_empty() {
            return None;
        }
        self.text.push_str(&self.handed_on);
        Some(self.text)
    }
}

/// Quotes text as a literal, using JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
