//! Lowers the syntax tree of TypeScript: statements and what they bind. Expressions are in `expressions.rs`.

mod expressions;

use crate::program::{Import, Kind, Node, Target};
use expressions::{assigned, bound};
use expressions::{class, expression, function, value_of};
use oxc_ast::ast::{
    BindingPattern, Declaration, ExportDefaultDeclarationKind, ForStatementInit, ForStatementLeft, ImportDeclaration,
    ImportDeclarationSpecifier, Statement, TSModuleReference, TryStatement, VariableDeclaration,
};
use oxc_span::{GetSpan, Span};

/// Lowers statements.
pub(crate) fn statements(body: &[Statement<'_>]) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(body.len());
    for one in body {
        statement(one, &mut nodes);
    }
    nodes
}

fn at(span: Span) -> usize {
    span.start as usize
}

fn body_of(one: &Statement<'_>) -> Vec<Node> {
    let mut nodes = Vec::new();
    statement(one, &mut nodes);
    nodes
}

fn statement(one: &Statement<'_>, nodes: &mut Vec<Node>) {
    let place = at(one.span());
    match one {
        Statement::BlockStatement(block) => nodes.extend(statements(&block.body)),
        Statement::DoWhileStatement(one) => {
            let body = body_of(&one.body);
            if is_always_true(&one.test) {
                nodes.push(Node::new(place, Kind::Forever(body)));
            } else {
                nodes.extend(body);
                nodes.push(value_of(&one.test));
            }
        }
        Statement::ExpressionStatement(one) => nodes.push(value_of(&one.expression)),
        Statement::ForInStatement(one) => {
            each(&one.left, Node::other(place, vec![expression(&one.right)]), nodes);
            nodes.extend(body_of(&one.body));
        }
        Statement::ForOfStatement(one) => {
            each(&one.left, expression(&one.right), nodes);
            nodes.extend(body_of(&one.body));
        }
        Statement::ForStatement(one) => {
            match &one.init {
                Some(ForStatementInit::VariableDeclaration(variables)) => declare(variables, nodes),
                Some(other) => nodes.extend(other.as_expression().map(value_of)),
                None => {}
            }
            nodes.extend(one.test.as_ref().map(value_of));
            nodes.extend(one.update.as_ref().map(value_of));
            let body = body_of(&one.body);
            if one.test.is_none() {
                nodes.push(Node::new(place, Kind::Forever(body)));
            } else {
                nodes.extend(body);
            }
        }
        Statement::IfStatement(one) => {
            nodes.push(value_of(&one.test));
            nodes.extend(body_of(&one.consequent));
            if let Some(alternate) = &one.alternate {
                statement(alternate, nodes);
            }
        }
        Statement::LabeledStatement(one) => statement(&one.body, nodes),
        Statement::ReturnStatement(one) => nodes.extend(one.argument.as_ref().map(value_of)),
        Statement::SwitchStatement(one) => {
            nodes.push(value_of(&one.discriminant));
            for case in &one.cases {
                nodes.extend(case.test.as_ref().map(value_of));
                nodes.extend(statements(&case.consequent));
            }
        }
        Statement::ThrowStatement(one) => nodes.push(value_of(&one.argument)),
        Statement::TryStatement(one) => attempt(one, nodes),
        Statement::WhileStatement(one) => {
            let body = body_of(&one.body);
            if is_always_true(&one.test) {
                nodes.push(Node::new(place, Kind::Forever(body)));
            } else {
                nodes.push(value_of(&one.test));
                nodes.extend(body);
            }
        }
        Statement::WithStatement(one) => {
            nodes.push(value_of(&one.object));
            nodes.extend(body_of(&one.body));
        }
        Statement::ImportDeclaration(one) => nodes.push(import(one)),
        Statement::ExportAllDeclaration(one) => nodes.push(reexport(one.span, &one.source.value)),
        Statement::ExportFromDeclaration(one) => nodes.push(reexport(one.span, &one.source.value)),
        Statement::ExportDeclaration(one) => declaration(&one.declaration, nodes),
        Statement::ExportDefaultDeclaration(one) => match &one.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(one) => nodes.extend(function(one)),
            ExportDefaultDeclarationKind::ClassDeclaration(one) => nodes.extend(class(one)),
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => {}
            other => nodes.extend(other.as_expression().map(value_of)),
        },
        Statement::TSExportAssignment(one) => nodes.push(value_of(&one.expression)),
        Statement::BreakStatement(_)
        | Statement::ContinueStatement(_)
        | Statement::DebuggerStatement(_)
        | Statement::EmptyStatement(_)
        | Statement::ExportNamedDeclaration(_)
        | Statement::TSNamespaceExportDeclaration(_) => {}
        other => {
            if let Some(one) = other.as_declaration() {
                declaration(one, nodes);
            }
        }
    }
}

