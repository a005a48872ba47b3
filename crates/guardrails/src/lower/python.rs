//! Lowers the syntax tree of Python.

use crate::program::{Argument, Call, Import, Key, Kind, Node, Target};
use ruff_python_ast::visitor::{Visitor, walk_pattern};
use ruff_python_ast::{
    Arguments, Comprehension, ExceptHandler, Expr, FStringPart, Identifier, InterpolatedStringElement, Number,
    Operator, Parameters, Pattern, Stmt, StmtFunctionDef, StmtImport, StmtImportFrom, StmtTry, UnaryOp,
};
use ruff_text_size::Ranged;

/// Lowers statements.
pub(crate) fn statements(body: &[Stmt]) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(body.len());
    for one in body {
        statement(one, &mut nodes);
    }
    nodes
}

fn at(node: &impl Ranged) -> usize {
    node.start().to_usize()
}

fn statement(one: &Stmt, nodes: &mut Vec<Node>) {
    let place = at(one);
    match one {
        Stmt::FunctionDef(function) => definition(function, nodes),
        Stmt::ClassDef(class) => {
            nodes.extend(class.decorator_list.iter().map(|decorator| value_of(&decorator.expression)));
            if let Some(bases) = &class.arguments {
                nodes.extend(arguments(bases).into_iter().map(|argument| argument.value));
            }
            let (name, body) = (Some(class.name.to_string()), statements(&class.body));
            nodes.push(Node::new(place, Kind::Class { name, body }));
        }
        Stmt::Return(one) => nodes.extend(one.value.as_deref().map(value_of)),
        Stmt::Delete(one) => nodes.extend(one.targets.iter().map(value_of)),
        Stmt::TypeAlias(one) => nodes.push(value_of(&one.value)),
        Stmt::Assign(one) => {
            let mut node = expression(&one.value);
            for target in one.targets.iter().rev() {
                node = Node::new(place, Kind::Bind(self::target(target), Box::new(node)));
            }
            nodes.push(node);
        }
        Stmt::AugAssign(one) => {
            let parts = vec![expression(&one.target), expression(&one.value)];
            let kind = if one.op == Operator::Add { Kind::Join(parts) } else { Kind::Other(parts) };
            let sum = Node::new(place, kind);
            nodes.push(Node::new(place, Kind::Bind(target(&one.target), Box::new(sum))));
        }
        Stmt::AnnAssign(one) => {
            nodes.push(value_of(&one.annotation));
            if let Some(value) = &one.value {
                nodes.push(Node::new(place, Kind::Bind(target(&one.target), Box::new(expression(value)))));
            }
        }
        Stmt::For(one) => {
            nodes.push(Node::new(place, Kind::Each(target(&one.target), Box::new(expression(&one.iter)))));
            nodes.extend(statements(&one.body));
            nodes.extend(statements(&one.orelse));
        }
        Stmt::While(one) => {
            let body = statements(&one.body);
            if is_always_true(&one.test) {
                nodes.push(Node::new(place, Kind::Forever(body)));
            } else {
                nodes.push(value_of(&one.test));
                nodes.extend(body);
            }
            nodes.extend(statements(&one.orelse));
        }
        Stmt::If(one) => {
            nodes.push(value_of(&one.test));
            nodes.extend(statements(&one.body));
            for clause in &one.elif_else_clauses {
                nodes.extend(clause.test.as_ref().map(value_of));
                nodes.extend(statements(&clause.body));
            }
        }
        Stmt::With(one) => {
            for item in &one.items {
                let context = expression(&item.context_expr);
                nodes.push(match &item.optional_vars {
                    Some(name) => Node::new(place, Kind::Bind(target(name), Box::new(context))),
                    None => Node::other(place, vec![context]),
                });
            }
            nodes.extend(statements(&one.body));
        }
        Stmt::Match(one) => {
            nodes.push(value_of(&one.subject));
            for case in &one.cases {
                nodes.push(Node::new(place, Kind::Unknown(bound_by(&case.pattern))));
                nodes.extend(case.guard.as_deref().map(value_of));
                nodes.extend(statements(&case.body));
            }
        }
        Stmt::Raise(one) => {
            nodes.extend(one.exc.as_deref().map(value_of));
            nodes.extend(one.cause.as_deref().map(value_of));
        }
        Stmt::Try(one) => attempt(one, place, nodes),
        Stmt::Assert(one) => {
            nodes.push(value_of(&one.test));
            nodes.extend(one.msg.as_deref().map(value_of));
        }
        Stmt::Import(one) => import(one, nodes),
        Stmt::ImportFrom(one) => nodes.push(import_from(one)),
        Stmt::Expr(one) => nodes.push(value_of(&one.value)),
        Stmt::Global(one) => nodes.push(outer(place, &one.names)),
        Stmt::Nonlocal(one) => nodes.push(outer(place, &one.names)),
        Stmt::Pass(_) | Stmt::Break(_) | Stmt::Continue(_) | Stmt::IpyEscapeCommand(_) => {}
    }
}

