//! A folder that looks to a command like the root of the repository, with `millpond` in its path, small data, and free ports in
//! the place of those that are written.
//!
//! `millpond` there is a script that makes loads short and writes down how each command ended. Its invariant: nothing outside of
//! the folder is written, and no process outlives it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::root;
use super::short::{SHORT, SHORT_SEARCH};
use crate::harness::{Millpond, R1, data, make_table};
use crate::press::recipes::free_port;
use crate::serving::rank::RANK;

/// Ports that files and commands name.
const PORTS: &[u16] = &[
    7070, 7071, 7072, 7073, 7074, 7075, 7076, 7077, 7391, 7392, 13500, 13503, 13510, 13511, 13512, 13520,
    13530, 13531, 13540, 13541, 13549, 13550, 13551, 13560, 13561, 13562, 13563, 13564, 13565, 13566, 13567,
    13568, 13569, 13570, 13571, 13572, 13573, 13574, 13575, 13590, 13591, 13592, 13593, 13594,
];

/// What stands before a port of this machine.
const HOSTS: &[&str] = &["127.0.0.1:", "localhost:", "[::1]:", "0.0.0.0:", "[::]:"];

/// Addresses of this machine with a port that is not ours, and not for the system to choose: other programs may have it.
fn strange_ports(text: &str, is_ours: impl Fn(u16) -> bool) -> Vec<&str> {
    let found = HOSTS.iter().flat_map(|host| {
        let places = text.match_indices(host);
        places.map(move |(at, host)| &text[at..at + host.len() + digits(&text[at + host.len()..])])
    });
    let port = |address: &str| {
        address
            .rsplit(':')
            .next()
            .and_then(|port| port.parse::<u16>().ok())
    };
    found
        .filter(|address| port(address).is_some_and(|port| port != 0 && !is_ours(port)))
        .collect()
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[test]
fn ports_of_this_machine_are_seen() {
    let strange = |text| strange_ports(text, |port| port == 7);
    assert_eq!(
        strange("curl localhost:13500/x 127.0.0.1:7 [::1]:0"),
        ["localhost:13500"]
    );
    assert_eq!(
        strange("listen = \"0.0.0.0:80\" # localhost: no port"),
        ["0.0.0.0:80"]
    );
}

pub(super) fn bash(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Where a library has no GPU, the rows that want one say so, and what to install.
fn check_left_out(result: &Value) {
    for left in result["left_out"].as_array().into_iter().flatten() {
        let said = |part: &str| left["reason"].as_str().unwrap().contains(part);
        let wants_gpu = ["-cuda", "-tensorrt"]
            .iter()
            .any(|provider| left["target"].as_str().unwrap().ends_with(provider));
        let is_named = said("is not to be had from") && said("pip install onnxruntime-gpu");
        assert!(
            !wants_gpu || is_named || said("whose server it has was left out"),
            "{left}"
        );
    }
}

pub struct Place {
    folder: tempfile::TempDir,
    ports: BTreeMap<u16, u16>,
    server: RefCell<Option<Server>>,
}

enum Server {
    StandIn(#[allow(dead_code)] Millpond),
    Started(Child),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Server::Started(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What one `millpond press` came to.
#[derive(Debug)]
pub struct Pressed {
    pub code: i32,
    pub stderr: String,
    pub result: Value,
}

impl Place {
    /// Makes the folder; its name is told where something goes wrong.
    pub fn new(name: &str) -> Place {
        let folder = tempfile::Builder::new()
            .prefix(&format!("{}-", name.replace('/', "-")))
            .tempdir()
            .unwrap();
        let place = Place {
            folder,
            ports: PORTS.iter().map(|port| (*port, free_port())).collect(),
            server: RefCell::default(),
        };
        for folder in [
            "bin",
            "press/scenarios",
            "examples/torchpipe",
            ".demo/r1",
            ".demo/r4",
            ".demo/movielens",
            "press-results",
        ] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write_millpond();
        place.lay_programs();
        for entry in std::fs::read_dir(root().join("press/scenarios")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            // A table of a thousand rows for one of a million, two processes for a dozen.
            let text = text.replace("\"--rows\", \"1000000\"", "\"--rows\", \"2000\"");
            let text = text.replace("\"--processes\", \"12\"", "\"--processes\", \"2\"");
            let text = text.replace("instances = 10", "instances = 2");
            let name = path.file_name().unwrap().to_str().unwrap();
            place.write(&format!("press/scenarios/{name}"), &text);
        }
        let classify = include_str!("../../examples/torchpipe/classify.toml");
        place.write("examples/torchpipe/classify.toml", classify);
        place.write_engines();
        place
    }

    /// The programs of scenarios, with Millpond's Python package. No peer of theirs installs here.
    fn lay_programs(&self) {
        let peers =
            "import sys; sys.exit(0 if sys.argv[1] == 'millpond' else 'no peer is installed for a test')\n";
        for folder in ["press/programs", "client", "target/press-peers"] {
            std::fs::create_dir_all(self.path(folder)).unwrap();
        }
        for entry in std::fs::read_dir(root().join("press/programs")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let text = match name {
                "peers.py" => peers.to_owned(),
                name if name.ends_with(".py") => std::fs::read_to_string(&path).unwrap(),
                _ => continue,
            };
            std::fs::write(self.path(&format!("press/programs/{name}")), text).unwrap();
        }
        for (of, as_path) in [
            ("client/python", "client/python"),
            (".demo/venv", "target/press-peers/millpond"),
        ] {
            std::os::unix::fs::symlink(root().join(of), self.path(as_path)).unwrap();
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a text with this place's ports, and on any core: there may be no core 1.
    pub fn write(&self, path: &str, text: &str) {
        let text = text
            .replace("cpus = [0]", "cpus = []")
            .replace("cpus = [1]", "cpus = []");
        std::fs::write(self.path(path), self.with_ports(&text)).unwrap();
    }

    fn with_ports(&self, text: &str) -> String {
        let mut text = text.replace("unix:/run/millpond.sock", &self.socket());
        for (written, free) in &self.ports {
            for host in HOSTS {
                text = text.replace(&format!("{host}{written}"), &format!("{host}{free}"));
            }
            // As an argument of its own.
            text = text.replace(&format!("\"{written}\""), &format!("\"{free}\""));
        }
        let left = strange_ports(&text, |port| self.ports.values().any(|free| *free == port));
        assert!(
            left.is_empty(),
            "a port of this machine that is not in PORTS: {left:?} in\n{text}"
        );
        text
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.path("millpond.sock").display())
    }

    /// The script in the path.
    fn write_millpond(&self) {
        let sets = |pairs: &str| {
            let pairs = pairs.split_whitespace().map(|pair| format!("--set '{pair}'"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        let cases: String = SHORT
            .iter()
            .map(|(name, pairs)| match *name {
                "" => format!("*) short=({});;\n", sets(pairs)),
                name => format!("{name}) short=({});;\n", sets(pairs)),
            })
            .collect();
        let script = format!(
            "#!/bin/bash\nshort=()\ncase \"$1 $2\" in\n\
             \"press run\"|\"press search\")\n\
             case \"${{3##*/}}\" in\n{cases}esac\n\
             [[ $2 == search ]] && short+=({search})\n\
             [[ \" $* \" == *' --out '* ]] || short+=(--out \"press-results/$$\")\n\
             # A person takes longer to type a second line than a server to start.\n\
             if [[ ${{3##*/}} == attach.toml ]]; then\n\
             for _ in {{1..1000}}; do (exec 3<>/dev/tcp/127.0.0.1/{attached}) 2>/dev/null && break; sleep 0.02; done; fi;;\n\
             'press practice'|serve*) exec {program} \"$@\";;\n\
             call*) [[ \" $* \" == *' --addr '* ]] || short=(--addr 127.0.0.1:{port});;\n\
             esac\n{program} \"$@\" \"${{short[@]}}\"\ncode=$?\necho \"$code $*\" >> {codes}\nexit $code\n",
            search = sets(SHORT_SEARCH),
            attached = self.ports[&7074],
            port = self.ports[&13500],
            program = env!("CARGO_BIN_EXE_millpond"),
            codes = self.path("codes").display(),
        );
        std::fs::write(self.path("bin/millpond"), script).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path("bin/millpond"), all).unwrap();
    }

    /// What stands for the demo's server and for R1's: the same methods over a small table and a small model.
    fn write_engines(&self) {
        for folder in ["", ".demo/r1"] {
            let name = if folder.is_empty() {
                "millpond.toml"
            } else {
                "r1.toml"
            };
            let also = if folder.is_empty() {
                format!(
                    "listen = \"127.0.0.1:13500\"\nlisten_also = [\"{}\"]",
                    self.socket()
                )
            } else {
                "listen = \"127.0.0.1:13500\"".to_owned()
            };
            let text = format!("{R1}{RANK}")
                .replacen("listen = \"127.0.0.1:0\"", &also, 1)
                .replacen("listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:13590\"", 1);
            let text = match name {
                // What the scenarios call it.
                "r1.toml" => text
                    .replace("[models.mlp]", "[models.r1]")
                    .replace("model = \"mlp\"", "model = \"r1\""),
                _ => text,
            };
            let folder = Path::new(folder);
            self.write(folder.join(name).to_str().unwrap(), &text);
            let inside = self.folder.path().join(folder);
            std::fs::copy(data("mlp.onnx"), inside.join("mlp.onnx")).unwrap();
            make_table(&inside.join("tables/embeddings"), "embeddings", 1);
        }
    }

    /// The TOML blocks of a document, under the names its commands call them.
    pub fn write_tables(&self, document: &str) {
        for part in document.split("<!-- recipe: ").skip(1) {
            let (name, rest) = part.split_once(" -->\n```toml\n").unwrap();
            let (text, _) = rest.split_once("\n```\n").unwrap();
            self.write(&format!("{name}.toml"), text);
        }
        for block in document.split("```toml\n").skip(1) {
            let (text, _) = block.split_once("\n```\n").unwrap();
            if text.starts_with("[models.stand_in]") {
                let ports = "[server]\nlisten = \"127.0.0.1:13500\"\n[admin]\nlisten = \"127.0.0.1:13590\"\n";
                self.write("stand_in.toml", &format!("{ports}{text}\n"));
            }
        }
    }

    /// What a scenario finds running, and the requests that it reads from files.
    pub fn serve_for(&self, scenario: &str) {
        if scenario.starts_with("r4-") {
            return self.write_r4();
        }
        let is_attached = matches!(scenario, "movielens-rank.toml" | "r1-quick.toml");
        if !is_attached && !scenario.starts_with("r1-") {
            return;
        }
        let server = Millpond::start(self.folder.path(), &[]);
        let samples =
            |at: usize| json!({"samples": [[format!("v{at}"), "v1"], ["v2", format!("v{}", at + 1)]]});
        let rank = |at: usize| json!({"user": {"id": at}, "items": [format!("v{at}"), "v3", "v5"]});
        let write = |method: &str, requests: &str, expected: &str, body: &dyn Fn(usize) -> Value| {
            let (mut asked, mut answered) = (String::new(), String::new());
            for at in 0..20 {
                let (status, answer) = server.call(method, &body(at));
                assert_eq!(status, 200, "{answer}");
                asked += &format!("{}\n", body(at));
                answered += &format!("{}\n", json!({"scores": answer["scores"]}));
            }
            std::fs::write(self.path(requests), asked).unwrap();
            std::fs::write(self.path(expected), answered).unwrap();
        };
        write(
            "infer",
            ".demo/r1/requests.jsonl",
            ".demo/r1/expected.jsonl",
            &samples,
        );
        let folder = ".demo/movielens/press-";
        write(
            "rank",
            &format!("{folder}requests.jsonl"),
            &format!("{folder}expected.jsonl"),
            &rank,
        );
        if is_attached {
            *self.server.borrow_mut() = Some(Server::StandIn(server));
        }
    }

    /// Runs what is written, as it stands but for ports.
    pub fn run(&self, script: &str) {
        if script.starts_with("millpond serve") {
            return self.start(script);
        }
        let calls = script.starts_with("curl ") || script.starts_with("millpond call");
        if calls && self.server.borrow().is_none() {
            self.stand_in();
        }
        let done = self.bash(script).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let code = done.status.code();
        // A load that is this short may miss an SLO on a machine this busy; whether it ran is asked of its result.
        let is_press = script.contains("press run") || script.contains("press search");
        let may = if is_press { vec![0, 1, 3] } else { vec![0] };
        assert!(
            code.is_some_and(|code| may.contains(&code)),
            "{script}\nended with {code:?}\n{said}\n{}",
            String::from_utf8_lossy(&done.stdout)
        );
        let codes = std::fs::read_to_string(self.path("codes")).unwrap_or_default();
        assert!(
            !codes.lines().any(|line| line.starts_with("2 ")),
            "{script}\n{codes}\n{said}"
        );
    }

    /// `millpond press …` with these words.
    pub fn press(&self, words: &str) -> Pressed {
        let done = self.bash(&format!("millpond press {words}")).output().unwrap();
        let out = words.split_once("--out ").unwrap().1.split(' ').next().unwrap();
        let result = std::fs::read(self.path(out).join("result.json"));
        Pressed {
            code: done.status.code().unwrap(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
            result: result.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap()),
        }
    }

    fn bash(&self, script: &str) -> Command {
        let mut command = bash(self.folder.path(), &self.with_ports(script));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.envs(crate::harness::library().map(|library| ("ORT_DYLIB_PATH", library)));
        command
    }

    /// Starts the server that a command names, in the place of one that runs.
    fn start(&self, script: &str) {
        self.server.take();
        let command = script.split(['&', '#']).next().unwrap();
        let mut child = self.bash(&format!("exec {command}"));
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        *self.server.borrow_mut() = Some(Server::Started(child));
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.ports[&13500])).is_err() {
            assert!(Instant::now() < until, "{script} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The server that is called where a document starts none, with TLS where it made certificates.
    fn stand_in(&self) {
        let file = self.path("millpond.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        if self.path("server.pem").exists() && !text.contains("[server.tls]") {
            let tls = "[server.tls]\nlisten = \"127.0.0.1:13503\"\ncertificate = \"server.pem\"\nprivate_key = \"server.key\"\n";
            let text = text.replacen("[admin]", &format!("{tls}[admin]"), 1);
            std::fs::write(file, self.with_ports(&text)).unwrap();
        }
        *self.server.borrow_mut() = Some(Server::StandIn(Millpond::start(self.folder.path(), &[])));
    }

    /// Every run in here came to its end, and every answer in it was right.
    pub fn check_results(&self) {
        let codes = std::fs::read_to_string(self.path("codes")).unwrap_or_default();
        let is_run = |line: &&str| line.contains(" press run ") || line.contains(" press search ");
        let runs = codes.lines().filter(is_run).count();
        let folders = ["", "press-results"].into_iter();
        let results: Vec<PathBuf> = folders
            .flat_map(|folder| std::fs::read_dir(self.path(folder)).unwrap())
            .map(|entry| entry.unwrap().path().join("result.json"))
            .filter(|path| path.exists())
            .collect();
        assert_eq!(results.len(), runs, "{codes}{results:?}");
        for path in results {
            let result: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(
                result["state"],
                "complete",
                "{}: {}",
                path.display(),
                result["failure"]
            );
            check_left_out(&result);
            let points = result["points"].as_array().unwrap();
            assert!(!points.is_empty(), "{}", path.display());
            let mut answered: BTreeMap<String, u64> = BTreeMap::new();
            for point in points {
                let counters = &point["counters"];
                *answered.entry(point["target"]["name"].to_string()).or_default() +=
                    counters["ok"].as_u64().unwrap();
                // Where this machine stood still, answers came too late or not within so short a load.
                let mut errors = counters["errors"].as_object().unwrap().keys();
                assert!(
                    counters["wrong"] == 0 && errors.all(|kind| kind == "timeout"),
                    "{}: {} {counters}",
                    path.display(),
                    point["target"]
                );
            }
            assert!(
                answered.values().all(|ok| *ok > 0),
                "{}: {answered:?}",
                path.display()
            );
        }
    }
}
