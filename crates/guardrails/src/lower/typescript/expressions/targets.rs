//! What TypeScript assigns values to.

use super::super::at;
use super::{expression, key_of, member_parts, value_of};
use crate::program::{Key, Node, Target};
use oxc_ast::ast::{
    AssignmentTarget, AssignmentTargetMaybeDefault, AssignmentTargetProperty, BindingPattern, SimpleAssignmentTarget,
};
use oxc_span::GetSpan;

/// The target of a declaration, and the default values in it.
pub(in crate::lower::typescript) fn bound(pattern: &BindingPattern<'_>) -> (Target, Vec<Node>) {
    let mut defaults = Vec::new();
    let target = match pattern {
        BindingPattern::BindingIdentifier(name) => Target::Name(name.name.to_string()),
        BindingPattern::AssignmentPattern(one) => {
            let (target, mut inner) = bound(&one.left);
            defaults.append(&mut inner);
            defaults.push(value_of(&one.right));
            target
        }
        BindingPattern::ObjectPattern(object) => {
            let mut parts = Vec::new();
            for property in &object.properties {
                add(&property.value, key_of(&property.key), &mut parts, &mut defaults);
            }
            if let Some(rest) = &object.rest {
                add(&rest.argument, Key::Unknown, &mut parts, &mut defaults);
            }
            Target::Parts(parts)
        }
        BindingPattern::ArrayPattern(array) => {
            let mut parts = Vec::new();
            for (index, element) in array.elements.iter().enumerate() {
                if let Some(element) = element {
                    add(element, Key::Number(index), &mut parts, &mut defaults);
                }
            }
            if let Some(rest) = &array.rest {
                add(&rest.argument, Key::Unknown, &mut parts, &mut defaults);
            }
            Target::Parts(parts)
        }
    };
    (target, defaults)
}

fn add(pattern: &BindingPattern<'_>, key: Key, parts: &mut Vec<(String, Key)>, defaults: &mut Vec<Node>) {
    let (target, mut inner) = bound(pattern);
    defaults.append(&mut inner);
    put(target, key, parts);
}

fn put(target: Target, key: Key, parts: &mut Vec<(String, Key)>) {
    match target {
        Target::Name(name) => parts.push((name, key)),
        Target::Parts(inner) => parts.extend(inner.into_iter().map(|(name, _)| (name, Key::Unknown))),
        Target::Place(_) => {}
    }
}

/// The target of an assignment.
pub(in crate::lower::typescript) fn assigned(target: &AssignmentTarget<'_>) -> Target {
    match target {
        AssignmentTarget::AssignmentTargetIdentifier(name) => Target::Name(name.name.to_string()),
        AssignmentTarget::ArrayAssignmentTarget(array) => {
            let mut parts = Vec::new();
            for (index, element) in array.elements.iter().enumerate() {
                if let Some(element) = element {
                    put(maybe_default(element), Key::Number(index), &mut parts);
                }
            }
            Target::Parts(parts)
        }
        AssignmentTarget::ObjectAssignmentTarget(object) => {
            let mut parts = Vec::new();
            for property in &object.properties {
                match property {
                    AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(one) => {
                        let name = one.binding.name.to_string();
                        parts.push((name.clone(), Key::Name(name)));
                    }
                    AssignmentTargetProperty::AssignmentTargetPropertyProperty(one) => {
                        put(maybe_default(&one.binding), key_of(&one.name), &mut parts);
                    }
                }
            }
            Target::Parts(parts)
        }
        other => other.as_simple_assignment_target().map_or(Target::Parts(Vec::new()), place),
    }
}

fn maybe_default(target: &AssignmentTargetMaybeDefault<'_>) -> Target {
    match target {
        AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(one) => assigned(&one.binding),
        other => other.as_assignment_target().map_or(Target::Parts(Vec::new()), assigned),
    }
}

/// An attribute or an element.
fn place(target: &SimpleAssignmentTarget<'_>) -> Target {
    let inner = match target {
        SimpleAssignmentTarget::TSAsExpression(one) => Some(expression(&one.expression)),
        SimpleAssignmentTarget::TSSatisfiesExpression(one) => Some(expression(&one.expression)),
        SimpleAssignmentTarget::TSNonNullExpression(one) => Some(expression(&one.expression)),
        SimpleAssignmentTarget::TSTypeAssertion(one) => Some(expression(&one.expression)),
        other => other.as_member_expression().map(|one| Node::new(at(other.span()), member_parts(one))),
    };
    inner.map_or(Target::Parts(Vec::new()), |node| Target::Place(Box::new(node)))
}