fn outer(place: usize, names: &[Identifier]) -> Node {
    Node::new(place, Kind::Outer(names.iter().map(ToString::to_string).collect()))
}

fn definition(function: &StmtFunctionDef, nodes: &mut Vec<Node>) {
    nodes.extend(function.decorator_list.iter().map(|decorator| value_of(&decorator.expression)));
    nodes.extend(defaults(&function.parameters));
    nodes.extend(function.returns.as_deref().map(value_of));
    let function_node = Kind::Function { parameters: names(&function.parameters), body: statements(&function.body) };
    let value = Box::new(Node::new(at(function), function_node));
    nodes.push(Node::new(at(function), Kind::Bind(Target::Name(function.name.to_string()), value)));
}

fn attempt(one: &StmtTry, place: usize, nodes: &mut Vec<Node>) {
    nodes.push(Node::new(place, Kind::Guarded(statements(&one.body))));
    for ExceptHandler::ExceptHandler(handler) in &one.handlers {
        nodes.extend(handler.type_.as_deref().map(value_of));
        if let Some(name) = &handler.name {
            nodes.push(Node::new(place, Kind::Unknown(vec![name.to_string()])));
        }
        nodes.extend(statements(&handler.body));
    }
    nodes.extend(statements(&one.orelse));
    nodes.extend(statements(&one.finalbody));
}

fn import(one: &StmtImport, nodes: &mut Vec<Node>) {
    for alias in &one.names {
        let module = alias.name.to_string();
        // Without a name of its own, an import binds the outermost package.
        let whole = if let Some(name) = &alias.asname {
            (name.to_string(), module.clone())
        } else {
            let outermost = module.split('.').next().unwrap_or_default().to_owned();
            (outermost.clone(), outermost)
        };
        let import = Import {
            spelled: module.clone(),
            module,
            names: Vec::new(),
            whole: Some(whole),
            is_star: false,
            is_type: false,
        };
        nodes.push(Node::new(at(alias), Kind::Import(import)));
    }
}

fn import_from(one: &StmtImportFrom) -> Node {
    let dots = ".".repeat(one.level as usize);
    let module = format!("{dots}{}", one.module.as_ref().map_or("", |module| module.as_str()));
    let mut names = Vec::new();
    let mut is_star = false;
    for alias in &one.names {
        if alias.name.as_str() == "*" {
            is_star = true;
        } else {
            let local = alias.asname.as_ref().unwrap_or(&alias.name);
            names.push((alias.name.to_string(), local.to_string()));
        }
    }
    let import = Import { spelled: module.clone(), module, names, whole: None, is_star, is_type: false };
    Node::new(at(one), Kind::Import(import))
}

/// An expression whose value is used in a way that is not followed.
fn value_of(one: &Expr) -> Node {
    Node::other(at(one), vec![expression(one)])
}

fn is_always_true(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::NumberLiteral(literal) => matches!(&literal.value, Number::Int(number) if number.as_i64() != Some(0)),
        _ => false,
    }
}

fn target(one: &Expr) -> Target {
    match one {
        Expr::Name(name) => Target::Name(name.id.to_string()),
        Expr::Tuple(tuple) => parts(&tuple.elts),
        Expr::List(list) => parts(&list.elts),
        Expr::Starred(starred) => match starred.value.as_ref() {
            Expr::Name(name) => Target::Parts(vec![(name.id.to_string(), Key::Unknown)]),
            other => Target::Place(Box::new(expression(other))),
        },
        other => Target::Place(Box::new(expression(other))),
    }
}

fn parts(elements: &[Expr]) -> Target {
    let mut parts = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        match target(element) {
            Target::Name(name) => parts.push((name, Key::Number(index))),
            Target::Parts(inner) => parts.extend(inner.into_iter().map(|(name, _)| (name, Key::Unknown))),
            Target::Place(_) => {}
        }
    }
    Target::Parts(parts)
}

