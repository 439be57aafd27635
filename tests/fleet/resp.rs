//! RESP of several processes on one port: each answers.

use crate::harness::Millpond;
use crate::serving::resp::{Redis, folder};
use std::net::TcpListener;

/// Connections made; each has a process of its own choice of the kernel.
const CONNECTIONS: usize = 64;

/// An address whose port nobody else uses: no other test listens on this one of the loopback addresses.
fn own_address(host: u8) -> String {
    let free = TcpListener::bind((format!("127.13.27.{host}"), 0)).unwrap();
    free.local_addr().unwrap().to_string()
}

#[test]
fn every_process_serves_commands() {
    let (listen, resp) = (own_address(1), own_address(2));
    let folder = folder(&format!(
        "[server]\nlisten = \"{listen}\"\nthreads = 1\nprocesses = 2\n[server.resp]\nlisten = \"{resp}\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nfile = \"millpond.log\"\n\
         [features.films]\npath = \"tables/films\"\nresp_database = 0\n"
    ));
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(server.resp.as_deref(), Some(&*resp));
    let mut connections: Vec<Redis> = (0..CONNECTIONS).map(|_| Redis::connect(&server)).collect();
    for redis in &mut connections {
        redis.line("STRLEN 7", ":8\r\n");
        redis.line("DBSIZE", ":100\r\n");
    }
}
