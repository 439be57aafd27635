//! Where connections lead, and how long a lost one is waited for: no socket is opened, and the time stands still.
#![allow(clippy::unwrap_used)]
use super::*;
use millpond_calls::{Call, NodeAnswer, NodeSink, NodesOptions, Reply};
use millpond_net::Session;
use millpond_wire_frame::Encoding;
use millpond_wire_schema::{Code, Status};

/// Has no methods: what is tested calls others.
#[derive(Default)]
struct Caller(Outbound);

/// Another net thread has calls of its own.
impl Clone for Caller {
    fn clone(&self) -> Caller {
        Caller::default()
    }
}

impl Service for Caller {
    fn outbound(&self) -> Option<&Outbound> {
        Some(&self.0)
    }

    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        reply.error(&Status::new(Code::UnknownMethod, "it has none"));
    }
}

struct Unheard;

impl NodeSink for Unheard {
    fn ended(self: Box<Self>, _: &Outbound, _: Instant, _: Result<NodeAnswer<'_>, NodeError>) {}
}

/// Notes the codes of calls that ended without an answer.
struct Noted(std::sync::Arc<std::sync::Mutex<Vec<Code>>>);

impl NodeSink for Noted {
    fn ended(self: Box<Self>, _: &Outbound, _: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        self.0
            .lock()
            .unwrap()
            .extend(answer.err().map(|error| error.status.code));
    }
}

/// A connection's number and session.
type Opened = (u64, Box<dyn Session<Serving<Caller>>>);

/// A pool whose calls all go to one node, and the time, which stands still.
struct Dialling {
    pool: NodePool,
    node: Arc<Node>,
    now: Instant,
    opened: Vec<Opened>,
}

impl Dialling {
    fn new() -> Dialling {
        let nodes = Arc::new(Nodes::new(NodesOptions::default()));
        Dialling {
            pool: NodePool::new(nodes, Arc::default(), PoolOptions::default()),
            node: Arc::new(Node {
                name: "b".to_owned(),
                addresses: vec!["127.0.0.1:9".to_owned()],
            }),
            now: Instant::now(),
            opened: Vec::new(),
        }
    }

    /// Sends calls; says how many connections are begun for them.
    fn call(&mut self, count: usize) -> usize {
        let outbound = Outbound::default();
        let mut asked = Vec::new();
        for _ in 0..count {
            let call = NodeCall {
                node: Arc::clone(&self.node),
                encoding: Encoding::Msgpack,
                method: "echo",
                payload: vec![0x80],
                sink: Box::new(Unheard),
            };
            self.pool.send(call, &outbound, self.now, &mut asked);
        }
        let before = self.opened.len();
        self.opened
            .extend(asked.into_iter().filter_map(|asked| match asked {
                Outward::Open { number, session, .. } => Some((number, session)),
                Outward::Send { .. } | Outward::Close { .. } => None,
            }));
        self.opened.len() - before
    }

    /// The newest connection opens, and is answered on or not.
    fn open(&mut self, is_answered: bool) {
        let (number, session) = self.opened.last_mut().unwrap();
        session.opened(&Serving::new(Caller::default()));
        let mut links = self.pool.links.values().flat_map(|links| &links.links);
        let link = links.find(|link| link.number == *number).unwrap();
        if is_answered {
            link.wire.set_answered();
        }
    }

    /// The same, and then it is lost.
    fn lose(&mut self, is_answered: bool) {
        self.open(is_answered);
        let (_, mut session) = self.opened.pop().unwrap();
        session.ended(&Serving::new(Caller::default()), None);
    }

