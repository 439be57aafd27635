//! Versions from a folder that stands for a store, and from a server that cuts what it sends.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use millpond_engines_features::write::Writer;
use millpond_engines_features::{Schema, Source, Table, verify_files, versions};
use millpond_engines_features_fetch::{Error, Fetched, Fetcher};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const SHARD: &str = "shard-00000.mpf";

fn write(table: &Path, version: u64) {
    let mut writer = Writer::create(table, "films", version, Schema::floats(4), 1).unwrap();
    for key in 0..500 {
        writer.push(key, &[version as f32; 4]).unwrap();
    }
    writer.finish().unwrap();
}

fn write_delta(table: &Path, version: u64, base: u64) {
    let base = Arc::new(Table::open_version(table, Some(base)).unwrap());
    let mut writer = Writer::create_delta(table, version, base, 1).unwrap();
    writer.push(1, &[0.5; 4]).unwrap();
    writer.finish().unwrap();
}

/// A store that is a folder, and a table's folder that is not there yet.
struct Place {
    _dir: tempfile::TempDir,
    store: PathBuf,
    table: PathBuf,
    fetcher: Fetcher,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let (store, table) = (dir.path().join("store"), dir.path().join("table"));
        fs::create_dir(&store).unwrap();
        let source = Source::of(&format!("file://{}", store.display()));
        let fetcher = Fetcher::new("films", &source, &table).unwrap();
        Place {
            _dir: dir,
            store,
            table,
            fetcher,
        }
    }

    fn fetch(&mut self, above: u64) -> Result<Option<Fetched>, Error> {
        self.fetcher.fetch(above, &[], &|| false)
    }

    /// Fetches that version, and nothing else.
    fn fetches(&mut self, above: u64, version: u64) -> u64 {
        let fetched = self.fetch(above).unwrap().unwrap();
        assert_eq!(fetched.version, version);
        Table::open_version(&self.table, Some(version))
            .unwrap()
            .verify()
            .unwrap();
        fetched.bytes
    }

    fn refuses(&mut self, words: &str) {
        let error = self.fetch(0).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(self.fetch(0).unwrap(), None, "it is refused once");
        assert!(versions(&self.table).is_err());
    }

    fn shard(&self, version: u64) -> PathBuf {
        self.store.join(format!("{version:08}")).join(SHARD)
    }

    fn unfinished(&self, version: u64) -> PathBuf {
        self.table.join(format!(".{version:08}.fetched.unfinished"))
    }
}

#[test]
fn the_highest_version_is_fetched_and_nothing_older() {
    let mut place = Place::new();
    assert_eq!(place.fetch(0).unwrap(), None, "an empty store");
    write(&place.store, 3);
    write(&place.store, 7);
    let bytes = fs::metadata(place.shard(7)).unwrap().len();
    assert_eq!(place.fetches(0, 7), bytes);
    assert_eq!(versions(&place.table).unwrap(), [7]);
    assert_eq!(place.fetch(0).unwrap(), None, "it is there");
    assert_eq!(place.fetch(7).unwrap(), None);
    // An older listing.
    fs::remove_dir_all(place.store.join("00000007")).unwrap();
    assert_eq!(place.fetch(7).unwrap(), None);
    assert_eq!(versions(&place.table).unwrap(), [7]);
    let left: Vec<_> = fs::read_dir(&place.table)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "the version and the lock: {left:?}");
}

/// One that came and cannot be served hides none below it that is new too.
#[test]
fn a_version_that_cannot_be_served_hides_no_other() {
    let mut place = Place::new();
    for version in [3, 5, 7] {
        write(&place.store, version);
    }
    place.fetches(3, 7);
    assert_eq!(place.fetch(3).unwrap(), None, "what is below it is older");
    let mut below = |unfit: &[u64]| place.fetcher.fetch(3, unfit, &|| false).unwrap();
    assert_eq!(below(&[7]).map(|fetched| fetched.version), Some(5));
    assert_eq!(below(&[7]), None);
    assert_eq!(below(&[7, 5]), None, "3 has served");
    assert_eq!(versions(&place.table).unwrap(), [5, 7]);
}

#[test]
fn a_folder_that_was_never_filled_hides_no_version() {
    let mut place = Place::new();
    write(&place.store, 2);
    fs::create_dir_all(place.table.join("00000009")).unwrap();
    place.fetches(1, 2);
}

