//! What an expression of constants comes to.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{
    Expr, ExprCall, ExprGenerator, ExprSlice, FStringPart, InterpolatedStringElement, Number,
    Operator, UnaryOp,
};

use crate::bindings::{Bound, elements};
use crate::constants::{Const, builtin, character, items, known_text, pick, sliced, swapped};
use crate::format;
use crate::paths::{MAX_HOPS, Scope};

/// Values of one name that are tried where the name is a part of something.
const MAX_VALUES: usize = 32;

/// The variable of a generator, while it is worked out.
type Variable<'v> = Option<(&'v str, &'v Const)>;

impl Scope<'_> {
    /// The texts an expression can come to: more than one where a name has more than one value.
    pub(crate) fn strings(self, expr: &Expr) -> Vec<String> {
        self.strings_within(expr, MAX_HOPS)
    }

    pub(crate) fn strings_within(self, expr: &Expr, hops: usize) -> Vec<String> {
        let mut texts = Vec::new();
        let mut seen = HashSet::new();
        let mut waiting = vec![expr];
        while let Some(expr) = waiting.pop() {
            if self.budget.take(1).is_none() {
                break;
            }
            match expr {
                Expr::Name(name) => {
                    if seen.insert(name.id.as_str()) {
                        let all = self.names.get(name.id.as_str());
                        let affordable = all.take_while(|_| self.budget.take(1).is_some());
                        waiting.extend(affordable.filter_map(Bound::value));
                    }
                }
                Expr::Named(named) => waiting.push(&named.value),
                Expr::If(either) => waiting.extend([&*either.body, &*either.orelse]),
                Expr::BoolOp(operation) => waiting.extend(&operation.values),
                _ => match self.fold(expr, hops, None) {
                    Some(Const::Str(text)) => texts.push(text),
                    Some(Const::Bytes(bytes)) => texts.extend(String::from_utf8(bytes)),
                    Some(Const::Int(_) | Const::List(_)) | None => {}
                },
            }
        }
        texts
    }

    fn fold(self, expr: &Expr, hops: usize, variable: Variable<'_>) -> Option<Const> {
        let hops = hops.checked_sub(1)?;
        self.budget.take(1)?;
        let fold = |expr: &Expr| self.fold(expr, hops, variable);
        let value = match expr {
            Expr::StringLiteral(literal) => Const::Str(literal.value.to_str().to_owned()),
            Expr::BytesLiteral(literal) => Const::Bytes(literal.value.bytes().collect()),
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(number) => Const::Int(number.as_i64()?),
                Number::Float(_) | Number::Complex { .. } => return None,
            },
            Expr::UnaryOp(operation) if operation.op == UnaryOp::USub => {
                match fold(&operation.operand)? {
                    Const::Int(number) => Const::Int(number.checked_neg()?),
                    Const::Str(_) | Const::Bytes(_) | Const::List(_) => return None,
                }
            }
            Expr::List(_) | Expr::Tuple(_) => {
                Const::List(elements(expr)?.iter().map(fold).collect::<Option<_>>()?)
            }
            Expr::Name(name) => return self.fold_name(name.id.as_str(), hops, variable),
            Expr::Named(named) => fold(&named.value)?,
            Expr::FString(literal) => self.fold_f_string(literal.value.iter(), hops, variable)?,
            Expr::BinOp(operation) if operation.op == Operator::Add => {
                self.fold_sum(expr, hops, variable)?
            }
            Expr::BinOp(operation) => {
                self.operate(operation.op, fold(&operation.left)?, fold(&operation.right)?)?
            }
            Expr::Subscript(item) => match &*item.slice {
                Expr::Slice(slice) => self.fold_slice(fold(&item.value)?, slice, hops, variable)?,
                index => pick(fold(&item.value)?, &fold(index)?)?,
            },
            Expr::Generator(generator) => self.fold_generator(generator, hops)?,
            Expr::ListComp(list) => self.fold_items(&list.elt, &list.generators, hops)?,
            Expr::Attribute(_) => Const::Str(known_text(self.paths_within(expr, hops).first()?)?),
            Expr::Call(call) => self.fold_call(call, hops, variable)?,
            _ => return None,
        };
        self.budget.text(value.size())?;
        Some(value)
    }

    /// A name that has one value we know, whatever else it is bound to.
    fn fold_name(self, name: &str, hops: usize, variable: Variable<'_>) -> Option<Const> {
        match variable {
            Some((own, value)) if own == name => {
                self.budget.text(value.size())?;
                return Some(value.clone());
            }
            _ => {}
        }
        let mut all = self.names.get(name);
        match (all.next(), all.next()) {
            (Some(bound), None) => self.fold(bound.value()?, hops, None),
            _ if self.within_crowd => None,
            _ => {
                // Such names are often made of themselves and of each other, in circles, so one is
                // not followed to the next.
                let scope = Self { within_crowd: true, ..self };
                let values = self.names.get(name).filter_map(Bound::value).take(MAX_VALUES);
                let mut known = values.filter_map(|value| scope.fold(value, hops, None));
                let first = known.next()?;
                known.all(|other| other == first).then_some(first)
            }
        }
    }

    /// `a + b + c`, which nests to the left, without going down.
    fn fold_sum(self, expr: &Expr, hops: usize, variable: Variable<'_>) -> Option<Const> {
        let mut parts = Vec::new();
        let mut first = expr;
        while let Expr::BinOp(sum) = first {
            if sum.op != Operator::Add {
                break;
            }
            self.budget.take(1)?;
            parts.push(&*sum.right);
            first = &sum.left;
        }
        let mut total = self.fold(first, hops, variable)?;
        let mut length = total.size();
        for part in parts.into_iter().rev() {
            let part = self.fold(part, hops, variable)?;
            length += part.size();
            self.budget.fits(length)?;
            match (&mut total, part) {
                (Const::Str(left), Const::Str(right)) => left.push_str(&right),
                (Const::Bytes(left), Const::Bytes(right)) => left.extend(right),
                (Const::List(left), Const::List(right)) => left.extend(right),
                (Const::Int(left), Const::Int(right)) => *left = left.checked_add(right)?,
                _ => return None,
            }
        }
        Some(total)
    }

    fn operate(self, op: Operator, left: Const, right: Const) -> Option<Const> {
        match (op, left, right) {
            (Operator::Mult, Const::Str(text), Const::Int(times))
            | (Operator::Mult, Const::Int(times), Const::Str(text)) => {
                let times = usize::try_from(times.max(0)).ok()?;
                self.budget.fits(text.len().saturating_mul(times))?;
                Some(Const::Str(text.repeat(times)))
            }
            (Operator::Mod, Const::Str(text), value) => {
                let values = match value {
                    Const::List(values) => values,
                    value => vec![value],
                };
                format::percent(&text, &values, self.budget).map(Const::Str)
            }
            (Operator::Sub, Const::Int(left), Const::Int(right)) => {
                left.checked_sub(right).map(Const::Int)
            }
            (Operator::BitXor, Const::Int(left), Const::Int(right)) => {
                Some(Const::Int(left ^ right))
            }
            (Operator::Mult, Const::Int(left), Const::Int(right)) => {
                left.checked_mul(right).map(Const::Int)
            }
            _ => None,
        }
    }

    fn fold_f_string<'e>(
        self,
        parts: impl Iterator<Item = &'e FStringPart>,
        hops: usize,
        variable: Variable<'_>,
    ) -> Option<Const> {
        let mut text = String::new();
        for part in parts {
            let elements = match part {
                FStringPart::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                FStringPart::FString(string) => &string.elements,
            };
            for element in elements {
                match element {
                    InterpolatedStringElement::Literal(literal) => text.push_str(&literal.value),
                    InterpolatedStringElement::Interpolation(part) => {
                        if part.format_spec.is_some() || part.debug_text.is_some() {
                            return None;
                        }
                        text.push_str(&self.fold(&part.expression, hops, variable)?.shown()?);
                    }
                }
                self.budget.fits(text.len())?;
            }
        }
        Some(Const::Str(text))
    }

    fn fold_slice(
        self,
        value: Const,
        slice: &ExprSlice,
        hops: usize,
        variable: Variable<'_>,
    ) -> Option<Const> {
        let bound = |expr: &Option<Box<Expr>>| match expr {
            None => Some(None),
            Some(expr) => match self.fold(expr, hops, variable)? {
                Const::Int(number) => Some(Some(number)),
                Const::Str(_) | Const::Bytes(_) | Const::List(_) => None,
            },
        };
        let (lower, upper, step) =
            (bound(&slice.lower)?, bound(&slice.upper)?, bound(&slice.step)?.unwrap_or(1));
        Some(match value {
            Const::Str(text) => {
                let chars: Vec<char> = text.chars().collect();
                Const::Str(sliced(&chars, lower, upper, step)?.into_iter().collect())
            }
            Const::Bytes(bytes) => Const::Bytes(sliced(&bytes, lower, upper, step)?),
            Const::List(items) => Const::List(sliced(&items, lower, upper, step)?),
            Const::Int(_) => return None,
        })
    }

    fn fold_generator(self, generator: &ExprGenerator, hops: usize) -> Option<Const> {
        self.fold_items(&generator.elt, &generator.generators, hops)
    }

    /// `item for x in list`.
    fn fold_items(
        self,
        item: &Expr,
        generators: &[ruff_python_ast::Comprehension],
        hops: usize,
    ) -> Option<Const> {
        let [generator] = generators else { return None };
        let Expr::Name(name) = &generator.target else { return None };
        if !generator.ifs.is_empty() {
            return None;
        }
        let values = items(self.fold(&generator.iter, hops, None)?)?;
        let each = |value: &Const| self.fold(item, hops, Some((name.id.as_str(), value)));
        values.iter().map(each).collect::<Option<_>>().map(Const::List)
    }

    fn fold_call(self, call: &ExprCall, hops: usize, variable: Variable<'_>) -> Option<Const> {
        if !call.arguments.keywords.is_empty() && !is_format(call) {
            return None;
        }
        let fold = |expr: &Expr| self.fold(expr, hops, variable);
        let arguments = || call.arguments.args.iter().map(fold).collect::<Option<Vec<Const>>>();
        for callee in self.paths_within(&call.func, hops) {
            let value = match (callee.as_str(), &*call.arguments.args) {
                ("builtins.map", [function, list]) => {
                    let functions = self.paths_within(function, hops);
                    let chr = functions.iter().any(|path| path == "builtins.chr");
                    let list = items(fold(list)?)?;
                    let each = |item: &Const| if chr { character(item) } else { None };
                    list.iter().map(each).collect::<Option<_>>().map(Const::List)
                }
                ("textwrap.dedent" | "inspect.cleandoc", [text]) => fold(text),
                (known, _) if known.starts_with("builtins.") => builtin(known, &arguments()?),
                _ => None,
            };
            if value.is_some() {
                return value;
            }
        }
        let Expr::Attribute(method) = &*call.func else { return None };
        let name = method.attr.as_str();
        if name == "format" {
            let mut named = HashMap::new();
            for keyword in &call.arguments.keywords {
                named.insert(keyword.arg.as_ref()?.as_str(), fold(&keyword.value)?);
            }
            let Const::Str(text) = fold(&method.value)? else { return None };
            return format::braces(&text, &arguments()?, &named, self.budget).map(Const::Str);
        }
        match fold(&method.value)? {
            Const::Str(text) => self.text_method(&text, name, &arguments()?),
            Const::Bytes(bytes) if name == "decode" => {
                String::from_utf8(bytes).ok().map(Const::Str)
            }
            Const::Bytes(_) | Const::Int(_) | Const::List(_) => None,
        }
    }

    fn text_method(self, text: &str, name: &str, arguments: &[Const]) -> Option<Const> {
        let changed = match (name, arguments) {
            ("join", [list]) => self.joined(text, items(list.clone())?)?,
            ("lower" | "casefold", []) => text.to_lowercase(),
            ("upper", []) => text.to_uppercase(),
            ("swapcase", []) => text.chars().map(swapped).collect(),
            ("strip", []) => text.trim().to_owned(),
            ("lstrip", []) => text.trim_start().to_owned(),
            ("rstrip", []) => text.trim_end().to_owned(),
            ("strip" | "lstrip" | "rstrip", [Const::Str(set)]) => {
                let set: HashSet<char> = set.chars().collect();
                let is_in_set = |c: char| set.contains(&c);
                match name {
                    "lstrip" => text.trim_start_matches(is_in_set),
                    "rstrip" => text.trim_end_matches(is_in_set),
                    _ => text.trim_matches(is_in_set),
                }
                .to_owned()
            }
            ("removeprefix", [Const::Str(start)]) => {
                text.strip_prefix(start.as_str()).unwrap_or(text).to_owned()
            }
            ("removesuffix", [Const::Str(end)]) => {
                text.strip_suffix(end.as_str()).unwrap_or(text).to_owned()
            }
            ("replace", [Const::Str(old), Const::Str(new)]) => {
                let added = text.matches(old.as_str()).count().saturating_mul(new.len());
                self.budget.fits(text.len().saturating_add(added))?;
                text.replace(old.as_str(), new)
            }
            ("encode", _) => return Some(Const::Bytes(text.as_bytes().to_vec())),
            ("split", []) => {
                let words = text.split_whitespace().map(|word| Const::Str(word.to_owned()));
                return Some(Const::List(words.collect()));
            }
            ("split", [Const::Str(at)]) if !at.is_empty() => {
                let parts = text.split(at.as_str()).map(|part| Const::Str(part.to_owned()));
                return Some(Const::List(parts.collect()));
            }
            _ => return None,
        };
        Some(Const::Str(changed))
    }

    fn joined(self, separator: &str, items: Vec<Const>) -> Option<String> {
        let mut parts = Vec::new();
        let mut length: usize = 0;
        for item in items {
            let Const::Str(part) = item else { return None };
            length += part.len() + separator.len();
            self.budget.fits(length)?;
            parts.push(part);
        }
        Some(parts.join(separator))
    }
}

fn is_format(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Attribute(method) if method.attr.as_str() == "format")
}
