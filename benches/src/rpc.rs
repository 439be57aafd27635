//! A Millpond server with methods of its own, a bare echo server, and points of load on either.
//!
//! Both run on the server's core, the press on the client's. Its invariant: a point that comes back had no wrong answer, no
//! refusal and no error.

use crate::cores;
use crate::practice;
use crate::report::Report;
use crate::server::{Server, terminate};
use crate::setup::Setup;
use crate::steal::undisturbed;
use anyhow::{Context as _, bail, ensure};
use millpond_press_report::Point;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The server: one net thread, `echo`, and FPNN's "two way demo" with its answer.
const CONFIG: &str = "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\ncpus = [0]\n\
                      [admin]\nlisten = \"127.0.0.1:0\"\n\
                      [methods.echo]\nkind = \"echo\"\n\
                      [methods.\"two way demo\"]\nanswer = { Simple = \"one\", Simple2 = 2 }\n";

/// Its TLS port, where it has one.
const TLS_CONFIG: &str =
    "[server.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"rpc-tls.pem\"\nprivate_key = \"rpc-tls.key\"\n";
/// The name in its certificate.
const TLS_NAME: &str = "localhost";

/// A payload of 32 bytes as msgpack.
pub(crate) const PAYLOAD: &str = "{\"payload\":\"abcdefghijklmnopqrstuv\"}";
/// The payload of FPNN's "two way demo", 145 bytes with its header.
pub(crate) const DEMO: &str = "{\"quest\":\"one\",\"int\":2,\"double\":3.3,\"boolean\":true,\"ARRAY\":[\"first_vec\",4],\
                               \"MAP\":{\"map1\":\"first_map\",\"map2\":true,\"map3\":5,\"map4\":5.7,\"map5\":\"中文\"}}";

/// Starts the server.
pub(crate) fn start(setup: &Setup) -> anyhow::Result<Server> {
    start_with(setup, "rpc", &[])
}

/// Starts it with some keys set; `name` is its log's.
pub(crate) fn start_with(setup: &Setup, name: &str, set: &[&str]) -> anyhow::Result<Server> {
    Server::start(setup, name, &demo_config(setup)?, set)
}

/// The file of its configuration.
pub(crate) fn demo_config(setup: &Setup) -> anyhow::Result<String> {
    let config = setup.out.join("rpc.toml");
    std::fs::write(&config, CONFIG).with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config.display().to_string())
}

/// Whom the press trusts, and the name that it expects.
pub(crate) struct TlsPort {
    authority: String,
    address: String,
}

/// Starts the server with a TLS port beside the plain one, by a certificate that is made for it.
pub(crate) fn start_tls(setup: &Setup) -> anyhow::Result<(Server, TlsPort)> {
    let made = rcgen::generate_simple_self_signed(vec![TLS_NAME.to_owned()])?;
    let write = |name: &str, text: &str| {
        let path = setup.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        anyhow::Ok(path.display().to_string())
    };
    let authority = write("rpc-tls.pem", &made.cert.pem())?;
    write("rpc-tls.key", &made.signing_key.serialize_pem())?;
    let config = write("rpc-tls.toml", &format!("{CONFIG}{TLS_CONFIG}"))?;
    let server = Server::start(setup, "rpc-tls", &config, &[])?;
    let address = server.tls.clone().context("the server has no TLS port")?;
    Ok((server, TlsPort { authority, address }))
}

/// The bare echo: tokio on one thread, a task a connection, every byte back as it came.
pub(crate) struct BareEcho {
    child: Child,
    address: String,
}

impl BareEcho {
    pub(crate) fn start() -> anyhow::Result<BareEcho> {
        let program = std::env::current_exe()?.with_file_name("millpond-bare-echo");
        let mut command = Command::new(&program);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let spawn = || {
            command
                .spawn()
                .with_context(|| format!("cannot start {}", program.display()))
        };
        let mut child = cores::on(cores::SERVER, spawn)?;
        let output = child.stdout.take().context("its output is not there")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let Some(address) = line.trim().strip_prefix("echoes on ") else {
            bail!("the bare echo said {line:?}");
        };
        let address = address.to_owned();
        Ok(BareEcho { child, address })
    }
}

impl Drop for BareEcho {
    fn drop(&mut self) {
        let _ = terminate(&self.child);
        let _ = self.child.wait();
    }
}

/// How much is asked at a time, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) seconds: u32,
}

impl Load {
    fn text(self) -> String {
        let Load {
            connections,
            in_flight,
            seconds,
        } = self;
        format!(
            "[load]\nconnections = [{connections}]\nin_flight = {in_flight}\nduration_s = {seconds}\nwarmup_s_max = 1\nclient_cpus = [{}]\n",
            cores::PRESS
        )
    }
}

/// A closed loop against the bare echo, 32 bytes a request.
pub(crate) fn bare(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: &BareEcho,
    load: Load,
) -> anyhow::Result<Point> {
    let text = format!(
        "[scenario]\nname = \"bare\"\n[target]\nname = \"tokio\"\nprotocol = \"echo\"\naddress = \"{}\"\nserver_pid = {}\n\
         [requests]\nbytes = 32\n{}",
        server.address,
        server.child.id(),
        load.text()
    );
    whole(
        undisturbed(setup, report, name, |name| practice::point(setup, name, &text))?,
        name,
    )
}

/// A closed loop against a method of the server.
pub(crate) fn call(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: &Server,
    (method, payload): (&str, &str),
    load: Load,
) -> anyhow::Result<Point> {
    point(setup, report, name, server, (method, payload), &load.text())
}

/// The same over its TLS port.
pub(crate) fn call_tls(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    (server, port): (&Server, &TlsPort),
    (method, payload): (&str, &str),
    load: Load,
) -> anyhow::Result<Point> {
    let door = format!(
        "address = \"{}\"\ntls_ca = \"{}\"\ntls_name = \"{TLS_NAME}\"\nserver_pid = {}",
        port.address,
        port.authority,
        server.pid()
    );
    at(setup, report, name, &door, (method, payload), &load.text())
}

/// Any load on a method of the server.
pub(crate) fn point(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: &Server,
    (method, payload): (&str, &str),
    load: &str,
) -> anyhow::Result<Point> {
    let door = format!("address = \"{}\"\nserver_pid = {}", server.address, server.pid());
    at(setup, report, name, &door, (method, payload), load)
}

/// Any load on a method, through one of the server's ports.
fn at(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    door: &str,
    (method, payload): (&str, &str),
    load: &str,
) -> anyhow::Result<Point> {
    let requests = setup.out.join(format!("{name}.jsonl"));
    std::fs::write(&requests, format!("{payload}\n"))?;
    let text = format!(
        "[scenario]\nname = \"call\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\n{door}\nmethod = \"{method}\"\n\
         [requests]\nfile = \"{}\"\n[check]\nsame = true\n{load}",
        requests.display(),
    );
    whole(
        undisturbed(setup, report, name, |name| practice::point(setup, name, &text))?,
        name,
    )
}

fn whole(point: Point, name: &str) -> anyhow::Result<Point> {
    let counters = &point.counters;
    ensure!(
        counters.failed_total() == 0 && counters.answers() > 0 && !point.interrupted,
        "{name}: {counters:?}"
    );
    Ok(point)
}