#[test]
fn half_a_version_is_waited_for() {
    let mut place = Place::new();
    write(&place.store, 2);
    let whole = fs::read(place.shard(2)).unwrap();
    fs::write(place.shard(2), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(place.fetch(0).unwrap(), None, "half a file");
    fs::remove_file(place.shard(2)).unwrap();
    assert_eq!(place.fetch(0).unwrap(), None, "no file");
    let manifest = place.store.join("00000002/manifest.json");
    let text = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    fs::write(place.shard(2), &whole).unwrap();
    assert_eq!(place.fetch(0).unwrap(), None, "no manifest");
    fs::write(&manifest, "").unwrap();
    write(&place.store, 1);
    place.fetches(0, 1);
    fs::write(&manifest, text).unwrap();
    place.fetches(0, 2);
}

#[test]
fn a_damaged_version_is_refused_until_its_files_change() {
    let mut place = Place::new();
    write(&place.store, 2);
    let whole = fs::read(place.shard(2)).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(place.shard(2), flipped).unwrap();
    place.refuses("checksum");
    assert!(!place.unfinished(2).exists(), "nothing is left of it");
    // One below it may come meanwhile.
    write(&place.store, 1);
    place.fetches(0, 1);
    fs::remove_file(place.shard(2)).unwrap();
    fs::write(place.shard(2), &whole).unwrap();
    place.fetches(1, 2);
}

#[test]
fn manifests_that_lie_are_refused() {
    let mut place = Place::new();
    write(&place.store, 2);
    fs::rename(place.store.join("00000002"), place.store.join("00000005")).unwrap();
    place.refuses("its manifest is that of version 2");
    fs::write(place.store.join("00000005/manifest.json"), "{}").unwrap();
    place.refuses("manifest.json is damaged");
}

#[test]
fn a_fetch_that_was_killed_goes_on_where_it_was() {
    let mut place = Place::new();
    write(&place.store, 2);
    let whole = fs::read(place.shard(2)).unwrap();
    let half = whole.len() / 2;
    let leave = |place: &Place, part: &[u8]| {
        fs::create_dir_all(place.unfinished(2)).unwrap();
        fs::copy(
            place.store.join("00000002/manifest.json"),
            place.unfinished(2).join("manifest.json"),
        )
        .unwrap();
        fs::write(place.unfinished(2).join(SHARD), part).unwrap();
    };
    leave(&place, &whole[..half]);
    assert_eq!(place.fetches(0, 2), (whole.len() - half) as u64, "the rest");
    // What is left belongs to another build: it is noticed, and fetched anew.
    fs::remove_dir_all(place.table.join("00000002")).unwrap();
    leave(&place, &vec![7; half]);
    let stale = place.fetch(0).unwrap_err();
    assert!(matches!(stale, Error::Stale { version: 2, .. }), "{stale}");
    assert_eq!(place.fetches(0, 2), whole.len() as u64);
    // More than the file has, and a version that is nowhere any more.
    fs::remove_dir_all(place.table.join("00000002")).unwrap();
    leave(&place, &vec![7; whole.len() + 1]);
    fs::create_dir_all(place.unfinished(9)).unwrap();
    assert_eq!(place.fetches(0, 2), whole.len() as u64);
    assert!(!place.unfinished(9).exists());
}

#[test]
fn a_delta_comes_with_what_it_stands_on() {
    let mut place = Place::new();
    write(&place.store, 1);
    write_delta(&place.store, 2, 1);
    write_delta(&place.store, 3, 2);
    let hidden = place.store.join("hidden");
    fs::rename(place.store.join("00000001"), &hidden).unwrap();
    assert_eq!(place.fetch(0).unwrap(), None, "the base is not there");
    fs::rename(&hidden, place.store.join("00000001")).unwrap();
    let all = [1, 2, 3]
        .iter()
        .map(|version| fs::metadata(place.shard(*version)).unwrap().len());
    let all: u64 = all.sum();
    assert_eq!(place.fetches(0, 3), all);
    assert_eq!(versions(&place.table).unwrap(), [1, 2, 3]);
    // The base is there: it is not fetched again.
    write_delta(&place.store, 4, 3);
    let bytes = fs::metadata(place.shard(4)).unwrap().len();
    assert_eq!(place.fetches(3, 4), bytes);
}

#[test]
fn one_process_fetches_into_a_folder_at_a_time() {
    let mut place = Place::new();
    write(&place.store, 2);
    fs::create_dir_all(&place.table).unwrap();
    let lock = fs::File::create(place.table.join(".fetch.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(place.fetch(0).unwrap(), None);
    drop(lock);
    place.fetches(0, 2);
}

#[test]
fn an_end_that_is_asked_for_ends_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut fetcher, _table) = of_server(&listener);
    // Nobody accepts.
    let ended = fetcher.fetch(0, &[], &|| true).unwrap_err();
    assert!(matches!(ended, Error::Stopped), "{ended}");
}

/// A fetcher that asks a server, and the table's folder.
fn of_server(listener: &TcpListener) -> (Fetcher, tempfile::TempDir) {
    let table = tempfile::tempdir().unwrap();
    let credentials = table.path().join("credentials");
    fs::write(
        &credentials,
        "[default]\naws_access_key_id = k\naws_secret_access_key = s\n",
    )
    .unwrap();
    let source = Source {
        endpoint: Some(format!("http://{}", listener.local_addr().unwrap())),
        credentials_file: Some(credentials),
        ..Source::of("s3://bucket/films")
    };
    let fetcher = Fetcher::new("films", &source, table.path()).unwrap();
    (fetcher, table)
}

/// What a server does to the body of a file.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Whole,
    /// Its connection ends in the middle.
    Cut,
    /// It is whole as HTTP has it, and has fewer bytes than were asked for, or more.
    Short,
    Long,
    /// It never ends.
    Endless,
}

