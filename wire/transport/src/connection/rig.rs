//! For tests: one connection without a net thread, the other end of its socket, turns on demand, and any time of the clock.
//! Its invariant: nothing happens to the connection but what the test does.
#![allow(clippy::unwrap_used)]

use super::{After, Connection, Link};
use crate::mailbox::{Key, Mailbox};
use crate::net_thread::{Kind, Net, Room};
use crate::poller::Ready;
use crate::service::Service;
use crate::session::Undecided;
use crate::totals::Totals;
use crate::{Hosts, Options, Patience};
use millpond_calls::{Call, Clock, Peer, Reply};
use millpond_wire_frame::Limits;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Leaves every call unanswered, which is an error to its caller.
#[derive(Clone)]
pub(crate) struct Silent;

impl Service for Silent {
    fn call(&self, _: &Call<'_>, _: Reply<'_>) {}
}

/// The connection, its peer, and what a net thread would lend it.
pub(crate) struct Rig {
    pub(crate) connection: Connection<Silent>,
    pub(crate) theirs: UnixStream,
    pub(crate) net: Net,
    pub(crate) room: Room,
}

impl Rig {
    pub(crate) fn connected() -> Rig {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let net = net();
        let key = Key {
            slot: 0,
            generation: 1,
        };
        Rig {
            connection: Connection::new(
                Link::new(ours.into(), Peer::Unix, Kind::Served, key),
                Box::new(Undecided(crate::fronts(&net.options))),
                0,
            ),
            theirs,
            net,
            room: Room::new(),
        }
    }

    /// One that has become a WebSocket.
    pub(crate) fn upgraded() -> Rig {
        let mut rig = Rig::connected();
        let request =
            b"GET /service/any HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        rig.theirs.write_all(request).unwrap();
        assert_eq!(rig.turns(0), After::Wait);
        assert!(rig.read_answers().starts_with(b"HTTP/1.1 101"));
        rig
    }

    /// Says that its socket is ready, and gives it turns until it wants none.
    pub(crate) fn turns(&mut self, now_s: u32) -> After {
        self.connection.note(Ready {
            slot: 0,
            generation: 1,
            readable: true,
            writable: true,
            ended: false,
            gone: false,
        });
        loop {
            let turn = self.connection.turn(&Silent, &self.net, &mut self.room, now_s);
            if turn != After::Again {
                return turn;
            }
        }
    }

    /// The peer reads all there is.
    pub(crate) fn read_answers(&mut self) -> Vec<u8> {
        self.theirs.set_nonblocking(true).unwrap();
        let mut found = Vec::new();
        // Without an end there comes an error: nothing more is there.
        let _ = self.theirs.read_to_end(&mut found);
        self.theirs.set_nonblocking(false).unwrap();
        found
    }
}

/// Bounds that no test of one connection meets.
fn totals() -> Arc<Totals> {
    Arc::new(Totals::new(Arc::default(), 1, 64 << 20))
}

fn net() -> Net {
    Net {
        options: Options {
            threads: 1,
            cpus: Vec::new(),
            connections_max: 1,
            connections_mend: "raise it",
            idlest_gives_way: false,
            owed_bytes_max: 1 << 20,
            write_buffers_total_bytes_max: 64 << 20,
            unfinished_bytes_max: 64 << 20,
            unfinished_mend: "raise it",
            patience: Patience::default(),
            native: crate::NativeOptions {
                in_flight_max: 1,
                pushes_max: 1024,
                limits: Limits::default(),
                encryption: None,
            },
            http: crate::HttpOptions {
                limits: Limits::default(),
                cors_origins: Vec::new(),
                hosts: Hosts::default(),
            },
        },
        counters: Arc::default(),
        mailbox: Arc::new(Mailbox::new(totals(), 0).unwrap()),
        clock: Clock::start(),
    }
}
