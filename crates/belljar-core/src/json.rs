//! How much memory JSON from outside would take, found without unpacking it.

use crate::limits::MAX_JSON_NESTING;

/// An object with one member takes a whole node of a map.
pub const OBJECT_BYTES: usize = 700;

/// A list, and room for its first values.
pub const LIST_BYTES: usize = 160;

/// A value, whatever it is.
pub const VALUE_BYTES: usize = 40;

/// A text on the heap, beside its characters.
pub const TEXT_BYTES: usize = 48;

/// At most how many bytes a JSON text takes once it is unpacked. `None` when it nests too deep to be
/// passed on and wrapped in other messages.
#[must_use]
pub fn weight(json: &[u8]) -> Option<usize> {
    weight_within(json, MAX_JSON_NESTING)
}

/// The same where it may nest so deep.
#[must_use]
pub fn weight_within(json: &[u8], nesting: usize) -> Option<usize> {
    let (mut weight, mut depth) = (json.len(), 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                in_string = !in_string;
                weight += TEXT_BYTES / 2;
            }
            _ if in_string => {}
            b'{' | b'[' => {
                weight += if *byte == b'{' { OBJECT_BYTES } else { LIST_BYTES };
                depth += 1;
                if depth > nesting {
                    return None;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' => weight += VALUE_BYTES,
            _ => {}
        }
    }
    Some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_weighs_its_length_and_structure_much_more() {
        let text = format!("\"{}\"", ",[{".repeat(1000));
        assert!(weight(text.as_bytes()).unwrap() < 2 * text.len());
        let bomb = format!("[{}0]", r#"{"":1},"#.repeat(1000));
        assert!(weight(bomb.as_bytes()).unwrap() > 90 * bomb.len());
        assert!(weight(br#""a quote \" and a backslash \\""#).unwrap() < 100);
    }

    #[test]
    fn deep_nesting_has_no_weight() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(weight(nested(MAX_JSON_NESTING).as_bytes()).is_some());
        assert!(weight(nested(MAX_JSON_NESTING + 1).as_bytes()).is_none());
        assert!(weight("[]".repeat(10 * MAX_JSON_NESTING).as_bytes()).is_some());
    }
}
