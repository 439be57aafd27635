//! Pipeline descriptions as they stand in a configuration: the good ones resolve, the
//! bad ones are refused with the pipeline, the stage, the key and a hint.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_pipelines::{Description, Form, Kind, PerRow, Plan, RequestKind, Rows, Source, Taken, key_hash};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
struct File {
    pipelines: BTreeMap<String, Description>,
}

const RANK: &str = r#"
[pipelines.rank]
request = "rank"
[[pipelines.rank.stages]]
name = "user_key"
hash = { slot = "user", from = "user.id" }
[[pipelines.rank.stages]]
name = "user_vec"
lookup = { table = "embeddings", keys = "user_key" }
[[pipelines.rank.stages]]
name = "genre_keys"
hash = { slot = "genre", from = "user.genres", split = "|" }
[[pipelines.rank.stages]]
name = "genre_vec"
lookup = { table = "embeddings", keys = "genre_keys", pool = "sum" }
[[pipelines.rank.stages]]
name = "item_keys"
hash = { slot = "film", from = "items" }
[[pipelines.rank.stages]]
name = "item_vec"
lookup = { table = "embeddings", keys = "item_keys", pool = "none" }
[[pipelines.rank.stages]]
name = "events"
scan = { store = "events", prefix = "u/{user.id}/", limit = 50 }
[[pipelines.rank.stages]]
name = "history"
hash = { slot = "film", from = "events" }
[[pipelines.rank.stages]]
name = "history_vec"
lookup = { table = "embeddings", keys = "history", pool = "mean" }
[[pipelines.rank.stages]]
name = "x"
assemble = { columns = ["user_vec", "genre_vec", "item_vec", "history_vec"] }
[[pipelines.rank.stages]]
name = "scores"
model = { model = "ranker", input = "x" }
"#;

fn plan(text: &str, name: &str) -> Result<Plan, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    file.pipelines[name].plan(name).map_err(|error| error.to_string())
}

#[test]
fn the_rank_pipeline_resolves() {
    let plan = plan(RANK, "rank").unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.request, plan.sample_width()),
        ("rank", RequestKind::Rank, 0)
    );
    let one = |kind, per_row| form(kind, Rows::One, per_row);
    let each = |kind| form(kind, Rows::Each, PerRow::One);
    let gives: Vec<Form> = plan.stages.iter().map(|stage| stage.gives).collect();
    assert_eq!(
        gives,
        [
            one(Kind::Keys, PerRow::OneOrSeveral),
            one(Kind::Floats, PerRow::One),
            one(Kind::Keys, PerRow::Several),
            one(Kind::Floats, PerRow::One),
            each(Kind::Keys),
            each(Kind::Floats),
            one(Kind::Texts, PerRow::Several),
            one(Kind::Keys, PerRow::Several),
            one(Kind::Floats, PerRow::One),
            each(Kind::Floats),
            each(Kind::Scores),
        ]
    );
    let user = |field: &str| Source::User(field.to_owned());
    let prefix = Source::UserText("id".to_owned());
    assert_eq!(plan.inputs, [user("id"), user("genres"), Source::Items, prefix]);
    let takes: Vec<&[Taken]> = plan.stages.iter().map(|stage| stage.takes.as_slice()).collect();
    let stages = [1, 3, 5, 8].map(Taken::Stage);
    assert_eq!(takes[1], [Taken::Stage(0)]);
    assert_eq!(
        (takes[4], takes[6]),
        (&[Taken::Input(2)][..], &[Taken::Input(3)][..])
    );
    assert_eq!((takes[7], takes[9]), (&[Taken::Stage(6)][..], &stages[..]));
    assert_eq!(takes[10], [Taken::Stage(9)]);
    let names: Vec<(usize, &str, &str)> = plan
        .names()
        .map(|(at, name)| (at, name.section, name.name))
        .collect();
    let embeddings = |at| (at, "features", "embeddings");
    let (events, ranker) = ((6, "ordered", "events"), (10, "models", "ranker"));
    assert_eq!(
        names,
        [
            embeddings(1),
            embeddings(3),
            embeddings(5),
            events,
            embeddings(8),
            ranker
        ]
    );
}