struct Bound(Vec<String>);

impl<'a> Visitor<'a> for Bound {
    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(one) => one.name.as_ref(),
            Pattern::MatchStar(one) => one.name.as_ref(),
            Pattern::MatchMapping(one) => one.rest.as_ref(),
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        walk_pattern(self, pattern);
    }
}

fn bound_by(pattern: &Pattern) -> Vec<String> {
    let mut bound = Bound(Vec::new());
    bound.visit_pattern(pattern);
    bound.0
}

fn names(parameters: &Parameters) -> Vec<String> {
    parameters.iter().map(|parameter| parameter.name().to_string()).collect()
}

/// Defaults and annotations of parameters.
fn defaults(parameters: &Parameters) -> impl Iterator<Item = Node> {
    let all = parameters.iter();
    all.flat_map(|parameter| parameter.default().into_iter().chain(parameter.annotation())).map(value_of)
}

fn arguments(arguments: &Arguments) -> Vec<Argument> {
    let positional = arguments.args.iter().map(|argument| match argument {
        Expr::Starred(starred) => Argument { name: None, is_spread: true, value: expression(&starred.value) },
        other => Argument { name: None, is_spread: false, value: expression(other) },
    });
    let named = arguments.keywords.iter().map(|keyword| Argument {
        name: keyword.arg.as_ref().map(ToString::to_string),
        is_spread: keyword.arg.is_none(),
        value: expression(&keyword.value),
    });
    positional.chain(named).collect()
}

fn boxed(one: &Expr) -> Box<Node> {
    Box::new(expression(one))
}

