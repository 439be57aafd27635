//! What a store holds, read over the wire: by scans both ways, looks at each key, and items of lists.
//!
//! Its invariant: what is found was there at some moment between two that are noted.

use super::cells::{Cell, Cells, Span, Value};
use crate::front::{Answer, Came, Connection};
use crate::load::text;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The server's clock and the campaign's are one; threads that wait for a processor are late.
const CLOCK_MS: u64 = 100;
const KEYS_EACH: usize = 100;

/// Milliseconds of Unix time.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// When it began to be read, in milliseconds of Unix time,
    pub began_ms: u64,
    /// and when it was.
    pub ended_ms: u64,
    /// The keys, with their versions; where they expire, when, as far as it can be told.
    pub cells: BTreeMap<String, Cell>,
}

/// Why a read has no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// It was told to try again.
    Refused,
    /// The connection is over.
    Closed,
    /// What nothing explains.
    Wrong(String),
}

/// Makes a call that changes nothing.
///
/// # Errors
/// It has no good answer.
pub fn ask(connection: &mut Connection, method: &'static str, payload: Json) -> Result<Json, NoAnswer> {
    match connection.call(method, payload) {
        Came::Answer(_, Answer::Good(answer)) => Ok(answer),
        Came::Answer(_, Answer::Error(code, _)) if crate::load::TRY_AGAIN.contains(&code) => {
            Err(NoAnswer::Refused)
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Err(NoAnswer::Wrong(format!("{method} was refused with {code}: {ex}")))
        }
        Came::Closed => Err(NoAnswer::Closed),
        Came::Nothing => Err(NoAnswer::Wrong(format!("{method} was never answered"))),
        Came::Wrong(wrong) => Err(NoAnswer::Wrong(format!("{method}: {wrong}"))),
    }
}

/// Keys in the order of a scan, each with its bytes; `None` of a list.
pub type Scanned = Vec<(String, Option<String>)>;

/// A whole scan of the keys that begin so, page by page.
///
/// # Errors
/// As [`ask`].
pub fn scan(
    connection: &mut Connection,
    table: &str,
    prefix: &str,
    limit: usize,
    is_reverse: bool,
) -> Result<Scanned, NoAnswer> {
    let (mut all, mut cursor) = (Scanned::new(), None);
    loop {
        let mut call = json!({"table": table, "prefix": prefix, "limit": limit, "reverse": is_reverse});
        if let Some(cursor) = cursor {
            call["cursor"] = json!(cursor);
        }
        let answer = ask(connection, "ordered.scan", call)?;
        let wrong = || NoAnswer::Wrong(format!("a scan was answered {answer:.200}"));
        let lists: Vec<u64> = match answer["lists"].as_array() {
            Some(lists) => lists.iter().filter_map(Json::as_u64).collect(),
            None => Vec::new(),
        };
        for (at, entry) in (0..).zip(answer["entries"].as_array().ok_or_else(wrong)?) {
            let (Some(key), Some(value)) = (text(&entry[0]), text(&entry[1])) else {
                return Err(wrong());
            };
            all.push((key, (!lists.contains(&at)).then_some(value)));
        }
        match &answer["cursor"] {
            Json::Null => return Ok(all),
            next => cursor = Some(text(next).ok_or_else(wrong)?),
        }
    }
}

/// The items of a list.
///
/// # Errors
/// As [`ask`].
pub fn items(connection: &mut Connection, table: &str, key: &str) -> Result<Vec<String>, NoAnswer> {
    let call = json!({"table": table, "key": key, "start": 0, "stop": -1});
    let answer = ask(connection, "ordered.items", call)?;
    let items = answer["items"]
        .as_array()
        .map(|items| items.iter().map(text).collect());
    let items: Option<Option<Vec<String>>> = items;
    items
        .flatten()
        .ok_or_else(|| NoAnswer::Wrong(format!("items are answered {answer:.200}")))
}

/// Everything that a store holds below a prefix.
///
/// # Errors
/// As [`ask`], and scans that disagree.
pub fn everything(connection: &mut Connection, table: &str, prefix: &str) -> Result<Found, NoAnswer> {
    let began_ms = now_ms();
    let scanned = scan(connection, table, prefix, 200, false)?;
    let mut backwards = scan(connection, table, prefix, 70, true)?;
    backwards.reverse();
    let lasting = |scanned: &Scanned| {
        let mut lasting = scanned.clone();
        lasting.retain(|(key, _)| !key.contains("/short"));
        lasting
    };
    if lasting(&scanned) != lasting(&backwards) {
        let seen = format!("{table}: scans both ways differ: {scanned:.300?} and {backwards:.300?}");
        return Err(NoAnswer::Wrong(seen));
    }
    let mut cells = BTreeMap::new();
    for some in scanned.chunks(KEYS_EACH) {
        let keys: Vec<&String> = some.iter().map(|(key, _)| key).collect();
        let asked_ms = now_ms();
        let answer = ask(
            connection,
            "ordered.inspect",
            json!({"table": table, "keys": keys}),
        )?;
        let answered_ms = now_ms();
        let looks = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        if looks.len() != some.len() {
            return Err(NoAnswer::Wrong(format!(
                "a look at keys was answered {answer:.200}"
            )));
        }
        for ((key, value), look) in some.iter().zip(looks) {
            // It has expired since it was scanned.
            let Some(version) = look["version"].as_u64().filter(|version| *version > 0) else {
                continue;
            };
            let value = match value {
                Some(value) => Value::Bytes(value.clone()),
                None => Value::List(items(connection, table, key)?),
            };
            let expires = look["ttl_ms"].as_u64().map(|ttl_ms| Span {
                from: asked_ms + ttl_ms,
                to: answered_ms + ttl_ms,
            });
            let cell = Cell {
                value,
                version: Some(version),
                expires,
            };
            cells.insert(key.clone(), cell);
        }
    }
    Ok(Found {
        began_ms,
        ended_ms: now_ms(),
        cells,
    })
}

