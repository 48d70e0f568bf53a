//! Who is let in: requests for this machine by its own name, from no page in a browser, with a
//! token, and not too many of them. Nothing but headers is read before that.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::errors::{FORBIDDEN, RATE_LIMITED, Refused, UNAUTHORIZED};
use crate::desk::{Desk, Problem};

/// Whose request it is.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) api: Arc<Api>,
    pub(super) desk: Arc<Desk>,
}

pub(super) async fn admit(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Response {
    match caller(&api, request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

fn caller(api: &Arc<Api>, headers: &HeaderMap) -> Result<Caller, Refused> {
    // A page whose own name is made to lead here speaks of that name.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| is_ours(host, &api.hosts)) {
        let problem = Problem::new(FORBIDDEN, "this is not the machine that Host names")
            .hint("call it localhost, or start the daemon with --http-host NAME");
        return Err(problem.into());
    }
    if headers.contains_key(header::ORIGIN) {
        return Err(Refused::new(FORBIDDEN, "pages in browsers are not served"));
    }
    let secret = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    // All are compared, so that the time it takes does not tell which one it is.
    let admitted = api
        .clients
        .iter()
        .fold(None, |found, client| if client.token.admits(secret) { Some(client) } else { found });
    let Some(client) = admitted else {
        let problem = "a token is needed: Authorization: Bearer …";
        return Err(Refused::new(UNAUTHORIZED, problem));
    };
    client.rate.take().map_err(|wait| {
        Refused::new(RATE_LIMITED, "too many requests a second; nothing was run").after(wait)
    })?;
    Ok(Caller { api: Arc::clone(api), desk: client.desk(&api.house) })
}

/// Whether a `Host`, with a port or without, is one of these.
pub(in crate::daemon) fn is_ours(host: &str, ours: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            Some(_) | None => return false,
        },
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    ours.iter().any(|one| one.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_by_its_name_whatever_the_port() {
        let ours = ["localhost", "127.0.0.1", "::1", "jar.example"].map(str::to_owned);
        for good in
            ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:1", "[::1]", "jar.example"]
        {
            assert!(is_ours(good, &ours), "{good}");
        }
        for bad in ["", ":80", "evil.example", "localhost.evil.example:80", "[::1", "[::1]x", "::1"]
        {
            assert!(!is_ours(bad, &ours), "{bad}");
        }
    }
}