fn form(kind: Kind, rows: Rows, per_row: PerRow) -> Form {
    Form { kind, rows, per_row }
}

#[test]
fn the_samples_pipeline_resolves() {
    let text = r#"
[pipelines.r1]
request = "samples"
stages = [
    { name = "user_keys", hash = { slot = "0", from = "samples.0" } },
    { name = "item_keys", hash = { slot = "1", from = "samples.1" } },
    { name = "user_vec", lookup = { table = "embeddings", keys = "user_keys" } },
    { name = "item_vec", lookup = { table = "embeddings", keys = "item_keys" } },
    { name = "x", assemble = { columns = ["user_vec", "item_vec"] } },
    { name = "scores", model = { model = "r1", input = "x" } },
]
"#;
    let plan = plan(text, "r1").unwrap();
    assert_eq!((plan.request, plan.sample_width()), (RequestKind::Samples, 2));
    assert_eq!(plan.inputs, [Source::Sample(0), Source::Sample(1)]);
    assert_eq!(plan.stages[1].takes, [Taken::Input(1)]);
}

/// The rank pipeline with `old` replaced is refused; the message holds every one of `words`.
fn check_refused(old: &str, new: &str, words: &[&str]) {
    assert!(RANK.contains(old), "{old}");
    let refused = plan(&RANK.replacen(old, new, 1), "rank").unwrap_err();
    for word in words {
        assert!(refused.contains(word), "`{word}` is missing in:\n{refused}");
    }
}

/// As [`check_refused`], for what the analysis refuses: the pipeline is named as well.
fn check_stage(old: &str, new: &str, place: &str, problem: &str, hint: &str) {
    check_refused(old, new, &[&format!("pipeline `rank`, {place}: "), problem, hint]);
}

#[test]
fn unknown_keys_and_kinds_are_refused_with_the_known_ones() {
    check_refused(
        "scan = {",
        "scna = {",
        &["unknown field `scna`", "`hash`", "`scan`", "scna = { store"],
    );
    check_refused(
        "limit = 50",
        "limt = 50",
        &["unknown field `limt`", "`limit`", "limt = 50"],
    );
    check_refused(
        "request = \"rank\"",
        "requests = \"rank\"",
        &["unknown field `requests`", "`request`"],
    );
    check_refused(
        "pool = \"mean\"",
        "pool = \"median\"",
        &["unknown variant `median`", "`none`, `sum`, `mean`, `max`"],
    );
    check_refused(
        "request = \"rank\"",
        "request = \"ranks\"",
        &["unknown variant `ranks`", "`rank`, `samples`, `values`"],
    );
    check_refused(", limit = 50", "", &["missing field `limit`", "scan = {"]);
    check_refused("limit = 50", "limit = -1", &["limit = -1", "expected usize"]);
}

#[test]
fn names_are_checked() {
    let place = "stage `user_key`, key `name`";
    check_stage(
        "name = \"user_vec\"",
        "name = \"user_key\"",
        place,
        "stage number 1 has this name",
        "a name of its own",
    );
    for bad in ["items", "user", "samples", "", "1st", "a.b", "with space"] {
        let new = format!("name = \"{bad}\"");
        check_stage(
            "name = \"user_key\"",
            &new,
            "stage number 1, key `name`",
            "cannot be a name",
            "begin with a letter",
        );
    }
}

#[test]
fn a_stage_does_exactly_one_thing() {
    check_stage(
        "hash = { slot = \"user\", from = \"user.id\" }",
        "",
        "stage `user_key`",
        "it does nothing",
        "exactly one of hash, scan, ",
    );
    check_stage(
        "name = \"user_key\"\n",
        "name = \"user_key\"\nassemble = { columns = [] }\n",
        "stage `user_key`, key `hash`, `assemble`",
        "several things",
        "exactly one",
    );
    let empty = plan("[pipelines.rank]\nrequest = \"rank\"\n", "rank").unwrap_err();
    assert!(
        empty.contains("pipeline `rank`, key `stages`: there is no stage; add stages"),
        "{empty}"
    );
}

