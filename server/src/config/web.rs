//! `server.cors_origins`: which web pages may call; `server.hosts` and `admin.hosts`: by which names.
//! It answers no page. Its invariant: what no browser would ever send is refused, because it would let nobody in.
//! Source: RFC 6454, section 6.2; the WHATWG URL standard on what browsers leave out.

/// Whether each is `*`, or what a browser would say of a page.
pub(super) fn check(origins: &[String]) -> Result<(), String> {
    for (at, origin) in origins.iter().enumerate() {
        if origin == "*" {
            continue;
        }
        if let Some(problem) = problem(origin) {
            return Err(format!(
                "server.cors_origins[{at}] is {origin:?}: {problem}; write it as browsers send it, as in \"https://app.example.com\" or \
                 \"http://localhost:8080\", or \"*\" for any"
            ));
        }
    }
    Ok(())
}

/// Whether each is `*`, or a name as it stands in a `Host`, without the port.
pub(super) fn check_hosts(key: &str, hosts: &[String]) -> Result<(), String> {
    for (at, host) in hosts.iter().enumerate() {
        let problem = match host.as_str() {
            "*" => continue,
            "" => "it is empty",
            name if name.contains("://") || name.contains('/') => "it has a scheme or a path",
            name if name.contains(':') => "it has a port; every port is answered",
            name if name.contains('*') => "a part of it cannot be \"*\"",
            name if name.ends_with('.') || name.starts_with('.') => "it begins or ends with a dot",
            name if !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) =>
            {
                "it has spaces or letters beyond ASCII (which browsers send as xn--…)"
            }
            _ => continue,
        };
        return Err(format!(
            "{key}[{at}] is {host:?}: {problem}; write a name, as in \"millpond.internal\", or \"*\" for any"
        ));
    }
    Ok(())
}

fn problem(origin: &str) -> Option<&'static str> {
    let Some((scheme, rest)) = origin.split_once("://") else {
        return Some("it has no scheme");
    };
    let is_scheme = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_lowercase()) || !scheme.bytes().all(is_scheme) {
        return Some("its scheme is none, or has capitals");
    }
    if rest.contains(['/', '?', '#']) {
        return Some("it has a path, a query or a slash at its end");
    }
    if rest.contains('@') {
        return Some("it names a user");
    }
    if rest.contains('*') {
        return Some("a part of it cannot be \"*\"");
    }
    let is_host = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
    if !rest.bytes().all(is_host) {
        return Some("its host has capitals, spaces or letters beyond ASCII (which browsers send as xn--…)");
    }
    // The colons of an IPv6 address stand in brackets.
    let after_address = rest.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match rest[after_address..].find(':') {
        Some(colon) => {
            let (host, port) = rest.split_at(after_address + colon);
            (host, Some(&port[1..]))
        }
        None => (rest, None),
    };
    if host.is_empty() {
        return Some("it has no host");
    }
    match (scheme, port) {
        ("http", Some("80")) | ("https", Some("443")) => Some("browsers leave out the scheme's own port"),
        (_, Some(port)) if port.starts_with('0') || port.parse::<u16>().is_err() => Some("its port is none"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hosts_are_names_without_ports() {
        let good = ["*", "millpond.internal", "App_1", "xn--bcher-kva.example"];
        assert_eq!(check_hosts("server.hosts", &good.map(str::to_owned)), Ok(()));
        for (bad, words) in [
            ("", "it is empty"),
            ("http://a.example", "a scheme"),
            ("a.example/", "a path"),
            ("a.example:80", "a port"),
            ("[::1]", "a port"),
            ("*.example", "cannot be \"*\""),
            ("a.example.", "a dot"),
            ("a b", "spaces"),
            ("bücher.example", "beyond ASCII"),
        ] {
            let refused = check_hosts("admin.hosts", &["a".to_owned(), bad.to_owned()]).unwrap_err();
            let begins = format!("admin.hosts[1] is {bad:?}: ");
            assert!(
                refused.starts_with(&begins) && refused.contains(words),
                "{refused}"
            );
        }
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        let good = [
            "*",
            "https://app.example.com",
            "http://localhost:8080",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "https://[2001:db8::1]",
            "chrome-extension://abcdef",
            "https://xn--bcher-kva.example",
        ];
        assert_eq!(check(&good.map(str::to_owned)), Ok(()));
        for (bad, words) in [
            ("app.example.com", "no scheme"),
            ("null", "no scheme"),
            ("", "no scheme"),
            ("HTTPS://app.example.com", "capitals"),
            ("://app.example.com", "its scheme is none"),
            ("https://app.example.com/", "a slash at its end"),
            ("https://app.example.com/page", "a path"),
            ("https://app.example.com?a", "a query"),
            ("https://App.example.com", "capitals"),
            ("https://a b", "spaces"),
            ("https://bücher.example", "beyond ASCII"),
            ("https://me@app.example.com", "a user"),
            ("https://*.example.com", "cannot be \"*\""),
            ("https://", "no host"),
            ("https://:8080", "no host"),
            ("https://app.example.com:443", "leave out"),
            ("http://app.example.com:80", "leave out"),
            ("http://app.example.com:", "its port is none"),
            ("http://app.example.com:99999", "its port is none"),
            ("http://app.example.com:080", "its port is none"),
        ] {
            let refused = check(&["https://a.example".to_owned(), bad.to_owned()]).unwrap_err();
            let begins = format!("server.cors_origins[1] is {bad:?}: ");
            assert!(
                refused.starts_with(&begins) && refused.contains(words),
                "{refused}"
            );
        }
    }
}
