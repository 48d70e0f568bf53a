//! Python's two ways to put values into a text, as far as they are plain.

use std::collections::HashMap;

use crate::budget::Budget;
use crate::constants::Const;

/// `text % values`.
pub(crate) fn percent(text: &str, values: &[Const], budget: &Budget) -> Option<String> {
    let mut out = String::new();
    let mut values = values.iter();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            '%' => out.push('%'),
            's' | 'd' | 'i' => out.push_str(&values.next()?.shown()?),
            'c' => match values.next()? {
                Const::Int(number) => out.push(char::from_u32(u32::try_from(*number).ok()?)?),
                other => out.push_str(&other.shown()?),
            },
            _ => return None,
        }
        budget.fits(out.len())?;
    }
    Some(out)
}

/// `text.format(*values, **named)`.
pub(crate) fn braces(
    text: &str,
    values: &[Const],
    named: &HashMap<&str, Const>,
    budget: &Budget,
) -> Option<String> {
    let mut out = String::new();
    let mut next = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (plain, field) = rest.split_at(at);
        out.push_str(plain);
        if let Some(after) = field.strip_prefix("{{").or_else(|| field.strip_prefix("}}")) {
            out.push_str(field.get(..1)?);
            rest = after;
            continue;
        }
        let (name, after) = field.strip_prefix('{')?.split_once('}')?;
        let value = if name.is_empty() {
            next += 1;
            values.get(next - 1)
        } else if let Ok(index) = name.parse::<usize>() {
            values.get(index)
        } else {
            named.get(name)
        };
        out.push_str(&value?.shown()?);
        budget.fits(out.len())?;
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}