#[test]
fn what_a_stage_reads_must_exist_and_fit() {
    check_stage(
        "keys = \"history\"",
        "keys = \"histroy\"",
        "stage `history_vec`, key `lookup.keys`",
        "no stage is called `histroy`",
        "name a stage that gives keys: `user_key`, `genre_keys`, `item_keys`, `history`",
    );
    check_stage(
        "keys = \"history\"",
        "keys = \"events\"",
        "stage `history_vec`, key `lookup.keys`",
        "stage `events` gives texts",
        "name a stage that gives keys",
    );
    check_stage(
        "\"genre_vec\", \"item_vec\"",
        "\"genre_keys\", \"item_vec\"",
        "stage `x`, key `assemble.columns`",
        "stage `genre_keys` gives keys",
        "name a stage that gives floats: `user_vec`",
    );
    check_stage(
        "from = \"events\"",
        "from = \"user_vec\"",
        "stage `history`, key `hash.from`",
        "stage `user_vec` gives floats",
        "name a stage that gives texts: `events`",
    );
    check_stage(
        "from = \"items\"",
        "from = \"item.s\"",
        "stage `item_keys`, key `hash.from`",
        "`item.s` is no source of text",
        "user.FIELD, items, samples.J, or the name of a stage that gives texts",
    );
    check_stage(
        "columns = [\"user_vec\", \"genre_vec\", \"item_vec\", \"history_vec\"]",
        "columns = []",
        "stage `x`, key `assemble.columns`",
        "it is empty",
        "at least one stage that gives floats",
    );
}

#[test]
fn order_and_cycles_are_checked() {
    check_stage(
        "keys = \"user_key\"",
        "keys = \"genre_keys\"",
        "stage `user_vec`, key `lookup.keys`",
        "stage `genre_keys` is listed later",
        "move `genre_keys` before `user_vec`",
    );
    check_stage(
        "columns = [\"user_vec\"",
        "columns = [\"x\"",
        "stage `x`, key `assemble.columns`",
        "the stage reads itself",
        "does not need it",
    );
    let text = r#"
[pipelines.ring]
request = "rank"
stages = [
    { name = "a", assemble = { columns = ["b"] } },
    { name = "b", assemble = { columns = ["c"] } },
    { name = "c", assemble = { columns = ["a"] } },
]
"#;
    let ring = plan(text, "ring").unwrap_err();
    let expected =
        "pipeline `ring`, stage `a`, key `assemble.columns`: it reads `b`, which needs `a`: a cycle";
    assert!(ring.starts_with(expected), "{ring}");
}

#[test]
fn unused_stages_and_a_missing_model_are_refused() {
    check_stage(
        "\"user_vec\", \"genre_vec\"",
        "\"user_vec\"",
        "stage `genre_vec`",
        "no later stage reads it",
        "use it or remove it",
    );
    check_stage(
        "[[pipelines.rank.stages]]\nname = \"scores\"\nmodel = { model = \"ranker\", input = \"x\" }",
        "",
        "stage `x`",
        "the last stage is not a model",
        "add a last stage with model",
    );
}

#[test]
fn a_stage_may_read_a_model() {
    let early = RANK.replacen(
        "[[pipelines.rank.stages]]\nname = \"x\"",
        "[[pipelines.rank.stages]]\nname = \"early\"\nmodel = { model = \"first\", input = \"item_vec\" }\n[[pipelines.rank.stages]]\nname = \"x\"",
        1,
    );
    let read = early.replacen("\"item_vec\", \"history_vec\"]", "\"early\", \"history_vec\"]", 1);
    let plan_of = |text: &str| plan(text, "rank");
    let planned = plan_of(&read).unwrap();
    let kinds: Vec<Kind> = planned.stages[9..].iter().map(|stage| stage.gives.kind).collect();
    assert_eq!(kinds, [Kind::Floats, Kind::Floats, Kind::Scores]);
    let models: Vec<&str> = planned
        .names()
        .filter(|(_, name)| name.section == "models")
        .map(|(_, name)| name.name)
        .collect();
    assert_eq!(models, ["first", "ranker"]);
    assert!(
        plan_of(&early)
            .unwrap_err()
            .contains("stage `early`: no later stage reads it")
    );
}

