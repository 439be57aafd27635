//! Texts to keys. It looks nothing up; its invariant: the key of a text is the trainer's, bit for bit.

use super::{Output, Subject, subject};
use millpond_engines_infer::pipeline::{Source, key_hash};
use millpond_wire_schema::{Code, Status};

pub(super) fn run(
    subject: &Subject<'_>,
    outputs: &[Output],
    slot: &str,
    from: &Source,
    split: Option<&str>,
) -> Result<Output, Status> {
    let one_each = |keys: Vec<u64>| Output::Keys { keys, offsets: None };
    Ok(match (from, subject) {
        (Source::Sample(at), Subject::Samples(samples)) => {
            // The widths were checked before the first stage.
            let texts = samples.iter().filter_map(|sample| sample.get(*at));
            one_each(texts.map(|text| key_hash(slot, text)).collect())
        }
        (Source::Items, Subject::Rank { items, .. }) => {
            let texts = items.iter().filter_map(subject::text);
            one_each(texts.map(|text| key_hash(slot, &text)).collect())
        }
        (Source::User(field), Subject::Rank { .. }) => {
            let texts = subject.user_texts(field)?;
            let keys: Vec<u64> = match split {
                None => texts.iter().map(|text| key_hash(slot, text)).collect(),
                Some(split) => {
                    let pieces = texts
                        .iter()
                        .flat_map(|text| text.split(split))
                        .filter(|piece| !piece.is_empty());
                    pieces.map(|piece| key_hash(slot, piece)).collect()
                }
            };
            bag(keys)
        }
        (Source::Stage(at), _) => match &outputs[*at] {
            Output::Texts(texts) => bag(texts.iter().map(|text| key_hash(slot, text)).collect()),
            _ => return Err(unfit("texts")),
        },
        _ => return Err(unfit("this kind of request")),
    })
}

/// All keys in one row.
fn bag(keys: Vec<u64>) -> Output {
    let end = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    Output::Keys {
        keys,
        offsets: Some(vec![0, end]),
    }
}

/// Plans are checked when the server starts; this is what is left to say if one slipped through.
pub(super) fn unfit(expected: &str) -> Status {
    Status::new(
        Code::Internal,
        format!("a stage does not get {expected}; check the pipeline with millpond check-config"),
    )
}
