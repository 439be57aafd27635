//! The recipes of docs/press.md, each run as it stands there but shorter and on ports of its own.
//! What is held against them is what the guide says and time does not change.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// What runs one recipe.
type Case = fn(&Recipe);

/// Every recipe of the guide by its name.
const CASES: &[(&str, Case)] = &[
    ("stall", stall),
    ("capacity", capacity),
    ("boost", boost),
    ("peers", peers),
    ("gate", gate),
    ("mix", mix),
    ("library", library),
    ("attach", attach),
    ("connections", connections),
    ("processes", processes),
];

/// A tenth of what a person would wait; every figure asserted here exists all the same.
const SHORT: [&str; 2] = ["load.duration_s=0.4", "load.warmup_s_max=0.2"];

#[test]
fn every_recipe_of_the_guide_does_what_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/press.md");
    let recipes = recipes(&std::fs::read_to_string(guide).unwrap());
    for (name, _) in CASES {
        assert!(
            recipes.iter().any(|(found, _)| found == name),
            "docs/press.md has no recipe {name:?}"
        );
    }
    std::thread::scope(|scope| {
        for (name, text) in &recipes {
            let case = CASES.iter().find(|(known, _)| known == name);
            let (_, case) =
                case.unwrap_or_else(|| panic!("recipe {name:?} of docs/press.md has no case here"));
            scope.spawn(move || case(&Recipe::new(name, text)));
        }
    });
}

/// The names and texts of all TOML blocks that follow a `<!-- recipe: NAME -->`.
fn recipes(guide: &str) -> Vec<(String, String)> {
    guide
        .split("<!-- recipe: ")
        .skip(1)
        .map(|part| {
            let (name, rest) = part.split_once(" -->\n```toml\n").unwrap();
            let (text, _) = rest.split_once("\n```\n").unwrap();
            (name.to_owned(), text.to_owned())
        })
        .collect()
}

/// Where the library of programs is.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../press/programs")
}

/// One recipe in a folder of its own.
struct Recipe {
    folder: tempfile::TempDir,
    file: PathBuf,
    /// The address that stands in it, or the first of several.
    address: String,
}

