//! Versions of a feature table from an object store: found there, fetched into the table's folder, verified, and named.
//!
//! It serves nothing, and writes nothing to the store. Its runtime is that of the thread that calls. Its invariant: a version
//! gets its name in the table's folder only when every byte of it is what its manifest says and the versions that it stands on
//! are there; a store that gives half a file, or an older listing, changes nothing.
//!
//! ```no_run
//! use millpond_engines_features::Source;
//! use millpond_engines_features_fetch::Fetcher;
//! use std::path::Path;
//!
//! let source = Source::of("s3://bucket/embeddings");
//! let mut fetcher = Fetcher::new("embeddings", &source, Path::new("tables/embeddings"))?;
//! if let Some(fetched) = fetcher.fetch(0, &[], &|| false)? {
//!     println!("version {} is there", fetched.version);
//! }
//! # Ok::<(), millpond_engines_features_fetch::Error>(())
//! ```

mod credentials;
mod error;
mod folder;
mod http;
mod origin;
mod tls;

pub use error::Error;

use credentials::Credentials;
use folder::Unfinished;
use millpond_engines_features::{self as features, Source, VersionFiles};
use origin::{Object, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Bytes of a file that are asked for and held at a time.
const PIECE_BYTES: u64 = 8 << 20;
/// Bytes of a manifest at most: far above those of the most shards.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// From one line of progress to the next.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How soon an end that is asked for is seen.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// A version that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetched {
    /// Its number.
    pub version: u64,
    /// Bytes that were fetched for it, those of its bases too.
    pub bytes: u64,
}

/// Fetches versions of one table.
pub struct Fetcher {
    runtime: Runtime,
    job: Job,
}

struct Job {
    table: String,
    source: Source,
    table_dir: PathBuf,
    origin: Origin,
    credentials: Option<Credentials>,
    /// Versions that were complete and not right, with a mark of their files.
    refused: BTreeMap<u64, u64>,
    /// Versions whose last fetch failed: the others come before them.
    failing: BTreeSet<u64>,
    bytes: u64,
}

impl Fetcher {
    /// For a table of that name and folder. Nothing is asked of the source yet.
    ///
    /// # Errors
    /// [`Error::Configured`] where the source cannot be asked; [`Error::Io`] where there can be no runtime.
    pub fn new(table: &str, source: &Source, table_dir: &Path) -> Result<Fetcher, Error> {
        let credentials = Job::read_credentials(source)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Fetcher {
            runtime: runtime.map_err(Error::io("start a runtime for", table_dir))?,
            job: Job {
                origin: Origin::open(source, credentials.as_ref())?,
                table: table.to_owned(),
                source: source.clone(),
                table_dir: table_dir.to_path_buf(),
                credentials,
                refused: BTreeMap::new(),
                failing: BTreeSet::new(),
                bytes: 0,
            },
        })
    }

    /// Asks the source, and fetches the highest complete version above `above` and above those that the table's folder has, but
    /// for those `unfit`, which cannot be served. None where there is none, or where another process fetches into the folder.
    /// `is_stopped` ends it.
    ///
    /// # Errors
    /// [`Error::Refused`] once for each version that is not right; otherwise what failed, and may not the next time: a version
    /// whose fetch failed comes behind the others then.
    pub fn fetch(
        &mut self,
        above: u64,
        unfit: &[u64],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Fetched>, Error> {
        let job = &mut self.job;
        self.runtime.block_on(async {
            tokio::select! {
                fetched = job.fetch(above, unfit) => fetched,
                () = stopped(is_stopped) => Err(Error::Stopped),
            }
        })
    }
}

async fn stopped(is_stopped: &dyn Fn() -> bool) {
    while !is_stopped() {
        tokio::time::sleep(STOP_EVERY).await;
    }
}

impl Job {
    fn read_credentials(source: &Source) -> Result<Option<Credentials>, Error> {
        let read = source.credentials_file.as_deref().map(Credentials::read);
        read.transpose().map_err(|problem| Error::Configured {
            url: source.url.clone(),
            problem,
        })
    }

    async fn fetch(&mut self, above: u64, unfit: &[u64]) -> Result<Option<Fetched>, Error> {
        let credentials = Job::read_credentials(&self.source)?;
        if credentials != self.credentials {
            self.origin = Origin::open(&self.source, credentials.as_ref())?;
            self.credentials = credentials;
        }
        let Some(_lock) = folder::lock(&self.table_dir)? else {
            return Ok(None);
        };
        let listed = self.origin.versions().await?;
        let there = folder::versions(&self.table_dir)?;
        folder::tidy(&self.table_dir, |version| {
            listed.contains(&version) && !there.contains(&version)
        })?;
        self.refused.retain(|version, _| listed.contains(version));
        self.failing.retain(|version| listed.contains(version));
        self.bytes = 0;
        // What is below a version that is there is older than that, unless it cannot be served, or is a folder that was never
        // filled.
        let is_fit =
            |version: &&u64| !unfit.contains(version) && folder::has_manifest(&self.table_dir, **version);
        let fit = there.iter().filter(is_fit);
        let above = fit.copied().max().unwrap_or(0).max(above);
        let is_wanted = |version: &u64| *version > above && !there.contains(version);
        let mut wanted: Vec<u64> = listed.into_iter().rev().filter(is_wanted).collect();
        wanted.sort_by_key(|version| self.failing.contains(version));
        for version in wanted {
            let fetched = self.version(version, features::LAYERS_MAX).await;
            match fetched.is_err() {
                true => self.failing.insert(version),
                false => self.failing.remove(&version),
            };
            if fetched? {
                let bytes = self.bytes;
                return Ok(Some(Fetched { version, bytes }));
            }
        }
        Ok(None)
    }

