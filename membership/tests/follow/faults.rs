//! etcd stopped, killed and emptied: the last map stays, and what changed meanwhile is heard.

use crate::etcd::Etcd;
use crate::heard::{Heard, steady};
use crate::leases::as_node;
use crate::maps::map;
use millpond_membership::{Error, Event, publish};
use rustix::process::Signal;
use std::net::TcpListener;

/// Nothing of the last state was taken away.
fn assert_kept(heard: &[Event]) {
    let is_loss = |event: &&Event| matches!(event, Event::MapGone | Event::NodeDown { .. } | Event::Map(_));
    assert_eq!(heard.iter().find(is_loss), None, "{heard:?}");
}

#[test]
fn a_killed_etcd_costs_nothing_but_news() {
    let Some(mut etcd) = Etcd::start("faults::a_killed_etcd_costs_nothing_but_news") else {
        return;
    };
    let options = steady(&etcd.url());
    publish(&options, &map(1, 4)).unwrap();
    let member = Heard::of(as_node(&etcd.url(), "a"));
    member.map(1);
    member.up("a");
    for version in 2..5 {
        etcd.kill();
        member.lost();
        assert!(publish(&options, &map(version, 4)).is_err());
        etcd.restart(true);
        publish(&options, &map(version, 4)).unwrap();
        // Leases outlive a restart, so nobody went.
        let back = member.map(version);
        assert_kept(&back[..back.len() - 1]);
    }
}

#[test]
fn a_stopped_etcd_is_noticed_and_followed_on() {
    let Some(etcd) = Etcd::start("faults::a_stopped_etcd_is_noticed_and_followed_on") else {
        return;
    };
    let options = steady(&etcd.url());
    publish(&options, &map(1, 4)).unwrap();
    let watcher = Heard::of(options.clone());
    let member = Heard::of(as_node(&etcd.url(), "a"));
    member.up("a");
    watcher.up("a");
    etcd.signal(Signal::STOP);
    for heard in [&watcher, &member] {
        let error = heard.lost();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
    etcd.signal(Signal::CONT);
    for heard in [&watcher, &member] {
        let back = heard.connected();
        assert_kept(&back);
    }
    publish(&options, &map(2, 4)).unwrap();
    watcher.map(2);
    member.map(2);
}

#[test]
fn an_etcd_without_its_data_is_told_anew() {
    let Some(mut etcd) = Etcd::start("faults::an_etcd_without_its_data_is_told_anew") else {
        return;
    };
    let options = steady(&etcd.url());
    publish(&options, &map(1, 4)).unwrap();
    let member = Heard::of(as_node(&etcd.url(), "a"));
    member.map(1);
    member.up("a");
    etcd.kill();
    member.lost();
    etcd.restart(false);
    member.until("that the map is gone", |event| *event == Event::MapGone);
    member.up("a");
    publish(&options, &map(2, 4)).unwrap();
    member.map(2);
}

#[test]
fn an_etcd_that_is_not_there_yet_is_waited_for() {
    let Some(mut etcd) = Etcd::start("faults::an_etcd_that_is_not_there_yet_is_waited_for") else {
        return;
    };
    etcd.kill();
    let member = Heard::of(as_node(&etcd.url(), "a"));
    let error = member.lost();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    etcd.restart(true);
    member.connected();
    member.up("a");
}

#[test]
fn the_next_endpoint_is_asked_where_one_fails() {
    let Some(etcd) = Etcd::start("faults::the_next_endpoint_is_asked_where_one_fails") else {
        return;
    };
    // Nobody accepts there, so nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = as_node(&etcd.url(), "a");
    options
        .endpoints
        .insert(0, format!("http://{}", silent.local_addr().unwrap()));
    assert_eq!(publish(&options, &map(1, 4)), Ok(true));
    Heard::of(options).map(1);
}
