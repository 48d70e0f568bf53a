//! Queries of addresses.

/// The pairs of a query, decoded once.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn new(query: Option<&str>) -> Self {
        Self(pairs(query.unwrap_or_default()))
    }

    /// The first value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A query within a value, whose names and values are encoded once more.
    pub(super) fn twice(text: &str) -> Vec<(String, String)> {
        pairs(text)
            .iter()
            .map(|(key, value)| (decoded(key, false), decoded(value, false)))
            .collect()
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(key, true), decoded(value, true))
        })
        .collect()
}

/// Text whose bytes may be written as `%xx`, and a space as `+`. What is not right stays.
fn decoded(text: &str, plus: bool) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        let digit = |at: usize| tail.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        rest = tail;
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = &tail[2..];
            }
            (b'+', ..) if plus => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_once_and_metadata_once_more() {
        let query = Query::new(Some("path=a%2Fb%20c&metadata=k%252520y%3Dv%25252526%2525261&x"));
        assert_eq!(query.get("path"), Some("a/b c"));
        assert_eq!(query.get("x"), Some(""));
        assert_eq!(query.get("y"), None);
        assert_eq!(Query::twice("k%2520y=v%25261"), [("k y".to_owned(), "v&1".to_owned())]);
        assert_eq!(decoded("%zz%4%41+", true), "%zz%4A ");
    }
}
