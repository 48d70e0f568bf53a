//! Every statement and expression of a tree, without recursion: hostile trees are deep.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, InterpolatedStringElement, Parameters, Pattern, Stmt};

/// What a tree is made of.
#[derive(Clone, Copy)]
pub(crate) enum Node<'a> {
    Stmt(&'a Stmt),
    Expr(&'a Expr),
    Comprehension(&'a Comprehension),
    Parameters(&'a Parameters),
    Pattern(&'a Pattern),
    Element(&'a InterpolatedStringElement),
}

/// Shows every node of some statements, parents first.
pub(crate) fn each<'a>(body: &'a [Stmt], mut show: impl FnMut(Node<'a>)) {
    let mut waiting = Waiting(body.iter().rev().map(Node::Stmt).collect());
    while let Some(node) = waiting.0.pop() {
        show(node);
        match node {
            Node::Stmt(stmt) => visitor::walk_stmt(&mut waiting, stmt),
            Node::Expr(expr) => visitor::walk_expr(&mut waiting, expr),
            Node::Comprehension(part) => visitor::walk_comprehension(&mut waiting, part),
            Node::Parameters(list) => visitor::walk_parameters(&mut waiting, list),
            Node::Pattern(pattern) => visitor::walk_pattern(&mut waiting, pattern),
            Node::Element(part) => visitor::walk_interpolated_string_element(&mut waiting, part),
        }
    }
}

/// Instead of walking on, notes where to.
struct Waiting<'a>(Vec<Node<'a>>);

impl<'a> Visitor<'a> for Waiting<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.0.push(Node::Stmt(stmt));
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.0.push(Node::Expr(expr));
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.0.push(Node::Comprehension(comprehension));
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        self.0.push(Node::Parameters(parameters));
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        self.0.push(Node::Pattern(pattern));
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        self.0.push(Node::Element(element));
    }
}