fn declaration(one: &Declaration<'_>, nodes: &mut Vec<Node>) {
    match one {
        Declaration::VariableDeclaration(variables) => declare(variables, nodes),
        Declaration::FunctionDeclaration(one) => nodes.extend(function(one)),
        Declaration::ClassDeclaration(one) => nodes.extend(class(one)),
        Declaration::TSEnumDeclaration(one) => {
            nodes.extend(one.body.members.iter().filter_map(|member| member.initializer.as_ref()).map(value_of));
        }
        Declaration::TSNamespaceDeclaration(one) => namespace(&one.body, nodes),
        Declaration::TSGlobalDeclaration(one) => nodes.extend(statements(&one.body.body)),
        Declaration::TSImportEqualsDeclaration(one) => {
            if let TSModuleReference::ExternalModuleReference(module) = &one.module_reference {
                let (module, name) = (module.expression.value.to_string(), one.id.name.to_string());
                nodes.push(Node::new(at(one.span), Kind::Import(whole(module, name))));
            }
        }
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_) => {}
    }
}

fn declare(variables: &VariableDeclaration<'_>, nodes: &mut Vec<Node>) {
    for one in &variables.declarations {
        match &one.init {
            Some(value) => bind(&one.id, expression(value), nodes),
            None => nodes.push(Node::new(at(one.span), Kind::Unknown(names_of(&one.id)))),
        }
    }
}

/// Binds the names of a pattern to the parts of a value.
fn bind(pattern: &BindingPattern<'_>, value: Node, nodes: &mut Vec<Node>) {
    let place = value.at;
    let (target, defaults) = bound(pattern);
    nodes.extend(defaults);
    nodes.push(Node::new(place, Kind::Bind(target, Box::new(value))));
}

fn names_of(pattern: &BindingPattern<'_>) -> Vec<String> {
    match bound(pattern).0 {
        Target::Name(name) => vec![name],
        Target::Parts(parts) => parts.into_iter().map(|(name, _)| name).collect(),
        Target::Place(_) => Vec::new(),
    }
}

fn each(left: &ForStatementLeft<'_>, values: Node, nodes: &mut Vec<Node>) {
    let (place, target) = (
        values.at,
        match left {
            ForStatementLeft::VariableDeclaration(variables) => {
                variables.declarations.first().map_or(Target::Parts(Vec::new()), |one| bound(&one.id).0)
            }
            other => other.as_assignment_target().map_or(Target::Parts(Vec::new()), assigned),
        },
    );
    nodes.push(Node::new(place, Kind::Each(target, Box::new(values))));
}

fn attempt(one: &TryStatement<'_>, nodes: &mut Vec<Node>) {
    nodes.push(Node::new(at(one.span), Kind::Guarded(statements(&one.block.body))));
    if let Some(handler) = &one.handler {
        if let Some(parameter) = &handler.param {
            nodes.push(Node::new(at(handler.span), Kind::Unknown(names_of(&parameter.pattern))));
        }
        nodes.extend(statements(&handler.body.body));
    }
    if let Some(finalizer) = &one.finalizer {
        nodes.extend(statements(&finalizer.body));
    }
}

fn is_always_true(test: &oxc_ast::ast::Expression<'_>) -> bool {
    use oxc_ast::ast::Expression;
    match test.without_parentheses() {
        Expression::BooleanLiteral(literal) => literal.value,
        Expression::NumericLiteral(literal) => literal.value != 0.0,
        _ => false,
    }
}

/// The dotted path of a module: `servers/git` is `servers.git`, as in Python.
fn dotted(module: &str) -> String {
    let is_ours = ["servers", "skills"]
        .iter()
        .any(|root| module.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    if !is_ours {
        return module.strip_prefix("node:").unwrap_or(module).to_owned();
    }
    let path = module.trim_end_matches(".ts").trim_end_matches(".js").trim_end_matches("/index");
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

fn whole(module: String, name: String) -> Import {
    let path = dotted(&module);
    Import {
        module: path.clone(),
        spelled: module,
        names: Vec::new(),
        whole: Some((name, path)),
        is_star: false,
        is_type: false,
    }
}

fn reexport(span: Span, module: &str) -> Node {
    let import = Import {
        module: dotted(module),
        spelled: module.to_owned(),
        names: Vec::new(),
        whole: None,
        is_star: false,
        is_type: false,
    };
    Node::new(at(span), Kind::Import(import))
}

fn import(one: &ImportDeclaration<'_>) -> Node {
    let module = dotted(&one.source.value);
    let (mut names, mut whole) = (Vec::new(), None);
    for specifier in one.specifiers.iter().flatten() {
        match specifier {
            ImportDeclarationSpecifier::ImportSpecifier(one) => {
                if !one.import_kind.is_type() {
                    names.push((one.imported.name().to_string(), one.local.name.to_string()));
                }
            }
            ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => {
                whole = Some((one.local.name.to_string(), module.clone()));
            }
            ImportDeclarationSpecifier::ImportNamespaceSpecifier(one) => {
                whole = Some((one.local.name.to_string(), module.clone()));
            }
        }
    }
    let spelled = one.source.value.to_string();
    let is_type = one.import_kind.is_type();
    Node::new(at(one.span), Kind::Import(Import { module, spelled, names, whole, is_star: false, is_type }))
}

fn namespace(body: &oxc_ast::ast::TSNamespaceDeclarationBody<'_>, nodes: &mut Vec<Node>) {
    use oxc_ast::ast::TSNamespaceDeclarationBody;
    match body {
        TSNamespaceDeclarationBody::TSModuleBlock(block) => nodes.extend(statements(&block.body)),
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => namespace(&inner.body, nodes),
    }
}
