//! The files of TLS: PEM in, certificates and keys out, and whether a file has changed.
//! Its invariant: no more than [`FILE_BYTES_MAX`] of a file are read.

use super::{TlsFile, problem};
use crate::Error;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A bundle of all the world's certificate authorities has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Of a file's mode: others may read it.
const OTHERS_READ: u32 = 0o004;

/// What is known of a file without reading it: where it lies, its size, and when it changed.
type Stamp = Option<([u64; 3], [i64; 4])>;

/// What all of them were at one moment; files behind links are the ones that are meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps(Vec<Stamp>);

impl Stamps {
    pub(super) fn of<'f>(files: impl IntoIterator<Item = &'f TlsFile>) -> Stamps {
        let stamp = |file: &TlsFile| {
            let found = std::fs::metadata(&file.path).ok()?;
            let times = [
                found.mtime(),
                found.mtime_nsec(),
                found.ctime(),
                found.ctime_nsec(),
            ];
            Some(([found.dev(), found.ino(), found.size()], times))
        };
        Stamps(files.into_iter().map(stamp).collect())
    }
}

/// Whether everybody on this machine may read it.
pub(super) fn is_open_to_all(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.mode() & OTHERS_READ != 0)
}

fn read(file: &TlsFile) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(&file.path)
        .and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| {
            let hint = "let this process read it, or correct the path";
            Error::tls(file, format!("cannot be read: {source}; {hint}"))
        })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("has more than {FILE_BYTES_MAX} bytes; name a file of PEM");
        return Err(Error::tls(file, problem));
    }
    Ok(bytes)
}

/// What else the file may be, as the end of a sentence.
fn instead(bytes: &[u8]) -> &'static str {
    if bytes.is_empty() {
        "; the file is empty"
    } else if bytes.starts_with(&[0x30]) {
        "; this looks like DER: openssl x509 -inform der -in FILE -out OTHER makes PEM of a certificate, openssl pkey of a key"
    } else if holds(bytes, b"PRIVATE KEY-----") {
        "; it holds a private key"
    } else if holds(bytes, b"-----BEGIN CERTIFICATE-----") {
        "; it holds a certificate"
    } else {
        ""
    }
}

/// PEM, or text, without what was looked for.
fn holds_no(what: &str, label: &str, bytes: &[u8]) -> String {
    let instead = instead(bytes);
    format!("holds no {what}; expected PEM with a line -----BEGIN {label}-----{instead}")
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// All certificates of a file, in its order; at least one.
pub(super) fn certificates(file: &TlsFile) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(file)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| Error::tls(file, problem::not_pem(&error)))?;
    if found.is_empty() {
        let problem = holds_no("certificate", "CERTIFICATE", &bytes);
        return Err(Error::tls(file, problem));
    }
    Ok(found)
}

/// The first private key of a file.
pub(super) fn private_key(file: &TlsFile) -> Result<PrivateKeyDer<'static>, Error> {
    let bytes = read(file)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let problem = match error {
            _ if holds(&bytes, b"ENCRYPTED") => "holds an encrypted key, and no password can be given; decrypt it: openssl pkey -in FILE -out OTHER".to_owned(),
            pem::Error::NoItemsFound => holds_no("private key", "PRIVATE KEY", &bytes),
            other => problem::not_pem(&other),
        };
        Error::tls(file, problem)
    })
}
