//! What the press costs the client's core for an HTTP request, beside wrk, against nginx.
//!
//! Both on core 1, nginx on core 0, the same connections, in turns. Processor time of the whole client process, sampling and
//! checking included. Needs `apt install nginx-light wrk`.

use crate::bar::{Bar, Group, Op};
use crate::practice::point;
use crate::report::Report;
use crate::server::terminate;
use crate::setup::Setup;
use crate::{cores, ticks};
use anyhow::{Context as _, ensure};
use millpond_press_verdict::Conditions;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const COST: Bar = Bar::new("press-client-cpu-over-wrk", Op::AtMost, 1.1);

pub(crate) const GROUP: Group = Group {
    name: "client-cost",
    title: "unpipelined HTTP against nginx: client processor time a request, over wrk's",
    bars: &[COST],
    measure,
};

const ADDRESS: &str = "127.0.0.1:7393";
const CONNECTIONS: usize = 32;

struct Nginx(Child);

impl Nginx {
    fn start(setup: &Setup) -> anyhow::Result<Nginx> {
        let config = setup.out.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid {out}/nginx.pid; error_log {out}/nginx.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; server {{ listen {ADDRESS}; \
             location / {{ default_type text/plain; return 200 \"a small answer of thirty-two bytes\"; }} }} }}\n",
            out = setup.out.display()
        );
        std::fs::write(&config, text)?;
        let spawn = || {
            let mut command = Command::new("nginx");
            command.arg("-c").arg(&config).stdin(Stdio::null());
            command
                .spawn()
                .context("cannot start nginx; apt install nginx-light")
        };
        let nginx = Nginx(cores::on(cores::SERVER, spawn)?);
        for _ in 0..200 {
            if TcpStream::connect(ADDRESS).is_ok() {
                return Ok(nginx);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("nginx does not listen; see nginx.log")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = terminate(&self.0);
        let _ = self.0.wait();
    }
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let seconds = setup.pick(6, 2);
    let nginx = Nginx::start(setup)?;
    let (mut own, mut peer) = (Series::default(), Series::default());
    report.say("| round | wrk, requests/s | us of client CPU a request | press, requests/s | us of client CPU a request | ratio |");
    report.say("|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        setup.stop.check()?;
        let ((wrk_rate, wrk_us), stolen) = ticks::watched(|| wrk(seconds))?;
        let text = format!(
            "[scenario]\nname = \"http\"\n[target]\naddress = \"{ADDRESS}\"\npath = \"/\"\nserver_pid = {}\n\
             [check]\ncontains = \"thirty-two\"\n[load]\nconnections = [{CONNECTIONS}]\nduration_s = {seconds}\nwarmup_s_max = 1\n\
             client_cpus = [1]\n",
            nginx.0.id()
        );
        let point = point(setup, &format!("nginx-{round}"), &text)?;
        ensure!(point.counters.failed_total() == 0, "{:?}", point.counters);
        let cpu = point
            .client_cpu
            .context("this process's CPU time cannot be read")?;
        let us = cpu.seconds * 1e6 / point.counters.answers() as f64;
        report.say(&format!(
            "| {round} | {wrk_rate:.0} | {wrk_us:.2} | {:.0} | {us:.2} | {:.3} |",
            point.qps,
            us / wrk_us
        ));
        own.under(us, Conditions::of_press_itself(&point));
        peer.under(wrk_us, Conditions::without_load(stolen));
    }
    let ratio = own.over(&peer);
    report.say(&format!(
        "\npress {own:.2} us, wrk {peer:.2} us, round by round {ratio:.3}\n"
    ));
    report.bar(&COST, ratio.median(), ratio);
    Ok(())
}

/// Runs wrk on the client's core; its requests a second and the microseconds of processor time a request.
fn wrk(seconds: u32) -> anyhow::Result<(f64, f64)> {
    let script = format!(
        "TIMEFORMAT='cpu %U %S'; time taskset -c {} wrk -t1 -c{CONNECTIONS} -d{seconds} http://{ADDRESS}/",
        cores::PRESS
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .output()
        .context("cannot start wrk")?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let number = |line: &str, word: usize| {
        line.split_whitespace()
            .nth(word)
            .and_then(|text| text.parse::<f64>().ok())
    };
    let requests = text
        .lines()
        .find(|line| line.contains(" requests in "))
        .and_then(|line| number(line, 0))
        .with_context(|| format!("wrk said {text:?}; apt install wrk"))?;
    let cpu = text
        .lines()
        .find(|line| line.starts_with("cpu "))
        .with_context(|| format!("no time in {text:?}"))?;
    let used = number(cpu, 1).unwrap_or(f64::NAN) + number(cpu, 2).unwrap_or(f64::NAN);
    Ok((requests / f64::from(seconds), used * 1e6 / requests))
}
