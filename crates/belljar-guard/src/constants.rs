//! Constants, and what Python does with them.

/// A constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Const {
    Str(String),
    Bytes(Vec<u8>),
    Int(i64),
    List(Vec<Const>),
}

impl Const {
    /// As Python's `str()` shows it; `None` where that is nothing for a name.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Str(text) => Some(text.clone()),
            Self::Int(number) => Some(number.to_string()),
            Self::Bytes(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Str(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Int(_) => 8,
            Self::List(items) => items.iter().map(|item| 8 + item.size()).sum(),
        }
    }
}

/// What a builtin function makes of constants.
pub(crate) fn builtin(path: &str, arguments: &[Const]) -> Option<Const> {
    match (path, arguments) {
        ("builtins.chr", [number]) => character(number),
        ("builtins.str", [value]) => value.shown().map(Const::Str),
        ("builtins.str", [Const::Bytes(bytes), ..]) => {
            String::from_utf8(bytes.clone()).ok().map(Const::Str)
        }
        ("builtins.list" | "builtins.tuple", [value]) => items(value.clone()).map(Const::List),
        ("builtins.reversed", [value]) => {
            let mut items = items(value.clone())?;
            items.reverse();
            Some(Const::List(items))
        }
        ("builtins.bytes" | "builtins.bytearray", [Const::List(numbers)]) => {
            let byte = |number: &Const| match number {
                Const::Int(number) => u8::try_from(*number).ok(),
                Const::Str(_) | Const::Bytes(_) | Const::List(_) => None,
            };
            numbers.iter().map(byte).collect::<Option<_>>().map(Const::Bytes)
        }
        ("builtins.bytes" | "builtins.bytearray", [Const::Str(text), ..]) => {
            Some(Const::Bytes(text.as_bytes().to_vec()))
        }
        ("builtins.bytes" | "builtins.bytearray", [Const::Bytes(bytes)]) => {
            Some(Const::Bytes(bytes.clone()))
        }
        ("builtins.bytes.fromhex" | "builtins.bytearray.fromhex", [Const::Str(text)]) => {
            from_hex(text).map(Const::Bytes)
        }
        _ => None,
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// Texts in modules of the standard library.
pub(crate) fn known_text(path: &str) -> Option<String> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    Some(match path {
        "string.ascii_lowercase" => LOWER.to_owned(),
        "string.ascii_uppercase" => LOWER.to_uppercase(),
        "string.ascii_letters" => format!("{LOWER}{}", LOWER.to_uppercase()),
        _ => return None,
    })
}

pub(crate) fn character(number: &Const) -> Option<Const> {
    let Const::Int(number) = number else { return None };
    let character = char::from_u32(u32::try_from(*number).ok()?)?;
    Some(Const::Str(character.to_string()))
}

pub(crate) fn swapped(character: char) -> char {
    if character.is_ascii_lowercase() {
        character.to_ascii_uppercase()
    } else {
        character.to_ascii_lowercase()
    }
}

/// What iterating gives.
pub(crate) fn items(value: Const) -> Option<Vec<Const>> {
    match value {
        Const::List(items) => Some(items),
        Const::Str(text) => Some(text.chars().map(|c| Const::Str(c.to_string())).collect()),
        Const::Bytes(bytes) => {
            Some(bytes.into_iter().map(|byte| Const::Int(i64::from(byte))).collect())
        }
        Const::Int(_) => None,
    }
}

/// `value[index]`.
pub(crate) fn pick(value: Const, index: &Const) -> Option<Const> {
    let Const::Int(index) = index else { return None };
    let length = match &value {
        Const::Str(text) => text.chars().count(),
        Const::Bytes(bytes) => bytes.len(),
        Const::List(items) => items.len(),
        Const::Int(_) => return None,
    };
    let from_end = if *index < 0 { i64::try_from(length).ok()? } else { 0 };
    let index = usize::try_from(from_end.checked_add(*index)?).ok()?;
    match value {
        Const::Str(text) => text.chars().nth(index).map(|c| Const::Str(c.to_string())),
        Const::Bytes(bytes) => bytes.get(index).map(|byte| Const::Int(i64::from(*byte))),
        Const::List(mut items) => (index < length).then(|| items.swap_remove(index)),
        Const::Int(_) => None,
    }
}

/// `items[lower:upper:step]`.
pub(crate) fn sliced<T: Clone>(
    items: &[T],
    lower: Option<i64>,
    upper: Option<i64>,
    step: i64,
) -> Option<Vec<T>> {
    let length = i64::try_from(items.len()).ok()?;
    let (first, last) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let clamped = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        bound.clamp(first, last)
    };
    let (start, end) = if step < 0 {
        (lower.map_or(last, clamped), upper.map_or(-1, clamped))
    } else {
        (lower.map_or(0, clamped), upper.map_or(length, clamped))
    };
    if step == 0 {
        return None;
    }
    let mut picked = Vec::new();
    let mut at = start;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        picked.push(items.get(usize::try_from(at).ok()?)?.clone());
        at = at.checked_add(step)?;
    }
    Some(picked)
}