/// Answers one request of a store that has versions 2 and 3 as in `table`; `body` is what becomes of the file of version 3.
fn answer(stream: &TcpStream, table: &Path, body: Body) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?;
    assert!(head.contains("Credential=k/"), "it is signed: {head}");
    match path.split_once("/bucket/films/") {
        Some((_, file)) => send_file(stream, table, file, body),
        None => send_list(stream, table, path),
    }
}

fn send_list(mut out: &TcpStream, table: &Path, path: &str) -> Option<()> {
    let entry = |version: &str, name: &str| {
        let bytes = fs::metadata(table.join(version).join(name)).unwrap().len();
        format!(
            "<Contents><Key>films/{version}/{name}</Key><LastModified>2026-11-26T08:00:00.000Z</LastModified>\
             <ETag>\"{bytes}\"</ETag><Size>{bytes}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
    };
    let listed = ["00000002", "00000003"]
        .into_iter()
        .find(|version| path.contains(version));
    let entries = match listed {
        Some(version) => ["manifest.json", SHARD].map(|name| entry(version, name)).concat(),
        None => ["2", "3"]
            .map(|version| {
                format!("<CommonPrefixes><Prefix>films/0000000{version}/</Prefix></CommonPrefixes>")
            })
            .concat(),
    };
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    );
    let length = body.len();
    write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").ok()
}

fn send_file(mut out: &TcpStream, table: &Path, file: &str, body: Body) -> Option<()> {
    let bytes = fs::read(table.join(file)).unwrap();
    let body = if file == format!("00000003/{SHARD}") {
        body
    } else {
        Body::Whole
    };
    let (len, last) = (bytes.len(), bytes.len() - 1);
    let length = match body {
        Body::Whole | Body::Cut => len,
        Body::Short => len - 1,
        Body::Long => len + 8,
        Body::Endless => 1 << 40,
    };
    write!(
        out,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes 0-{last}/{len}\r\n\
         ETag: \"{len}\"\r\nLast-Modified: Thu, 26 Nov 2026 08:00:00 GMT\r\n\r\n"
    )
    .ok()?;
    match body {
        Body::Whole => out.write_all(&bytes).ok(),
        Body::Cut => {
            out.write_all(&bytes[..1000]).ok()?;
            None
        }
        Body::Short => out.write_all(&bytes[1..]).ok(),
        Body::Long => out.write_all(&[&bytes[..], b"and more"].concat()).ok(),
        Body::Endless => loop {
            out.write_all(&bytes).ok()?;
        },
    }
}

/// A server that gives what was not asked for, again and again, and then does not. Meanwhile the version below comes, which is new
/// too.
#[test]
fn a_server_that_gives_other_bytes_than_were_asked_for_gives_none() {
    let made = tempfile::tempdir().unwrap();
    for version in [2, 3] {
        write(made.path(), version);
    }
    for body in [Body::Cut, Body::Short, Body::Long, Body::Endless] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut fetcher, table) = of_server(&listener);
        let now = Arc::new(Mutex::new(body));
        let (told, store) = (Arc::clone(&now), made.path().to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let body = || *told.lock().unwrap();
                while answer(&stream, &store, body()).is_some() {}
            }
        });
        let error = fetcher.fetch(0, &[], &|| false).unwrap_err();
        match body {
            Body::Cut => assert!(matches!(error, Error::Store { .. }), "{error}"),
            _ => assert!(matches!(error, Error::Short { .. }), "{error}"),
        }
        assert!(versions(table.path()).is_err(), "no version");
        let below = fetcher.fetch(0, &[], &|| false).unwrap().unwrap();
        assert_eq!(below.version, 2, "it comes before the one that failed");
        fetcher.fetch(2, &[], &|| false).unwrap_err();
        *now.lock().unwrap() = Body::Whole;
        let fetched = fetcher.fetch(2, &[], &|| false).unwrap().unwrap();
        assert_eq!(fetched.version, 3);
        verify_files(&table.path().join("00000003"), 3).unwrap();
    }
}
