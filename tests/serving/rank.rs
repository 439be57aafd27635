//! `rank` through every engine: events, table, model.

use crate::harness::{Http, Millpond, R1, r1_folder, row};
use serde_json::{Value, json};

pub(crate) const RANK: &str = r#"
[pipelines.rank]
request = "rank"
stages = [
    { name = "recent", scan = { store = "events", prefix = "u/{user.id}/", limit = 3 } },
    { name = "recent_keys", hash = { slot = "0", from = "recent" } },
    { name = "items_keys", hash = { slot = "1", from = "items" } },
    { name = "recent_vec", lookup = { table = "embeddings", keys = "recent_keys", pool = "mean" } },
    { name = "item_vecs", lookup = { table = "embeddings", keys = "items_keys" } },
    { name = "x", assemble = { columns = ["recent_vec", "item_vecs"] } },
    { name = "scores", model = { model = "mlp", input = "x" } },
]
"#;

fn server() -> (tempfile::TempDir, Millpond) {
    let folder = r1_folder();
    std::fs::write(folder.path().join("millpond.toml"), format!("{R1}{RANK}")).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

#[test]
fn the_newest_events_and_the_items_make_the_scores() {
    let (_folder, server) = server();
    let mut http = Http::connect(&server.addr);
    // Keys count down in time: 0 is the newest. Only the newest three count.
    let entries: Vec<[String; 2]> = (0..5)
        .map(|age| [format!("u/7/{age:03}"), format!("v{}", age * 10)])
        .collect();
    let (status, answer) = http.call("ordered.put", &json!({"table": "events", "entries": entries}));
    assert_eq!(
        (status, answer["durability"].as_str()),
        (200, Some("synced")),
        "{answer}"
    );
    let items = ["v3", "v8", "v55"];
    let (status, ranked) = http.call("rank", &json!({"user": {"id": 7}, "items": items}));
    assert_eq!(status, 200, "{ranked}");
    let newest: Vec<Vec<f32>> = [0, 10, 20].iter().map(|id| row("0", *id)).collect();
    let mean: Vec<f32> = (0..8)
        .map(|column| newest.iter().map(|row| row[column]).sum::<f32>() / 3.0)
        .collect();
    let x: Vec<f32> = [3, 8, 55]
        .iter()
        .flat_map(|id| [mean.clone(), row("1", *id)].concat())
        .collect();
    let (_, direct) = http.call(
        "infer",
        &json!({"inputs": {"x": {"shape": [3, 16], "type": "f32", "data": x}}}),
    );
    let expected = direct["outputs"].as_object().unwrap().values().next().unwrap()["data"]
        .as_array()
        .unwrap()
        .clone();
    for (found, expected) in ranked["scores"].as_array().unwrap().iter().zip(&expected) {
        assert!(
            (found.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-5,
            "{ranked} {direct}"
        );
    }
    assert_eq!(
        (&ranked["model"], &ranked["versions"]),
        (&json!("mlp"), &json!({"embeddings": 1}))
    );
    let (_, top) = http.call("rank", &json!({"user": {"id": "7"}, "items": items, "top": 2}));
    let scores: Vec<f64> = top["scores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|score| score.as_f64().unwrap())
        .collect();
    assert!(scores.len() == 2 && scores[0] >= scores[1], "{top}");
}

#[test]
fn no_items_are_no_work() {
    let (_folder, server) = server();
    let (status, ranked) = server.call("rank", &json!({"user": {"id": 7}, "items": []}));
    let expected = json!({"items": [], "scores": [], "model": "mlp", "versions": {"embeddings": 1}});
    assert_eq!((status, ranked), (200, expected));
}

#[test]
fn what_a_user_lacks_is_named() {
    let (_folder, server) = server();
    let check = |payload: Value, status: u16, words: &str| {
        let (found, answer) = server.call("rank", &payload);
        assert_eq!(found, status, "{answer}");
        assert!(answer["ex"].as_str().unwrap().contains(words), "{answer}");
    };
    check(
        json!({"user": {}, "items": ["v1"]}),
        400,
        "\"user.id\" is missing",
    );
    check(json!({"items": ["v1"]}), 400, "\"user\" is missing");
    check(
        json!({"user": {"id": [1, 2]}, "items": ["v1"]}),
        400,
        "\"user.id\" is an array; expected text or an integer",
    );
    check(json!({"user": {"id": 1}, "items": [1.5]}), 400, "items[0]");
    check(
        json!({"pipeline": "nope", "user": {}, "items": []}),
        404,
        "no pipeline \"nope\"",
    );
    check(
        json!({"pipeline": "r1", "user": {"id": 1}, "items": ["v1"]}),
        400,
        "takes samples",
    );
}

/// An item's row is 64 bytes, and the item itself is kept for the answer.
#[test]
fn the_bytes_of_the_items_count_for_what_may_be_held() {
    let folder = r1_folder();
    std::fs::write(folder.path().join("millpond.toml"), format!("{R1}{RANK}")).unwrap();
    let server = Millpond::start(folder.path(), &["models.mlp.queue_bytes_max=2000"]);
    let rank = |items: &[&str]| server.call("rank", &json!({"user": {"id": 7}, "items": items}));
    let long = "v".repeat(1500);
    assert_eq!(rank(&[&long]).0, 200);
    assert_eq!(rank(&["v1", "v2"]).0, 200);
    let (status, answer) = rank(&[&long, &long]);
    assert_eq!((status, answer["code"].as_u64()), (413, Some(30110)), "{answer}");
}
