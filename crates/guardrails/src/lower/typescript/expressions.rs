//! Expressions, functions and classes of TypeScript.

mod targets;

pub(super) use targets::{assigned, bound};

use super::{at, names_of, statements};
use crate::program::{Argument, Call, Key, Kind, Node, Target};
use oxc_ast::ast::{
    ArrayExpressionElement, ArrowFunctionBody, AssignmentOperator, BinaryOperator, CallExpression, ChainElement, Class,
    ClassElement, Expression, FormalParameters, Function, MemberExpression, NewExpression, ObjectPropertyKind,
    PropertyKey, TemplateLiteral, UnaryOperator,
};
use oxc_span::{GetSpan, Span};

/// An expression whose value is used in a way that is not followed.
pub(super) fn value_of(one: &Expression<'_>) -> Node {
    Node::other(at(one.span()), vec![expression(one)])
}

fn boxed(one: &Expression<'_>) -> Box<Node> {
    Box::new(expression(one))
}

/// Lowers an expression.
pub(super) fn expression(one: &Expression<'_>) -> Node {
    let place = at(one.span());
    let kind = match one {
        Expression::StringLiteral(literal) => Kind::Text(literal.value.to_string()),
        Expression::NumericLiteral(literal) => number(literal.value),
        Expression::TemplateLiteral(template) => Kind::Join(parts(template)),
        Expression::Identifier(name) => Kind::Name(name.name.to_string()),
        Expression::ArrayExpression(array) => Kind::List(array.elements.iter().map(element).collect()),
        Expression::ArrowFunctionExpression(arrow) => {
            let body = match &arrow.body {
                ArrowFunctionBody::FunctionBody(body) => statements(&body.statements),
                other => other.as_expression().map(value_of).into_iter().collect(),
            };
            return with_defaults(&arrow.params, arrow.span, body);
        }
        Expression::AssignmentExpression(one) => {
            let target = assigned(&one.left);
            let value = expression(&one.right);
            let value = match (&target, one.operator) {
                (Target::Name(name), AssignmentOperator::Addition) => {
                    Node::new(place, Kind::Join(vec![Node::new(place, Kind::Name(name.clone())), value]))
                }
                (_, operator) if operator.is_arithmetic() || operator.is_bitwise() => Node::other(place, vec![value]),
                _ => value,
            };
            Kind::Bind(target, Box::new(value))
        }
        Expression::AwaitExpression(one) => return expression(&one.argument),
        Expression::BinaryExpression(one) if one.operator == BinaryOperator::Addition => {
            Kind::Join(vec![expression(&one.left), expression(&one.right)])
        }
        Expression::BinaryExpression(one) => Kind::Other(vec![expression(&one.left), expression(&one.right)]),
        Expression::CallExpression(one) => call(one),
        Expression::ChainExpression(one) => match &one.expression {
            ChainElement::CallExpression(one) => call(one),
            ChainElement::TSNonNullExpression(one) => return expression(&one.expression),
            other => other.as_member_expression().map_or(Kind::Other(Vec::new()), member_parts),
        },
        Expression::ClassExpression(one) => return Node::other(place, class(one)),
        Expression::ConditionalExpression(one) => {
            let choice = Kind::Choice(vec![expression(&one.consequent), expression(&one.alternate)]);
            Kind::Sequence(vec![value_of(&one.test), Node::new(place, choice)])
        }
        Expression::FunctionExpression(one) => return function_value(one),
        Expression::ImportExpression(one) => {
            let callee = Node::new(place, Kind::Name("import".to_owned()));
            let arguments = vec![Argument { name: None, is_spread: false, value: expression(&one.source) }];
            Kind::Call(Box::new(Call { callee, arguments, is_new: false }))
        }
        Expression::LogicalExpression(one) => Kind::Choice(vec![expression(&one.left), expression(&one.right)]),
        Expression::NewExpression(one) => new(one),
        Expression::ObjectExpression(object) => {
            let mut nodes = Vec::new();
            for property in &object.properties {
                match property {
                    ObjectPropertyKind::ObjectProperty(one) => {
                        if one.computed {
                            nodes.extend(one.key.as_expression().map(value_of));
                        }
                        nodes.push(expression(&one.value));
                    }
                    ObjectPropertyKind::SpreadProperty(one) => nodes.push(expression(&one.argument)),
                }
            }
            Kind::Other(nodes)
        }
        Expression::ParenthesizedExpression(one) => return expression(&one.expression),
        Expression::SequenceExpression(one) => Kind::Sequence(one.expressions.iter().map(expression).collect()),
        Expression::TaggedTemplateExpression(one) => {
            let value = Node::new(place, Kind::Join(parts(&one.quasi)));
            let arguments = vec![Argument { name: None, is_spread: false, value }];
            Kind::Call(Box::new(Call { callee: expression(&one.tag), arguments, is_new: false }))
        }
        Expression::ThisExpression(_) => Kind::Name("this".to_owned()),
        Expression::UnaryExpression(one) => match (one.operator, expression(&one.argument)) {
            (UnaryOperator::UnaryNegation, Node { kind: Kind::Number(number), .. }) => {
                Kind::Number(number.saturating_neg())
            }
            // Asking for the type of a function does not use it.
            (UnaryOperator::Typeof, Node { kind: Kind::Name(_), .. }) => Kind::Other(Vec::new()),
            (_, operand) => Kind::Other(vec![operand]),
        },
        Expression::YieldExpression(one) => Kind::Other(one.argument.iter().map(expression).collect()),
        Expression::PrivateInExpression(one) => Kind::Other(vec![expression(&one.right)]),
        Expression::TSAsExpression(one) => return expression(&one.expression),
        Expression::TSSatisfiesExpression(one) => return expression(&one.expression),
        Expression::TSTypeAssertion(one) => return expression(&one.expression),
        Expression::TSNonNullExpression(one) => return expression(&one.expression),
        Expression::TSInstantiationExpression(one) => return expression(&one.expression),
        Expression::RegExpLiteral(_)
        | Expression::BooleanLiteral(_)
        | Expression::NullLiteral(_)
        | Expression::BigIntLiteral(_)
        | Expression::Super(_)
        | Expression::UpdateExpression(_)
        | Expression::ImportMeta(_)
        | Expression::NewTarget(_)
        | Expression::JSXElement(_)
        | Expression::JSXFragment(_)
        | Expression::V8IntrinsicExpression(_) => Kind::Other(Vec::new()),
        other => other.as_member_expression().map_or(Kind::Other(Vec::new()), member_parts),
    };
    Node::new(place, kind)
}

