//! `[features.NAME.source]`: where else a table's versions come from.
//!
//! It fetches nothing. Its invariant: a source that passes [`Source::check`] says where, and by what scheme.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// How often a source may be asked.
const EVERY_MS_RANGE: RangeInclusive<u64> = 10..=86_400_000;

/// An object store with versions of a table. In the configuration: its URL alone, or a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// "s3://BUCKET/PREFIX" or "file:///FOLDER": what has the versions' folders.
    pub url: String,
    /// How often it is asked for new versions.
    pub every_ms: u64,
    /// The server of an S3-compatible store, as in "http://127.0.0.1:9000"; Amazon's when left out.
    pub endpoint: Option<String>,
    /// The region; that of the environment when left out.
    pub region: Option<String>,
    /// A file of credentials; those of the environment when left out.
    pub credentials_file: Option<PathBuf>,
    /// Whether an endpoint beyond this machine may be asked without TLS.
    pub allow_http: bool,
    /// The certificates in PEM that the endpoint's may be signed by; the system's when left out.
    pub ca_file: Option<PathBuf>,
}

/// The section, with its defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    url: String,
    every_ms: Option<u64>,
    endpoint: Option<String>,
    region: Option<String>,
    credentials_file: Option<PathBuf>,
    #[serde(default)]
    allow_http: bool,
    ca_file: Option<PathBuf>,
}

impl From<Section> for Source {
    fn from(section: Section) -> Source {
        Source {
            every_ms: section.every_ms.unwrap_or(Source::EVERY_MS),
            url: section.url,
            endpoint: section.endpoint,
            region: section.region,
            credentials_file: section.credentials_file,
            allow_http: section.allow_http,
            ca_file: section.ca_file,
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Source;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL such as \"s3://bucket/table\", or a section with url")
            }

            fn visit_str<E>(self, url: &str) -> Result<Source, E> {
                Ok(Source::of(url))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
                Section::deserialize(MapAccessDeserializer::new(map)).map(Source::from)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Source {
    /// How often it is asked when nothing is said: a listing costs money.
    pub const EVERY_MS: u64 = 15_000;

    /// That URL, with the defaults for everything else.
    pub fn of(url: &str) -> Source {
        Source {
            url: url.to_owned(),
            every_ms: Source::EVERY_MS,
            endpoint: None,
            region: None,
            credentials_file: None,
            allow_http: false,
            ca_file: None,
        }
    }

    /// How often it is asked.
    pub fn every(&self) -> Duration {
        Duration::from_millis(self.every_ms)
    }

    /// The bucket and the prefix of an S3 URL.
    pub fn bucket(&self) -> Option<(&str, &str)> {
        let rest = self.url.strip_prefix("s3://")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        (!bucket.is_empty()).then_some((bucket, prefix))
    }

    /// The folder of a URL of files.
    pub fn folder(&self) -> Option<&str> {
        self.url
            .strip_prefix("file://")
            .filter(|path| path.starts_with('/'))
    }

    /// Whether the endpoint is asked without TLS.
    pub fn is_http(&self) -> bool {
        let endpoint = self.endpoint.as_deref().unwrap_or_default();
        endpoint.starts_with("http://")
    }

    /// The paths that it names.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.credentials_file.iter_mut().chain(&mut self.ca_file)
    }

    /// What is known to be wrong before anything is asked. `at` is the section, as in `features.films.source`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        let url = &self.url;
        if self.bucket().is_none() && self.folder().is_none() {
            return Err(format!(
                "{at} is {url:?}; expected s3://BUCKET/PREFIX or file:///FOLDER"
            ));
        }
        if !EVERY_MS_RANGE.contains(&self.every_ms) {
            return Err(format!(
                "{at}.every_ms is {}; expected {} to {}",
                self.every_ms,
                EVERY_MS_RANGE.start(),
                EVERY_MS_RANGE.end()
            ));
        }
        match &self.endpoint {
            Some(endpoint) if self.bucket().is_none() => Err(format!(
                "{at}.endpoint is {endpoint:?}, and {url:?} has none; leave it out"
            )),
            Some(endpoint) => self.check_endpoint(at, endpoint),
            None => Ok(()),
        }
    }

    fn check_endpoint(&self, at: &str, endpoint: &str) -> Result<(), String> {
        let rest = endpoint.strip_prefix("http://");
        let Some(rest) = rest.or_else(|| endpoint.strip_prefix("https://")) else {
            return Err(format!(
                "{at}.endpoint is {endpoint:?}; expected http://HOST:PORT or https://HOST"
            ));
        };
        if rest.contains('@') {
            return Err(format!(
                "{at}.endpoint has a user in it; credentials stand in {at}.credentials_file"
            ));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        match self.is_http() && !self.allow_http && !is_loopback(authority) {
            false => Ok(()),
            true => Err(format!(
                "{at}.endpoint is {endpoint:?}, and credentials and rows would travel in clear; write https://, or set {at}.allow_http \
                 to true"
            )),
        }
    }
}

/// Whether that is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sources_are_checked() {
        let check = |source: &Source, expected: Result<(), &str>| match (source.check("s"), expected) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(part)) => assert!(found.contains(part), "{part:?} is not in {found:?}"),
            (found, _) => panic!("{source:?}: {found:?}"),
        };
        for (url, expected) in [
            ("s3://bucket/a/b", Ok(())),
            ("s3://bucket", Ok(())),
            ("file:///srv/tables", Ok(())),
            ("file://srv/tables", Err("s is \"file://srv/tables\"")),
            ("s3:///a", Err("expected s3://BUCKET")),
            ("gs://bucket", Err("expected s3://BUCKET")),
            ("/srv/tables", Err("file:///FOLDER")),
        ] {
            check(&Source::of(url), expected);
        }
        for (endpoint, allow_http, expected) in [
            ("http://127.0.0.1:9000", false, Ok(())),
            ("http://[::1]:9000", false, Ok(())),
            ("http://localhost:9000/", false, Ok(())),
            ("https://minio.example", false, Ok(())),
            ("http://minio:9000", false, Err("in clear")),
            ("http://127.0.0.1.example:9000", false, Err("in clear")),
            ("http://minio:9000", true, Ok(())),
            ("minio:9000", true, Err("expected http://HOST:PORT")),
            ("https://key:secret@minio", true, Err("credentials_file")),
        ] {
            let endpoint = Some(endpoint.to_owned());
            let source = Source {
                endpoint,
                allow_http,
                ..Source::of("s3://bucket")
            };
            check(&source, expected);
        }
        let every_ms = 1;
        check(
            &Source {
                every_ms,
                ..Source::of("s3://bucket")
            },
            Err("s.every_ms is 1"),
        );
        let endpoint = Some("http://[::1]".to_owned());
        check(
            &Source {
                endpoint,
                ..Source::of("file:///a")
            },
            Err("leave it out"),
        );
    }

    #[test]
    fn the_parts_of_a_url() {
        assert_eq!(Source::of("s3://bucket/a/b").bucket(), Some(("bucket", "a/b")));
        assert_eq!(Source::of("s3://bucket").bucket(), Some(("bucket", "")));
        assert_eq!(Source::of("file:///srv/t").folder(), Some("/srv/t"));
    }
}