/// Lowers an expression.
fn expression(one: &Expr) -> Node {
    let place = at(one);
    let kind = match one {
        Expr::BoolOp(one) => Kind::Choice(one.values.iter().map(expression).collect()),
        Expr::Named(one) => Kind::Bind(target(&one.target), boxed(&one.value)),
        Expr::BinOp(one) => match one.op {
            Operator::Add => Kind::Join(vec![expression(&one.left), expression(&one.right)]),
            Operator::Div => Kind::Slash(boxed(&one.left), boxed(&one.right)),
            // A format: the evaluation of methods knows it.
            Operator::Mod => {
                let callee = Node::new(place, Kind::Member(boxed(&one.left), "__mod__".to_owned()));
                let values = match one.right.as_ref() {
                    Expr::Tuple(tuple) => tuple.elts.iter().map(expression).collect(),
                    other => vec![expression(other)],
                };
                let arguments =
                    values.into_iter().map(|value| Argument { name: None, is_spread: false, value }).collect();
                Kind::Call(Box::new(Call { callee, arguments, is_new: false }))
            }
            _ => Kind::Other(vec![expression(&one.left), expression(&one.right)]),
        },
        Expr::UnaryOp(one) => match (one.op, expression(&one.operand)) {
            (UnaryOp::USub, Node { kind: Kind::Number(number), .. }) => Kind::Number(number.saturating_neg()),
            (_, operand) => Kind::Other(vec![operand]),
        },
        Expr::Lambda(one) => {
            let parameters = one.parameters.as_deref();
            let body = vec![value_of(&one.body)];
            let function = Kind::Function { parameters: parameters.map(names).unwrap_or_default(), body };
            let defaults: Vec<Node> = parameters.map(|all| defaults(all).collect()).unwrap_or_default();
            if defaults.is_empty() {
                function
            } else {
                Kind::Sequence(defaults.into_iter().chain([Node::new(place, function)]).collect())
            }
        }
        Expr::If(one) => {
            let choice = Kind::Choice(vec![expression(&one.body), expression(&one.orelse)]);
            Kind::Sequence(vec![value_of(&one.test), Node::new(place, choice)])
        }
        Expr::Dict(one) => {
            let keys = one.items.iter().filter_map(|item| item.key.as_ref()).map(expression);
            Kind::Other(keys.chain(one.items.iter().map(|item| expression(&item.value))).collect())
        }
        Expr::Set(one) => Kind::Other(one.elts.iter().map(expression).collect()),
        Expr::ListComp(one) => comprehension(&one.generators, &[&one.elt], place),
        Expr::SetComp(one) => comprehension(&one.generators, &[&one.elt], place),
        Expr::Generator(one) => comprehension(&one.generators, &[&one.elt], place),
        Expr::DictComp(one) => {
            let parts: Vec<&Expr> = one.key.iter().chain([&one.value]).map(AsRef::as_ref).collect();
            comprehension(&one.generators, &parts, place)
        }
        Expr::Await(one) => return expression(&one.value),
        Expr::Yield(one) => Kind::Other(one.value.iter().map(|value| expression(value)).collect()),
        Expr::YieldFrom(one) => Kind::Other(vec![expression(&one.value)]),
        Expr::Compare(one) => {
            let comparators = one.comparators.iter().map(expression);
            Kind::Other([expression(&one.left)].into_iter().chain(comparators).collect())
        }
        Expr::Call(one) => {
            let call = Call { callee: expression(&one.func), arguments: arguments(&one.arguments), is_new: false };
            Kind::Call(Box::new(call))
        }
        Expr::FString(one) => {
            let mut parts = Vec::new();
            for part in &one.value {
                match part {
                    FStringPart::Literal(literal) => parts.push(Node::new(place, Kind::Text(literal.to_string()))),
                    FStringPart::FString(text) => interpolated(text.elements.iter(), &mut parts),
                }
            }
            Kind::Join(parts)
        }
        Expr::TString(one) => {
            let mut parts = Vec::new();
            for text in &one.value {
                interpolated(text.elements.iter(), &mut parts);
            }
            Kind::Other(parts)
        }
        Expr::StringLiteral(one) => Kind::Text(one.value.to_str().to_owned()),
        Expr::BytesLiteral(one) => {
            let bytes: Vec<u8> = one.value.bytes().collect();
            Kind::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        Expr::NumberLiteral(one) => match &one.value {
            Number::Int(number) => number.as_i64().map_or(Kind::Other(Vec::new()), Kind::Number),
            Number::Float(_) | Number::Complex { .. } => Kind::Other(Vec::new()),
        },
        Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) | Expr::IpyEscapeCommand(_) => {
            Kind::Other(Vec::new())
        }
        Expr::Attribute(one) => Kind::Member(boxed(&one.value), one.attr.to_string()),
        Expr::Subscript(one) => match one.slice.as_ref() {
            Expr::Slice(slice) => {
                let is_backwards = slice.lower.is_none()
                    && slice.upper.is_none()
                    && slice.step.as_deref().is_some_and(|step| matches!(expression(step).kind, Kind::Number(-1)));
                if is_backwards {
                    Kind::Reverse(boxed(&one.value))
                } else {
                    Kind::Other(vec![expression(&one.value), expression(&one.slice)])
                }
            }
            key => Kind::Index(boxed(&one.value), boxed(key)),
        },
        Expr::Starred(one) => Kind::Other(vec![expression(&one.value)]),
        Expr::Name(one) => Kind::Name(one.id.to_string()),
        Expr::List(one) => Kind::List(one.elts.iter().map(expression).collect()),
        Expr::Tuple(one) => Kind::List(one.elts.iter().map(expression).collect()),
        Expr::Slice(one) => {
            let parts = [&one.lower, &one.upper, &one.step];
            Kind::Other(parts.into_iter().flatten().map(|part| expression(part)).collect())
        }
    };
    Node::new(place, kind)
}

fn comprehension(generators: &[Comprehension], elements: &[&Expr], place: usize) -> Kind {
    let mut nodes = Vec::new();
    for generator in generators {
        let iterated = Box::new(expression(&generator.iter));
        nodes.push(Node::new(place, Kind::Each(target(&generator.target), iterated)));
        nodes.extend(generator.ifs.iter().map(value_of));
    }
    nodes.extend(elements.iter().map(|element| value_of(element)));
    Kind::Other(nodes)
}

fn interpolated<'a>(elements: impl Iterator<Item = &'a InterpolatedStringElement>, parts: &mut Vec<Node>) {
    for element in elements {
        match element {
            InterpolatedStringElement::Literal(literal) => {
                parts.push(Node::new(at(literal), Kind::Text(literal.value.to_string())));
            }
            InterpolatedStringElement::Interpolation(part) => {
                parts.push(expression(&part.expression));
                if let Some(format) = &part.format_spec {
                    let mut inner = Vec::new();
                    interpolated(format.elements.iter(), &mut inner);
                    // The width or precision changes the text.
                    parts.extend(inner.into_iter().filter(|node| !matches!(node.kind, Kind::Text(_))));
                }
            }
        }
    }
}