#[expect(clippy::cast_precision_loss, reason = "the bounds are exact")]
fn number(value: f64) -> Kind {
    const MOST: i64 = 1 << 52;
    if value.fract() == 0.0 && value.abs() <= MOST as f64 {
        Kind::Number(value as i64)
    } else {
        Kind::Other(Vec::new())
    }
}

fn element(one: &ArrayExpressionElement<'_>) -> Node {
    match one {
        ArrayExpressionElement::SpreadElement(spread) => {
            Node::other(at(spread.span), vec![expression(&spread.argument)])
        }
        ArrayExpressionElement::Elision(elision) => Node::other(at(elision.span), Vec::new()),
        other => other.as_expression().map_or_else(|| Node::other(at(other.span()), Vec::new()), expression),
    }
}

fn parts(template: &TemplateLiteral<'_>) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut values = template.expressions.iter();
    for quasi in &template.quasis {
        let text = quasi.value.cooked.as_ref().unwrap_or(&quasi.value.raw).to_string();
        nodes.push(Node::new(at(quasi.span), Kind::Text(text)));
        nodes.extend(values.next().map(expression));
    }
    nodes
}

/// `object.name` or `object[key]`.
pub(super) fn member_parts(one: &MemberExpression<'_>) -> Kind {
    match one {
        MemberExpression::StaticMemberExpression(one) => {
            Kind::Member(boxed(&one.object), one.property.name.to_string())
        }
        MemberExpression::ComputedMemberExpression(one) => Kind::Index(boxed(&one.object), boxed(&one.expression)),
        MemberExpression::PrivateFieldExpression(one) => {
            Kind::Member(boxed(&one.object), format!("#{}", one.field.name))
        }
    }
}

/// Which part of an object a pattern takes.
pub(super) fn key_of(key: &PropertyKey<'_>) -> Key {
    match key {
        PropertyKey::StaticIdentifier(name) => Key::Name(name.name.to_string()),
        PropertyKey::StringLiteral(text) => Key::Name(text.value.to_string()),
        _ => Key::Unknown,
    }
}

