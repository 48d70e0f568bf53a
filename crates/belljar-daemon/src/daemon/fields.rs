//! Parameters whose numbers are exchanged and which are otherwise passed on as they are.

use std::collections::BTreeMap;

use belljar_core::protocol::{FAILED, INVALID_PARAMS, Id, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

/// An answer.
pub(super) fn json(value: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::new(FAILED, error.to_string()))
}

/// Parameters, or an answer, as what they should be.
pub(super) fn read<T: DeserializeOwned>(params: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("params: {error}")))
}

/// A number of an object.
pub(super) fn number(params: &RawValue, name: &str) -> Result<u64, RpcError> {
    optional(params, name)?.ok_or_else(|| invalid(&format!("missing field `{name}`")))
}

/// A number of an object that need not be there.
pub(super) fn optional(params: &RawValue, name: &str) -> Result<Option<u64>, RpcError> {
    let Some(found) = fields(params)?.remove(name) else { return Ok(None) };
    serde_json::from_str(found.get()).map_err(|error| invalid(&format!("{name}: {error}")))
}

/// The id of a request of which only the beginning is there. Only as our own clients write it:
/// others learn that something was refused, and not what.
pub(super) fn id_of(beginning: &[u8]) -> Option<Id> {
    let rest = beginning.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.get(digits..)?.strip_prefix(br#","method":"#)?;
    let digits = std::str::from_utf8(rest.get(..digits)?).ok()?;
    digits.parse().ok().map(Id::Number)
}

/// The same object with other numbers.
pub(super) fn exchanged(
    params: &RawValue,
    numbers: &[(&str, u64)],
) -> Result<Box<RawValue>, RpcError> {
    let made: Vec<(&str, Box<RawValue>)> = numbers
        .iter()
        .map(|(name, number)| Ok((*name, to_raw_value(number)?)))
        .collect::<serde_json::Result<_>>()
        .map_err(|error| invalid(&error.to_string()))?;
    let mut fields = fields(params)?;
    for (name, number) in &made {
        fields.insert((*name).to_owned(), number);
    }
    to_raw_value(&fields).map_err(|error| invalid(&error.to_string()))
}

/// Of a name that is there twice the last holds, and only that is passed on.
fn fields(params: &RawValue) -> Result<BTreeMap<String, &RawValue>, RpcError> {
    serde_json::from_str(params.get()).map_err(|error| invalid(&error.to_string()))
}

fn invalid(problem: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("params: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn numbers_are_exchanged_and_the_rest_stays() {
        let params = raw(r#"{"sandbox": 3, "code": "a\u0000 1e999", "x": [1.10]}"#);
        assert_eq!(number(&params, "sandbox").unwrap(), 3);
        let other = exchanged(&params, &[("sandbox", 9)]).unwrap();
        assert_eq!(other.get(), r#"{"code":"a\u0000 1e999","sandbox":9,"x":[1.10]}"#);
    }

    #[test]
    fn a_number_that_is_there_twice_cannot_be_smuggled() {
        let params = raw(r#"{"sandbox":1,"sandb\u006fx":2}"#);
        assert_eq!(number(&params, "sandbox").unwrap(), 2);
        assert_eq!(exchanged(&params, &[("sandbox", 7)]).unwrap().get(), r#"{"sandbox":7}"#);
    }

    #[test]
    fn an_id_is_found_in_the_beginning_of_a_request_of_ours_only() {
        let line =
            belljar_core::protocol::request(&Id::Number(42), "execute", &vec![0; 1000]).unwrap();
        assert_eq!(id_of(&line[..100]), Some(Id::Number(42)));
        for text in [
            "",
            "{",
            r#"{"jsonrpc":"2.0","id":4"#,
            r#"{"jsonrpc":"2.0","id":,"method":"a""#,
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"a""#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"id":2,"method":"a""#,
        ] {
            assert_eq!(id_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_or_no_number_is_refused() {
        for text in ["null", "[1]", "{}", r#"{"sandbox":"1"}"#, r#"{"sandbox":-1}"#] {
            assert_eq!(number(&raw(text), "sandbox").unwrap_err().code, INVALID_PARAMS, "{text}");
        }
    }
}