impl Found {
    /// What begins so.
    pub fn of(&self, prefix: &str) -> Found {
        let mut cells = self.cells.clone();
        cells.retain(|key, _| key.starts_with(prefix));
        Found { cells, ..*self }
    }

    /// Whether it is what a model holds.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn agrees(&self, cells: &Cells) -> Result<(), String> {
        if let Some((key, cell)) = self.cells.iter().find(|(key, _)| !cells.contains_key(*key)) {
            return Err(format!("{key} is not to be there, and holds {:.60?}", cell.value));
        }
        for (key, cell) in cells {
            let (may_be_over, must_be) = over(cell.expires, self.began_ms, self.ended_ms);
            match self.cells.get(key) {
                None if may_be_over => {}
                None => return Err(format!("{key} is not there; it is to hold {:.60?}", cell.value)),
                Some(_) if must_be => return Err(format!("{key} is there, and has expired")),
                Some(found) => same(key, found, cell)?,
            }
        }
        Ok(())
    }

    /// The model with the versions that were found, and without what has expired.
    pub fn versions_of(&self, mut cells: Cells) -> Cells {
        cells.retain(|key, cell| {
            let found = self.cells.get(key);
            cell.version = found.and_then(|found| found.version);
            found.is_some()
        });
        cells
    }
}

/// Whether what expires so may be gone, and must be, for who read between two moments.
pub fn over(expires: Option<Span>, began_ms: u64, ended_ms: u64) -> (bool, bool) {
    let may_be = expires.is_some_and(|over| over.from <= ended_ms + CLOCK_MS);
    let must_be = expires.is_some_and(|over| over.to + CLOCK_MS < began_ms);
    (may_be, must_be)
}

fn same(key: &str, found: &Cell, cell: &Cell) -> Result<(), String> {
    if found.value != cell.value {
        return Err(format!(
            "{key} holds {:.60?}; it is to hold {:.60?}",
            found.value, cell.value
        ));
    }
    if cell.version.is_some() && found.version.is_some() && cell.version != found.version {
        return Err(format!(
            "{key} has version {:?}; it is to have {:?}",
            found.version, cell.version
        ));
    }
    let is_same_time = match (found.expires, cell.expires) {
        (Some(found), Some(cell)) => found.from <= cell.to + CLOCK_MS && cell.from <= found.to + CLOCK_MS,
        (found, cell) => found.is_none() && cell.is_none(),
    };
    if !is_same_time {
        return Err(format!(
            "{key} expires at {:?}; it is to expire at {:?}",
            found.expires, cell.expires
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: &str, version: Option<u64>, expires: Option<(u64, u64)>) -> Cell {
        Cell {
            value: Value::Bytes(value.to_owned()),
            version,
            expires: expires.map(|(from, to)| Span { from, to }),
        }
    }

    /// Read from 10 s to 11 s, a key that was found so against one that was written so.
    fn check(found: Option<Cell>, written: Option<Cell>, is_right: bool) {
        let cells = |cell: &Option<Cell>| cell.iter().map(|cell| ("key".to_owned(), cell.clone())).collect();
        let all = Found {
            began_ms: 10_000,
            ended_ms: 11_000,
            cells: cells(&found),
        };
        assert_eq!(
            all.agrees(&cells(&written)).is_ok(),
            is_right,
            "{found:?} {written:?}"
        );
    }

    #[test]
    fn what_is_found_is_held_against_what_was_written() {
        let written = || Some(cell("v", Some(3), None));
        check(written(), written(), true);
        check(Some(cell("v", Some(3), None)), Some(cell("v", None, None)), true);
        check(Some(cell("w", Some(3), None)), written(), false);
        check(Some(cell("v", Some(4), None)), written(), false);
        check(None, written(), false);
        check(written(), None, false);
    }

    #[test]
    fn what_expires_is_there_before_and_gone_behind() {
        let lasts = |from, to| Some(cell("v", None, Some((from, to))));
        // Long before it was read, while it was, and long after.
        for (written, may_be_there, may_be_gone) in [
            (lasts(1000, 2000), false, true),
            (lasts(10_200, 10_300), true, true),
            (lasts(60_000, 61_000), true, false),
        ] {
            check(written.clone(), written.clone(), may_be_there);
            check(None, written, may_be_gone);
        }
        // At another time, or for good.
        check(lasts(30_000, 30_001), lasts(60_000, 61_000), false);
        check(Some(cell("v", None, None)), lasts(60_000, 61_000), false);
        check(lasts(60_000, 61_000), Some(cell("v", None, None)), false);
    }
}