impl Recipe {
    /// Writes it down with free ports for those of the guide, and on any core: there may be no core 1.
    fn new(name: &str, text: &str) -> Recipe {
        let mut text = text
            .replace("cpus = [0]", "cpus = []")
            .replace("cpus = [1]", "cpus = []")
            .replace("\"press/programs\"", &format!("{:?}", programs()));
        let mut address = None;
        for port in 7070..7080 {
            let written = format!("127.0.0.1:{port}");
            if text.contains(&written) {
                let free = format!("127.0.0.1:{}", free_port());
                text = text.replace(&written, &free);
                address = address.or(Some(free));
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        Recipe {
            folder,
            file,
            address: address.unwrap_or_default(),
        }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `press run` or `press search` with overrides, into the folder `out`.
    fn press(&self, command: &str, out: &str, set: &[&str]) -> Run {
        let out = self.out(out);
        let (file, folder) = (self.file.to_str().unwrap(), out.to_str().unwrap());
        let mut arguments = vec!["press", command, file, "--quiet", "--out", folder];
        for pair in set {
            arguments.extend(["--set", *pair]);
        }
        let done = millpond(&arguments);
        let result = std::fs::read(out.join("result.json")).ok();
        Run {
            code: done.status.code(),
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
            result: result.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap()),
        }
    }

    /// A short `press run`.
    fn run(&self, out: &str, set: &[&str]) -> Run {
        self.press("run", out, &[&SHORT[..], set].concat())
    }
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    result: Value,
}

impl Run {
    fn points(&self) -> &Vec<Value> {
        self.result["points"].as_array().unwrap()
    }

    /// That so many points were run, each with right answers and nothing else.
    fn answered(&self, points: usize) {
        assert_eq!(self.points().len(), points, "{self:?}");
        for point in self.points() {
            let counters = &point["counters"];
            assert!(counters["ok"].as_u64().unwrap() > 0, "{point}");
            assert_eq!(counters["wrong"], 0, "{point}");
        }
    }
}

fn millpond(arguments: &[&str]) -> Output {
    crate::harness::millpond().args(arguments).output().unwrap()
}

/// A port nobody listens on, below those the system gives to connections, so that no test takes it meanwhile.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 1_000) as u16 * 10;
    (0..1_000)
        .map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a thousand ports in a row are taken")
}

/// The loops differ in kind, both answer, and the page of `press report` lays them over each other.
fn stall(recipe: &Recipe) {
    let closed = recipe.run("closed", &[]);
    assert_eq!(closed.code, Some(0), "{closed:?}");
    closed.answered(1);
    assert_eq!(closed.points()[0]["offered"]["kind"], "closed");
    let open = recipe.run("open", &["load.rate=[1000]"]);
    assert_eq!(open.code, Some(0), "{open:?}");
    open.answered(1);
    assert_eq!(open.points()[0]["offered"]["kind"], "open");

    let (page, closed, open) = (recipe.out("page.html"), recipe.out("closed"), recipe.out("open"));
    let paths = [&closed, &open, &page].map(|path| path.to_str().unwrap());
    let drawn = millpond(&["press", "report", paths[0], paths[1], "--html", paths[2]]);
    assert_eq!(drawn.status.code(), Some(0), "{drawn:?}");
    assert!(
        String::from_utf8_lossy(&drawn.stderr).contains(paths[2]),
        "{drawn:?}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("2 runs"), "{page}");
    assert!(!page.contains("<script"), "the page runs a script");
}

/// A search of a server that serves 5000 a second names a rate that met its SLO and one that missed it. The SLO is loose and
/// the steps are coarse: how exact the answer is depends on the machine, that there is one does not.
fn capacity(recipe: &Recipe) {
    let found = recipe.press(
        "search",
        "capacity",
        &[
            "slo=p50 < 250ms",
            "search.rate_start=4000",
            "search.rate_max=64000",
            "search.point_s=0.3",
            "search.repeats=1",
            "search.resolution=0.5",
        ],
    );
    // 3: the machine was too busy to believe it.
    assert!(matches!(found.code, Some(0 | 3)), "{found:?}");
    let search = &found.result["search"];
    let (met, missed) = (search["rate_met"].as_f64(), search["rate_missed"].as_f64());
    assert!(met.is_some() && missed.is_some() && met < missed, "{search}");
    assert_eq!(search["tried"].as_array().unwrap().len(), found.points().len());
    for words in [
        "practice meets",
        "Highest rate that met it",
        "Lowest rate that missed it",
    ] {
        assert!(
            found.stdout.contains(words),
            "{words:?} is not in {}",
            found.stdout
        );
    }
}

/// The rate rises on the same connections until one is too high, and that is no failure. The SLO is loose, so that only the
/// rate that the server cannot serve misses it.
fn boost(recipe: &Recipe) {
    let run = recipe.run("boost", &["slo=p50 < 100ms", "load.duration_s=1"]);
    // 3: the machine was too busy to tell.
    assert!(matches!(run.code, Some(0 | 3)), "{run:?}");
    let points = run.points();
    let rates: Vec<u64> = points
        .iter()
        .map(|point| point["offered"]["rate"].as_f64().unwrap().round() as u64)
        .collect();
    assert!([1_000, 1_429, 2_500, 10_000].starts_with(&rates), "{rates:?}");
    let met: Vec<bool> = points
        .iter()
        .map(|point| point["slo"]["met"].as_bool().unwrap())
        .collect();
    assert!(met[0] && met.len() >= 2, "{met:?}");
    let last = met.len() - 1;
    assert!(met[..last].iter().all(|met| *met) && !met[last], "{met:?}");
    for point in points {
        assert_eq!(point["held"]["opened"], 100, "{point}");
        assert!(point["held"]["connect_us_min"].as_f64().unwrap() > 0.0);
    }
    assert!(run.stdout.contains("mean response (usec)"), "{}", run.stdout);
    let rows = std::fs::read_to_string(recipe.out("boost").join("controller.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1 + points.len(), "{rows}");
    assert!(rows.starts_with("Record time (UTC),UTC Minute,Second,Stress Connection Count,"));
}

/// Two targets in turns, and the second held against the first.
fn peers(recipe: &Recipe) {
    let run = recipe.run("peers", &["scenario.repeats=2"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(4);
    let order: Vec<&str> = run
        .points()
        .iter()
        .map(|point| point["target"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["twenty", "forty", "forty", "twenty"]);
    let compared = run.result["comparisons"].as_array().unwrap();
    let qps = compared.iter().find(|one| one["figure"] == "qps").unwrap();
    assert_eq!(qps["target"], "forty");
    assert_eq!(qps["baseline"], "twenty");
    assert_eq!(qps["ratio"]["n"], 2);
    assert!(run.stdout.contains("qps ratio"), "{}", run.stdout);
}

/// The exit codes: 0, or 3 if the machine was too busy to believe it; 1 for a missed SLO (3 too, if the machine was too busy to blame the server); 2 for a wrong key; 3 for no server.
fn gate(recipe: &Recipe) {
    let met = recipe.run("gate", &["slo=max < 60s"]);
    met.answered(1);
    assert_eq!(met.points()[0]["slo"]["met"], true, "{met:?}");
    let judged = |run: &Run| {
        run.points()[0]["verdict"]["judgement"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let is_believed = matches!(judged(&met).as_str(), "VALID" | "ENV-DRIFT");
    assert_eq!(met.code, Some(if is_believed { 0 } else { 3 }), "{met:?}");

    let missed = recipe.run("strict", &["slo=p50 < 0.001us"]);
    let is_the_servers = matches!(judged(&missed).as_str(), "VALID" | "UNSTABLE");
    assert_eq!(
        missed.code,
        Some(if is_the_servers { 1 } else { 3 }),
        "{missed:?}"
    );
    assert!(missed.stdout.contains("## The SLO"), "{}", missed.stdout);

    let wrong = recipe.run("wrong", &["load.rat=[1]"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("did you mean `rate`"), "{}", wrong.stderr);

    let absent = recipe.run("absent", &["server.command=[\"false\"]"]);
    assert_eq!(absent.code, Some(3), "{absent:?}");
}

/// Both operations answer, because every key was filled.
fn mix(recipe: &Recipe) {
    let run = recipe.run("mix", &["keys.count=2000", "requests.count=2000"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(1);
    let operations = run.points()[0]["operations"].as_array().unwrap();
    let names: Vec<&str> = operations
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["read", "write"]);
    for operation in operations {
        assert!(operation["answers"].as_u64().unwrap() > 0, "{operation}");
        assert_eq!(operation["failed"], 0, "{operation}");
    }
}

/// A program that makes its calls itself, in threads and in processes.
fn library(recipe: &Recipe) {
    let run = recipe.run("library", &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(4);
    let rows = [
        "| threads | 1 |",
        "| threads | 2 |",
        "| processes | 1 |",
        "| processes | 2 |",
    ];
    let printed: String = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(rows.iter().all(|row| printed.contains(row)), "{printed}");
}

/// A server that the run did not start is watched by its process number.
fn attach(recipe: &Recipe) {
    let server = Practice::start(&recipe.address);
    let pid = format!("target.server_pid={}", server.0.id());
    let run = recipe.run("attach", &[pid.as_str()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(1);
    let point = &run.points()[0];
    assert_eq!(point["server"]["pid"], server.0.id(), "{point}");
    assert!(!point["server_cpu"].is_null(), "{point}");
    drop(server);
    let absent = recipe.run("absent", &[]);
    assert_eq!(absent.code, Some(3), "{absent:?}");
}

/// Connections come from both addresses, and all of them are opened.
fn connections(recipe: &Recipe) {
    let run = recipe.run("connections", &["load.connections=[50]"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(1);
    assert_eq!(run.points()[0]["counters"]["connections_failed"], 0);
}

/// All connections are opened, whichever process they are in.
fn processes(recipe: &Recipe) {
    let run = recipe.run("processes", &["load.connections=[50]"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.answered(1);
    let counters = &run.points()[0]["counters"];
    assert_eq!(
        (&counters["connections_opened"], &counters["connections_failed"]),
        (&50.into(), &0.into())
    );
}

/// A practice server; dropping it kills it.
struct Practice(Child);

impl Practice {
    /// Starts it and waits until it says that it listens.
    fn start(address: &str) -> Practice {
        let mut child = crate::harness::millpond()
            .args(["press", "practice", "--listen", address, "--work", "30us"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let started = Practice(child);
        assert!(line.contains(address), "{line}");
        started
    }
}

impl Drop for Practice {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
