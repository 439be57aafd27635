//! Twenty SIGKILLs at seeded moments under load: nothing that was acknowledged is lost, and no put is torn.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const KILLS: u64 = 20;
const WRITERS: usize = 4;
const SEED: u64 = 0x6d69_6c6c_706f_6e64;

/// Three keys of one put: all of them or none.
fn entries(writer: usize, number: usize) -> Vec<[String; 2]> {
    (0..3)
        .map(|part| {
            [
                format!("{writer}/{number:08}/{part}"),
                format!("value {writer} {number} {part}"),
            ]
        })
        .collect()
}

/// Puts until the server dies; returns the first number not yet tried. Acknowledged numbers go to `acknowledged`.
fn write(
    mut http: Http,
    writer: usize,
    from: usize,
    acknowledged: &Mutex<Vec<(usize, usize)>>,
    count: &AtomicUsize,
) -> usize {
    use std::io::Write as _;
    for number in from.. {
        let body = json!({"entries": entries(writer, number)}).to_string();
        let request = format!(
            "POST /service/ordered.put HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if http.stream.write_all(request.as_bytes()).is_err() {
            return number + 1;
        }
        match http.answer() {
            Some((200, _)) => {
                acknowledged.lock().unwrap().push((writer, number));
                count.fetch_add(1, Ordering::SeqCst);
            }
            Some((status, text)) => panic!("a put was refused: {status} {text}"),
            None => return number + 1,
        }
    }
    unreachable!()
}

fn check(server: &Millpond, acknowledged: &[(usize, usize)], tried: &[usize]) {
    let mut http = Http::connect(&server.addr);
    let mut values = |keys: Vec<String>| -> Vec<Value> {
        let (status, answer) = http.call("ordered.get", &json!({"keys": keys}));
        assert_eq!(status, 200, "{answer}");
        answer["values"].as_array().unwrap().clone()
    };
    for chunk in acknowledged.chunks(300) {
        let all: Vec<[String; 2]> = chunk
            .iter()
            .flat_map(|(writer, number)| entries(*writer, *number))
            .collect();
        let found = values(all.iter().map(|[key, _]| key.clone()).collect());
        for ([key, value], found) in all.iter().zip(found) {
            assert_eq!(
                found,
                json!(value.as_bytes()),
                "{key} was acknowledged and is lost (seed {SEED:#x})"
            );
        }
    }
    // The last put of each writer may or may not be there, but never in part.
    for (writer, next) in tried.iter().enumerate() {
        let keys = entries(writer, next - 1)
            .into_iter()
            .map(|[key, _]| key)
            .collect();
        let there = values(keys).iter().filter(|value| !value.is_null()).count();
        assert!(there == 0 || there == 3, "a put is there in part: {there} of 3");
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let folder = r1_folder();
    let acknowledged = Mutex::new(Vec::new());
    let mut next = [0; WRITERS];
    let mut random = SEED;
    for _ in 0..KILLS {
        let mut server = Millpond::start(folder.path(), &[]);
        if next[0] > 0 {
            check(&server, &acknowledged.lock().unwrap(), &next);
        }
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let until = 1 + (random >> 33) as usize % 120;
        let count = AtomicUsize::new(0);
        // Connected before the first one puts: the kill may come before the last one has begun.
        let connections: Vec<Http> = (0..WRITERS).map(|_| Http::connect(&server.addr)).collect();
        next = std::thread::scope(|scope| {
            let writers: Vec<_> = connections
                .into_iter()
                .enumerate()
                .map(|(writer, http)| {
                    let (acknowledged, count, from) = (&acknowledged, &count, next[writer]);
                    scope.spawn(move || write(http, writer, from, acknowledged, count))
                })
                .collect();
            while count.load(Ordering::SeqCst) < until {
                std::thread::yield_now();
            }
            server.child.kill().unwrap();
            let mut next = [0; WRITERS];
            for (writer, handle) in writers.into_iter().enumerate() {
                next[writer] = handle.join().unwrap();
            }
            next
        });
        server.child.wait().unwrap();
    }
    let server = Millpond::start(folder.path(), &[]);
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() as u64 >= KILLS);
    check(&server, &acknowledged, &next);
}