    /// The wait before a connection is begun again.
    fn wait_ms(&mut self) -> u64 {
        for ms in 0..10_000 {
            if self.call(1) > 0 {
                return ms;
            }
            self.now += Duration::from_millis(1);
        }
        panic!("no connection is begun");
    }
}

#[test]
fn the_wait_grows_until_a_node_has_answered() {
    let mut dialling = Dialling::new();
    assert_eq!(dialling.call(1), 1);
    for (is_answered, expected_ms) in [
        (false, 50),
        (false, 100),
        (false, 200),
        (true, 50),
        (false, 100),
        (true, 50),
        (true, 50),
    ] {
        dialling.lose(is_answered);
        assert_eq!(dialling.wait_ms(), expected_ms);
    }
}

#[test]
fn a_connection_that_is_answered_shortens_no_wait_for_another() {
    let mut dialling = Dialling::new();
    assert_eq!(dialling.call(SHARED_BY + 1), 2);
    let second = dialling.opened.pop().unwrap();
    dialling.open(true);
    dialling.opened.push(second);
    for expected_ms in [50, 100, 200] {
        // No call is on it: they go to the one that is open.
        dialling.lose(false);
        assert_eq!(dialling.wait_ms(), expected_ms);
    }
}

#[test]
fn addresses_lead_where_they_say() {
    let local: SocketAddr = ([127, 0, 0, 1], 7).into();
    let names = HashMap::from([("a.example:7".to_owned(), vec![local])]);
    let check = |text: &str, expected: &[&str]| {
        let found = remotes(text, &names).into_iter();
        let found: Vec<String> = found
            .map(|(to, host)| format!("{to}{}", host.map_or(String::new(), |host| format!(" as {host}"))))
            .collect();
        assert_eq!(found, expected, "{text}");
    };
    check("127.0.0.1:9", &["127.0.0.1:9"]);
    check("[::1]:9", &["[::1]:9"]);
    check("unix:/run/a", &["unix:/run/a"]);
    check("a.example:7", &["127.0.0.1:7"]);
    check("b.example:7", &[]);
    check("tls://127.0.0.1:9", &["127.0.0.1:9 as 127.0.0.1"]);
    check("tls://[::1]:9", &["[::1]:9 as ::1"]);
    check("tls://a.example:7", &["127.0.0.1:7 as a.example"]);
    check("tls://b.example:7", &[]);
}

/// The calls of a net thread to the process that has the stores, and its one connection.
#[test]
fn what_became_of_a_call_to_the_stores_is_told_as_far_as_it_is_known() {
    let counts = Arc::new(Nodes::new(NodesOptions::default()));
    let options = PoolOptions {
        outstanding_bytes_max: 1000,
        ..PoolOptions::default()
    };
    let mut pool = NodePool::to_stores(counts, options);
    let process = Arc::new(Node {
        name: "stores".to_owned(),
        addresses: vec!["unix:/nowhere/stores.sock".to_owned()],
    });
    let (outbound, now) = (Outbound::default(), Instant::now());
    let codes = Arc::<std::sync::Mutex<Vec<Code>>>::default();
    let mut opened: Vec<Opened> = Vec::new();
    let mut call = |bytes: usize, now: Instant, opened: &mut Vec<Opened>| {
        outbound.send_on(NodeCall {
            node: Arc::clone(&process),
            encoding: Encoding::Msgpack,
            method: "echo",
            payload: vec![0x80; bytes],
            sink: Box::new(Noted(Arc::clone(&codes))),
        });
        let mut asked = Vec::new();
        Reach::<Caller>::turn(&mut pool, &outbound, now, &mut asked);
        opened.extend(asked.into_iter().filter_map(|asked| match asked {
            Outward::Open { number, session, .. } => Some((number, session)),
            Outward::Send { .. } | Outward::Close { .. } => None,
        }));
        std::mem::take(&mut *codes.lock().unwrap())
    };
    // One call may be of any size; beside it the bound holds, over one connection.
    assert_eq!(call(5000, now, &mut opened), []);
    assert_eq!(call(1, now, &mut opened), [Code::Overloaded]);
    assert!(opened.len() == 1 && opened[0].0 >= 1 << 63);
    // It was never open, so nothing was sent.
    let local = Serving::new(Caller::default());
    opened.pop().unwrap().1.ended(&local, None);
    assert_eq!(std::mem::take(&mut *codes.lock().unwrap()), [Code::NotReady]);
    let again = now + Duration::from_secs(60);
    assert_eq!(
        call(1, now, &mut opened),
        [Code::NotReady],
        "it is waited a while"
    );
    assert_eq!(call(500, again, &mut opened), []);
    assert_eq!(call(1, again, &mut opened), []);
    assert_eq!(call(500, again, &mut opened), [Code::Overloaded]);
    let (_, mut session) = opened.pop().unwrap();
    session.opened(&local);
    session.ended(&local, None);
    assert_eq!(*codes.lock().unwrap(), [Code::OutcomeUnknown; 2]);
}
