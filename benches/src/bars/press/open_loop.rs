//! Whether the schedule is kept at fifty thousand requests a second, and what one core can send pipelined.

use crate::bar::{Bar, Group, Op};
use crate::practice::{On, Practice, point};
use crate::report::Report;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_verdict::Conditions;
use millpond_press_verdict::Series;

const LATENESS: Bar = Bar::new("press-lateness-us-p99", Op::AtMost, 100.0);
const PIPELINED: Bar = Bar::new("press-pipelined-echo-per-s", Op::AtLeast, 2e6);

pub(crate) const GROUP: Group = Group {
    name: "open-loop",
    title: "raw echo: send lateness at 50,000/s, and pipelined requests a second from one core",
    bars: &[LATENESS, PIPELINED],
    measure,
};

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let seconds = setup.pick(10.0, 2.0);
    let (mut lateness, mut rate) = (Series::default(), Series::default());
    report.say("| round | late p50, us | p99 | p99.9 | latency p50, us | p99 | client busy % | pipelined /s | client % | server % |");
    report.say("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(5, 1) {
        let server = Practice::start(setup, On::ServerCore, &[], &[])?;
        let head = server.scenario("open-loop");
        let open = format!(
            "{head}[load]\nconnections = [100]\nrate = [50000]\nduration_s = {seconds}\nwarmup_s_max = 1\nclient_cpus = [1]\n"
        );
        let open = point(setup, &format!("open-{round}"), &open)?;
        let deep = format!(
            "{head}[load]\nconnections = [16]\nin_flight = 256\nduration_s = {}\nwarmup_s_max = 1\nclient_cpus = [1]\n",
            seconds / 2.0
        );
        let deep = point(setup, &format!("pipelined-{round}"), &deep)?;
        server.stop()?;
        let us = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.1}"));
        let cpu = |cpu: Option<millpond_press_report::Cpu>| cpu.map_or(f64::NAN, |cpu| cpu.percent);
        let late = &open.lateness;
        report.say(&format!(
            "| {round} | {} | {} | {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            us(late.us_p50),
            us(late.us_p99),
            us(late.us_p99_9),
            us(open.latency.us_p50),
            us(open.latency.us_p99),
            cpu(open.client_cpu),
            deep.qps,
            cpu(deep.client_cpu),
            cpu(deep.server_cpu),
        ));
        lateness.measured(late.us_p99.context("too few samples")?, &open);
        // What the press can send is what the press is bounded by.
        rate.under(deep.qps, Conditions::of_press_itself(&deep));
    }
    report.say(&format!(
        "\nlateness p99 {lateness:.1} us, pipelined {rate:.0}/s\n"
    ));
    report.bar(&LATENESS, lateness.median(), lateness);
    report.bar(&PIPELINED, rate.median(), rate);
    Ok(())
}
