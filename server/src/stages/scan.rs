//! The newest entries below a prefix of an ordered store, as texts.
//! Its invariant: it reads at most its limit, in key order, which the writer makes newest first.

use super::{Output, Subject};
use millpond_engines_infer::pipeline::Template;
use millpond_engines_ordered::{Scan, Store};
use millpond_wire_schema::{Code, Status};

pub(super) fn run(
    subject: &Subject<'_>,
    store: &Store,
    prefix: &Template,
    limit: usize,
) -> Result<Output, Status> {
    let prefix = prefix
        .fill(|field| subject.user_text(field))
        .map_err(|field| subject.no_text(field))?;
    let scan = Scan {
        start: None,
        end: None,
        prefix: Some(prefix.into_bytes()),
        limit,
    };
    let mut texts = Vec::new();
    let mut not_text = None;
    store.scan(&scan, &mut |key, value| match std::str::from_utf8(value) {
        Ok(text) => texts.push(text.to_owned()),
        Err(_) => not_text = Some(String::from_utf8_lossy(key).into_owned()),
    });
    match not_text {
        None => Ok(Output::Texts(texts)),
        Some(key) => {
            let ex =
                format!("the stored value under {key:?} is not text; the pipeline's scan reads text values");
            Err(Status::new(Code::Internal, ex))
        }
    }
}