fn arguments(all: &[oxc_ast::ast::Argument<'_>]) -> Vec<Argument> {
    let one = |argument: &oxc_ast::ast::Argument<'_>| match argument {
        oxc_ast::ast::Argument::SpreadElement(spread) => {
            Argument { name: None, is_spread: true, value: expression(&spread.argument) }
        }
        other => {
            let missing = || Node::other(at(other.span()), Vec::new());
            let value = other.as_expression().map_or_else(missing, expression);
            Argument { name: None, is_spread: false, value }
        }
    };
    all.iter().map(one).collect()
}

fn call(one: &CallExpression<'_>) -> Kind {
    let (callee, arguments) = (expression(&one.callee), arguments(&one.arguments));
    Kind::Call(Box::new(Call { callee, arguments, is_new: false }))
}

fn new(one: &NewExpression<'_>) -> Kind {
    let (callee, arguments) = (expression(&one.callee), arguments(&one.arguments));
    Kind::Call(Box::new(Call { callee, arguments, is_new: true }))
}

/// A function, after the default values of its parameters.
fn with_defaults(parameters: &FormalParameters<'_>, span: Span, body: Vec<Node>) -> Node {
    let (mut names, mut nodes) = (Vec::new(), Vec::new());
    for parameter in &parameters.items {
        names.extend(names_of(&parameter.pattern));
        nodes.extend(bound(&parameter.pattern).1);
        nodes.extend(parameter.initializer.as_deref().map(value_of));
        nodes.extend(parameter.decorators.iter().map(|decorator| value_of(&decorator.expression)));
    }
    if let Some(rest) = &parameters.rest {
        names.extend(names_of(&rest.rest.argument));
    }
    let function = Node::new(at(span), Kind::Function { parameters: names, body });
    if nodes.is_empty() {
        return function;
    }
    nodes.push(function);
    Node::new(at(span), Kind::Sequence(nodes))
}

fn function_value(one: &Function<'_>) -> Node {
    let body = one.body.as_ref().map(|body| statements(&body.statements)).unwrap_or_default();
    with_defaults(&one.params, one.span, body)
}

/// A declared function, with its name.
pub(super) fn function(one: &Function<'_>) -> Vec<Node> {
    let value = function_value(one);
    match &one.id {
        Some(name) => {
            let target = Target::Name(name.name.to_string());
            vec![Node::new(at(one.span), Kind::Bind(target, Box::new(value)))]
        }
        None => vec![value],
    }
}

/// A class, after the expressions outside of its body.
pub(super) fn class(one: &Class<'_>) -> Vec<Node> {
    let mut nodes: Vec<Node> = one.decorators.iter().map(|decorator| value_of(&decorator.expression)).collect();
    nodes.extend(one.heritage.as_ref().map(|heritage| value_of(&heritage.expression)));
    let mut body = Vec::new();
    let computed = |key: &PropertyKey<'_>, is_computed: bool| {
        if is_computed { key.as_expression().map(value_of) } else { None }
    };
    for element in &one.body.body {
        match element {
            ClassElement::StaticBlock(block) => {
                let inner = Kind::Function { parameters: Vec::new(), body: statements(&block.body) };
                body.push(Node::new(at(block.span), inner));
            }
            ClassElement::MethodDefinition(method) => {
                body.extend(method.decorators.iter().map(|decorator| value_of(&decorator.expression)));
                body.extend(computed(&method.key, method.computed));
                body.push(function_value(&method.value));
            }
            ClassElement::PropertyDefinition(property) => {
                body.extend(property.decorators.iter().map(|decorator| value_of(&decorator.expression)));
                body.extend(computed(&property.key, property.computed));
                body.extend(property.value.as_ref().map(value_of));
            }
            ClassElement::AccessorProperty(property) => {
                body.extend(computed(&property.key, property.computed));
                body.extend(property.value.as_ref().map(value_of));
            }
            ClassElement::TSIndexSignature(_) => {}
        }
    }
    let name = one.id.as_ref().map(|name| name.name.to_string());
    nodes.push(Node::new(at(one.span), Kind::Class { name, body }));
    nodes
}