    /// Fetches a version, and before it those that it stands on; false while something of it is not there.
    async fn version(&mut self, version: u64, chain_max: usize) -> Result<bool, Error> {
        let objects = self.origin.files(version).await?;
        let mark = mark(&objects);
        if self.refused.get(&version) == Some(&mark) {
            return Ok(false);
        }
        let fetched = self.complete(version, &objects, chain_max).await;
        if matches!(&fetched, Err(Error::Refused { version: refused, .. }) if *refused == version) {
            self.refused.insert(version, mark);
        }
        fetched
    }

    async fn complete(
        &mut self,
        version: u64,
        objects: &BTreeMap<String, Object>,
        chain_max: usize,
    ) -> Result<bool, Error> {
        let Some(manifest) = objects.get("manifest.json") else {
            return Ok(false);
        };
        if manifest.bytes == 0 {
            // A store that is a folder shows files that are being copied; no piece of none can be asked for.
            return Ok(false);
        }
        if manifest.bytes > MANIFEST_BYTES_MAX {
            let problem = format!(
                "its manifest has {} bytes, expected at most {MANIFEST_BYTES_MAX}",
                manifest.bytes
            );
            return Err(self.origin.refused(version, problem));
        }
        let text = self.origin.read(manifest, 0..manifest.bytes).await?;
        let unfinished = Unfinished::begin(&self.table_dir, version, &text)?;
        let described = match features::version_files(&unfinished.path) {
            Ok(described) if described.version == version => described,
            Ok(described) => {
                unfinished.remove()?;
                let problem = format!("its manifest is that of version {}", described.version);
                return Err(self.origin.refused(version, problem));
            }
            Err(error) => {
                unfinished.remove()?;
                return Err(self.origin.refused(version, error));
            }
        };
        let is_there =
            |(name, bytes): &(String, u64)| objects.get(name).is_some_and(|object| object.bytes == *bytes);
        if !described.files.iter().all(is_there) {
            return Ok(false);
        }
        if let Some(base) = described.base {
            if chain_max == 0 {
                return Err(self
                    .origin
                    .refused(version, "more versions stand on each other than can be opened"));
            }
            let is_there = folder::versions(&self.table_dir)?.contains(&base);
            if !is_there && !Box::pin(self.version(base, chain_max - 1)).await? {
                let (table, base) = (&self.table, base);
                tracing::info!(
                    table,
                    version,
                    base,
                    "a version waits for the one that it stands on"
                );
                return Ok(false);
            }
        }
        self.download(&unfinished, &described, objects).await?;
        self.finish(unfinished)?;
        Ok(true)
    }

    /// Brings what is missing of the files, a piece at a time.
    async fn download(
        &mut self,
        unfinished: &Unfinished,
        described: &VersionFiles,
        objects: &BTreeMap<String, Object>,
    ) -> Result<(), Error> {
        let (table, version) = (self.table.clone(), unfinished.version);
        let bytes: u64 = described.files.iter().map(|(_, bytes)| bytes).sum();
        tracing::info!(
            table,
            version,
            bytes,
            resumed = unfinished.is_resumed,
            "fetching a version"
        );
        let (began, mut said, mut done) = (Instant::now(), Instant::now(), 0);
        for (name, bytes_of_file) in &described.files {
            let Some(object) = objects.get(name) else { continue };
            let (mut file, mut at) = unfinished.open(name, *bytes_of_file)?;
            done += at;
            let path = unfinished.path.join(name);
            while at < *bytes_of_file {
                let end = bytes_of_file.min(&(at + PIECE_BYTES)).to_owned();
                let piece = self.origin.read(object, at..end).await?;
                file.write_all(&piece).map_err(Error::io("write", &path))?;
                (at, done, self.bytes) = (end, done + piece.len() as u64, self.bytes + piece.len() as u64);
                if said.elapsed() >= SAY_EVERY {
                    said = Instant::now();
                    let bytes_per_s = (self.bytes as f64 / began.elapsed().as_secs_f64()) as u64;
                    tracing::info!(table, version, done, bytes, bytes_per_s, "fetching");
                }
            }
            file.sync_all().map_err(Error::io("sync", &path))?;
        }
        let ms = began.elapsed().as_millis() as u64;
        tracing::info!(table, version, bytes, ms, "fetched a version");
        Ok(())
    }

    /// Verifies it and gives it its name.
    fn finish(&self, unfinished: Unfinished) -> Result<(), Error> {
        let version = unfinished.version;
        match features::verify_files(&unfinished.path, version) {
            Ok(()) => unfinished.name(),
            Err(error) => {
                let problem = error.to_string();
                let is_resumed = unfinished.is_resumed;
                unfinished.remove()?;
                match is_resumed {
                    // The first part may be of a file that was replaced meanwhile.
                    true => Err(Error::Stale { version, problem }),
                    false => Err(self.origin.refused(version, problem)),
                }
            }
        }
    }
}

/// Tells files from others of the same names.
fn mark(objects: &BTreeMap<String, Object>) -> u64 {
    let mut hasher = DefaultHasher::new();
    objects.hash(&mut hasher);
    hasher.finish()
}