#[test]
fn rows_and_pools_must_fit() {
    check_stage(
        "pool = \"mean\"",
        "pool = \"none\"",
        "stage `history_vec`, key `lookup.pool`",
        "`history` gives several keys a row",
        "pool = \"mean\", \"sum\" or \"max\"",
    );
    check_stage(
        ", pool = \"sum\"",
        "",
        "stage `genre_vec`, key `lookup.pool`",
        "several keys",
        "pool = \"mean\"",
    );
    check_stage(
        "input = \"x\"",
        "input = \"user_vec\"",
        "stage `scores`, key `model.input`",
        "`user_vec` has one row, but a score is due for each",
        "assemble it with a column looked up for items",
    );
}

#[test]
fn requests_hold_only_what_their_kind_has() {
    check_stage(
        "from = \"items\"",
        "from = \"samples.0\"",
        "stage `item_keys`, key `hash.from`",
        "`samples.0` is not in the request",
        "user.FIELD or items",
    );
    check_stage(
        "from = \"items\"",
        "from = \"samples.64\"",
        "stage `item_keys`, key `hash.from`",
        "does not name one string of a sample",
        "J from 0 to 63",
    );
    check_stage(
        "request = \"rank\"",
        "request = \"samples\"",
        "stage `user_key`, key `hash.from`",
        "`user.id` is not in the request",
        "write samples.J, or set request = \"rank\"",
    );
    check_stage(
        "from = \"items\" }",
        "from = \"items\", split = \"|\" }",
        "stage `item_keys`, key `hash.split`",
        "`items` is not split",
        "only user.FIELD",
    );
    check_stage(
        "split = \"|\"",
        "split = \"\"",
        "stage `genre_keys`, key `hash.split`",
        "it is empty",
        "leave it out",
    );
}

#[test]
fn scans_are_bounded() {
    let place = "stage `events`, key `scan.limit`";
    check_stage(
        "limit = 50",
        "limit = 0",
        place,
        "it is 0",
        "a number from 1 to 10000",
    );
    check_stage(
        "limit = 50",
        "limit = 10001",
        place,
        "it is 10001",
        "a number from 1 to 10000",
    );
    let place = "stage `events`, key `scan.prefix`";
    check_stage("u/{user.id}/", "", place, "read the whole store", "u/{user.id}/");
    check_stage(
        "u/{user.id}/",
        "u/{id}/",
        place,
        "`{id}` in `u/{id}/` is no field of the request",
        "{user.FIELD}",
    );
    check_stage(
        "u/{user.id}/",
        "u/{inputs.user}/",
        place,
        "no stage is called `inputs.user`",
        "",
    );
    check_stage(
        "store = \"events\"",
        "store = \"\"",
        "stage `events`, key `scan.store`",
        "it is empty",
        "the name it has",
    );
    let samples = r#"
[pipelines.s]
request = "samples"
stages = [{ name = "events", scan = { store = "events", prefix = "a", limit = 1 } }]
"#;
    let refused = plan(samples, "s").unwrap_err();
    assert!(
        refused.contains("pipeline `s`, stage `events`, key `scan`: a request of samples has no user"),
        "{refused}"
    );
}

/// Computed apart from this code, by an implementation that agrees with FNV-1a's published vectors.
#[test]
fn keys_are_hashed_as_everywhere_else() {
    let check = |slot: &str, value: &str, expected: u64| assert_eq!(key_hash(slot, value), expected);
    check("", "", 0xaf63_bd4c_8601_b7df);
    check("user", "1", 0xf88c_16aa_7580_f4e5);
    check("film", "Ünï", 0xbd56_fa24_9d1a_14a2);
}
