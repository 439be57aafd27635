//! Tests of templates: what each text renders to, and what is refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::{Keys, Popularity, Sizes};
use proptest::prelude::*;

fn render(text: &str) -> String {
    let template = Template::parse(text).unwrap();
    let mut keys = Keys::new(1_000, &Popularity::Uniform).unwrap();
    let sizes = Sizes::Constant(12);
    let mut draw = Draw::new(1, &mut keys, &sizes);
    draw.begin(7, false);
    let mut out = Vec::new();
    template.render(&mut draw, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn placeholders_are_filled_and_share_their_keys() {
    let key: u64 = render("{key}").parse().unwrap();
    assert_eq!(render("/k/{key:08}?{key}"), format!("/k/{key:08}?{key}"));
    let keys = render("{keys 3}");
    let parts: Vec<&str> = keys.split(' ').collect();
    assert_eq!((parts.len(), parts[0]), (3, key.to_string().as_str()));
    assert_eq!(render("{keys 3 ,}"), parts.join(","));
    assert_eq!(render("k{keys 3  k}"), format!("k{}", parts.join(" k")));
    assert_eq!(
        render(r#"["{keys 2 ","}"]"#),
        format!("[\"{}\"]", parts[..2].join("\",\""))
    );
    assert!(render("{keys:06 2}").starts_with(&format!("{key:06} ")));
    assert_eq!(render("{seq} {seq:03}"), "7 007");
    let mut value = Vec::new();
    value_of(1, key, &Sizes::Constant(12), &mut value);
    assert_eq!(render("{value}").as_bytes(), value);
    let random: i64 = render("{random -5 5}").parse().unwrap();
    assert!((-5..=5).contains(&random));
    assert_eq!(render("{random 3 3}{random -2 -2}"), "3-2");
    render("{random -9223372036854775808 9223372036854775807}");
}

#[test]
fn a_repeat_has_a_key_a_pass_and_its_texts_in_turn() {
    let keys = render("{keys 3}");
    let keys: Vec<u64> = keys.split(' ').map(|key| key.parse().unwrap()).collect();
    let value = |key: u64| {
        let mut value = Vec::new();
        value_of(1, key, &Sizes::Constant(12), &mut value);
        String::from_utf8(value).unwrap()
    };
    let text = r#"{"operations":[{repeat 3 ,}["get","{key:022}"]{or}["put","{key:022}","{value}"]{end}]}"#;
    let expected = format!(
        r#"{{"operations":[["get","{:022}"],["put","{:022}","{}"],["get","{:022}"]]}}"#,
        keys[0],
        keys[1],
        value(keys[1]),
        keys[2]
    );
    assert_eq!(render(text), expected);
    let after = render("{key} {repeat 2}{seq}{end} {value}");
    assert_eq!(
        after,
        format!("{} 7 7 {}", keys[0], value(keys[0])),
        "outside of it the first key stands"
    );
    let template = Template::parse(text).unwrap();
    assert_eq!(
        (
            template.keys_each(),
            template.has_value(),
            template.has_value_of_first()
        ),
        (3, true, false)
    );
}

#[test]
fn a_repeat_that_cannot_be_meant_is_refused() {
    let said = |text: &str| Template::parse(text).unwrap_err().to_string();
    assert!(said("{repeat 3}x").contains("its {end} is missing"));
    assert!(said("x{end}").contains("no {repeat 100} before it"));
    assert!(said("x{or}y").contains("no {repeat 100} before it"));
    assert!(said("{repeat 3}{end}").contains("nothing stands before it"));
    assert!(said("{repeat 3}a{or}{end}").contains("nothing stands before it"));
    assert!(said("{repeat 3}{repeat 2}a{end}{end}").contains("stands in another one"));
    assert!(said("{repeat 3}{keys 2}{end}").contains("write {key} in it"));
    assert!(said("{repeat}a{end}").contains("1 to 100000"));
    assert!(said("{repeat 0}a{end}").contains("1 to 100000"));
    assert!(said("{repeat 2}a{end 2}").contains("takes no argument"));
}

/// A row holds any bytes, and is one word all the same.
#[test]
fn a_row_is_rendered_as_one_word() {
    let rows = crate::RandomRows { seed: 7, dim: 10 };
    let (sizes, template) = (Sizes::Rows(rows), Template::parse("SET {key} {value}").unwrap());
    let mut escaped = 0;
    for key in 0..200 {
        let mut draw = Draw::given(1, &sizes);
        draw.begin_with(0, key..key + 1);
        let mut out = Vec::new();
        template.render(&mut draw, &mut out);
        let words: Vec<&[u8]> = out.split(u8::is_ascii_whitespace).collect();
        assert_eq!((words.len(), words[0]), (3, &b"SET"[..]), "key {key}");
        let (mut row, mut at, mut expected) = (Vec::new(), 0, Vec::new());
        while let Some(&byte) = words[2].get(at) {
            let is_escape = byte == b'\\';
            let hex = words[2]
                .get(at + 2..at + 4)
                .map(|hex| String::from_utf8_lossy(hex).into_owned());
            row.push(match (is_escape, hex) {
                (true, Some(hex)) => u8::from_str_radix(&hex, 16).unwrap(),
                _ => byte,
            });
            at += if is_escape { 4 } else { 1 };
            escaped += usize::from(is_escape);
        }
        rows.write(key, &mut expected);
        assert_eq!(row, expected, "key {key}");
    }
    assert!(escaped > 20, "{escaped}");
}

#[test]
fn braces_that_begin_no_placeholder_stand() {
    for text in [
        "",
        "plain",
        r#"{"a":{"b":{}}}"#,
        r#"{"key":1}"#,
        "{ key }",
        "{Name}",
        "{Key\":1}",
        "{key_of 1}",
        "{key1}",
        "{keyed:1}",
        "}}}",
        "{",
        "a}b{",
        "{1}",
        "if(x){y;}",
    ] {
        assert_eq!(render(text), text);
    }
    let key = render("{key}");
    assert_eq!(
        render(r#"{"a":{"b":{key}}}"#),
        format!(r#"{{"a":{{"b":{key}}}}}"#)
    );
    assert_eq!(render(r#"{"a":"{key}"}"#), format!(r#"{{"a":"{key}"}}"#));
}

#[test]
fn doubled_braces_are_literal() {
    let key = render("{key}");
    assert_eq!(render("{{key}}"), "{key}");
    assert_eq!(render("{{{key}}}"), format!("{{{key}}}"));
    assert_eq!(render("{{any}} {{}}"), "{any} {}");
    assert_eq!(render(r#"{{"a":{{"b":1}}}}"#), r#"{"a":{"b":1}}"#);
    assert_eq!(render(r#"{{x {"a":{"b":1}} y}}"#), r#"{x {"a":{"b":1}} y}"#);
}

#[test]
fn misspelt_and_misused_placeholders_are_refused() {
    let check = |text: &str, expected: &str| {
        let said = Template::parse(text).expect_err("refused").to_string();
        assert!(said.contains(expected), "{text}: {said}");
    };
    check(
        "{kye}",
        "`{kye}`: there is none of that name; did you mean {key}?",
    );
    check("{kye}", "Write {{kye}} for the text itself");
    check("x {vlaue}", "did you mean {value}?");
    check("{sequence}", "did you mean {seq}?");
    check("{keys}", "needs a number of keys");
    check("{keys 0}", "1 to 100000");
    check("{keys 100001}", "1 to 100000");
    check("{keys x}", "1 to 100000");
    check("{key 5}", "write {keys 5}");
    check("{key:8}", "as in {key:08}");
    check("{key:099}", "1 to 32");
    check("{key: 1}", "as in {key:08}");
    check("{value 3}", "takes no argument");
    check("{seq 3}", "takes no argument");
    check("{random}", "two whole numbers");
    check("{random 1}", "two whole numbers");
    check("{random 5 1}", "must not be above");
    check("{random:03 1 5}", "two whole numbers");
    check("get {key 1", "its closing } is missing");
    check("get {keys 1", "its closing } is missing");
    check("get {key", "its closing } is missing");
    check("GET /items/{key/reviews", "its closing } is missing");
    check("{\"id\":\"{key\",\"n\":1}", "its closing } is missing");
    check("{key, {seq}", "its closing } is missing");
    check(
        "/k/{Key}",
        "`{Key}`: there is none of that name; did you mean {key}?",
    );
    check("{KEYS 5}", "did you mean {keys}?");
    check("{Seq:08}", "did you mean {seq}?");
    check("{Vlue}", "did you mean {value}?");
}

#[test]
fn a_template_tells_what_it_asks_for() {
    let asks = |text: &str| {
        let template = Template::parse(text).unwrap();
        (template.keys_each(), template.has_value())
    };
    assert_eq!(asks("plain {seq}"), (0, false));
    assert_eq!(asks("{key} {value}"), (1, true));
    assert_eq!(asks("{keys 3} {keys 9} {key}"), (9, false));
}

proptest! {
    /// Nested JSON without bare words in braces comes out as it went in.
    #[test]
    fn json_stands_as_it_is(depth in 0usize..20, text in "[a-z {}:]{0,8}") {
        let text = serde_json::to_string(&text.replace("{", "{ ").replace("}", " ")).unwrap();
        let json = format!("{}{text}{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        prop_assert_eq!(render(&json), json);
    }

    /// Any text parses or is refused; it never panics.
    #[test]
    fn any_text_is_parsed_or_refused(text in "[{}kesyvalu:0 1,é]{0,30}") {
        if let Ok(template) = Template::parse(&text) {
            prop_assert!(template.keys_each() <= KEYS_EACH_MAX);
        }
    }
}
