//! The store that a source names: which versions it lists, the files of one, and bytes of a file.
//!
//! It keeps nothing of what it was told and writes nothing there. Its invariant: bytes that are given are as many as were asked
//! for, of the object that was listed.

use crate::credentials::Credentials;
use crate::error::Error;
use crate::http::Connector;
use crate::tls::Roots;
use hyper::body::Bytes;
use millpond_engines_features::{Source, version_name, version_number};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a listing may take, and one piece of a file.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Requests that failed are repeated, but no more often: the next look comes anyway.
const RETRIES_MAX: usize = 3;
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A file of a version, as the store listed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) bytes: u64,
    /// What tells this content from another one of the same name.
    tag: Option<String>,
    location: String,
}

/// The store and the place in it.
pub(crate) struct Origin {
    url: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl Origin {
    pub(crate) fn open(source: &Source, credentials: Option<&Credentials>) -> Result<Origin, Error> {
        let wrong = |problem: String| Error::Configured {
            url: source.url.clone(),
            problem,
        };
        let (store, prefix): (Arc<dyn ObjectStore>, _) = match (source.bucket(), source.folder()) {
            (Some((bucket, prefix)), _) => {
                let roots = Roots::read(source.ca_file.as_deref()).map_err(wrong)?;
                let store = s3(source, credentials, bucket).with_http_connector(Connector(roots));
                (
                    Arc::new(store.build().map_err(|error| wrong(said(&error)))?),
                    prefix,
                )
            }
            (None, Some(folder)) => (Arc::new(LocalFileSystem::new()), folder),
            (None, None) => return Err(wrong("expected s3://BUCKET/PREFIX or file:///FOLDER".to_owned())),
        };
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(error.to_string()))?;
        Ok(Origin {
            url: source.url.clone(),
            store,
            prefix,
        })
    }

    /// The versions that have a folder there, ascending; one of them may be half there.
    pub(crate) async fn versions(&self) -> Result<Vec<u64>, Error> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed = self
            .answer("listed", self.store.list_with_delimiter(prefix))
            .await?;
        let names = listed.common_prefixes.iter().filter_map(Path::filename);
        let mut versions: Vec<u64> = names.filter_map(version_number).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// The files of a version, by name.
    pub(crate) async fn files(&self, version: u64) -> Result<BTreeMap<String, Object>, Error> {
        let folder = self.prefix.clone().join(version_name(version));
        let listed = self
            .answer("listed", self.store.list_with_delimiter(Some(&folder)))
            .await?;
        let files = listed.objects.into_iter().filter_map(|object| {
            let name = object.location.filename()?.to_owned();
            let found = Object {
                bytes: object.size,
                tag: object.e_tag,
                location: object.location.to_string(),
            };
            Some((name, found))
        });
        Ok(files.collect())
    }

    /// A piece of a file; an error where the file is another one by now.
    pub(crate) async fn read(&self, object: &Object, piece: Range<u64>) -> Result<Bytes, Error> {
        let location =
            Path::parse(&object.location).map_err(|error| self.failed("read", &error.to_string()))?;
        let (at, expected) = (piece.start, piece.end - piece.start);
        let options = GetOptions {
            range: Some(GetRange::Bounded(piece)),
            if_match: object.tag.clone(),
            ..GetOptions::default()
        };
        let bytes = async { body(self.store.get_opts(&location, options).await?, expected).await };
        let bytes = self.answer("read", bytes).await?;
        match bytes.len() as u64 == expected {
            true => Ok(bytes),
            false => Err(Error::Short {
                url: self.url.clone(),
                file: object.location.clone(),
                at,
                expected,
                found: bytes.len() as u64,
            }),
        }
    }

    async fn answer<T>(
        &self,
        asked: &'static str,
        answer: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Error> {
        match timeout(ANSWER_MAX, answer).await {
            Ok(answer) => answer.map_err(|error| self.failed(asked, &said(&error))),
            Err(_) => Err(self.failed(asked, &format!("no answer in {} s", ANSWER_MAX.as_secs()))),
        }
    }

    fn failed(&self, asked: &'static str, detail: &str) -> Error {
        Error::Store {
            url: self.url.clone(),
            asked,
            detail: detail.to_owned(),
        }
    }

    /// It is complete, and not right.
    pub(crate) fn refused(&self, version: u64, problem: impl ToString) -> Error {
        Error::Refused {
            url: self.url.clone(),
            version,
            problem: problem.to_string(),
        }
    }
}

/// The body of an answer; of one that is longer than expected no more than one part beyond that, since a store may send without
/// an end.
async fn body(answer: GetResult, expected: u64) -> object_store::Result<Bytes> {
    let mut stream = match answer.payload {
        GetResultPayload::Stream(stream) => stream,
        GetResultPayload::File(..) => return answer.bytes().await,
    };
    let mut bytes = Vec::with_capacity(expected as usize);
    while bytes.len() as u64 <= expected {
        match poll_fn(|context| stream.as_mut().poll_next(context)).await {
            Some(part) => bytes.extend_from_slice(&part?),
            None => break,
        }
    }
    Ok(bytes.into())
}

/// An error with its causes, one line.
fn said(error: &object_store::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn s3(source: &Source, credentials: Option<&Credentials>, bucket: &str) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_MAX,
            ..RetryConfig::default()
        });
    if let Some(endpoint) = &source.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    if source.is_http() {
        builder = builder.with_allow_http(true);
    }
    if let Some(region) = &source.region {
        builder = builder.with_region(region);
    }
    if let Some(credentials) = credentials {
        builder = builder
            .with_access_key_id(&credentials.key_id)
            .with_secret_access_key(&credentials.secret);
        if let Some(token) = &credentials.token {
            builder = builder.with_token(token);
        }
    }
    builder
}
