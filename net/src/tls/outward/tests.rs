//! Both ends of TLS in memory: handshakes, calls that wait for them, and what failures say.

#![allow(clippy::unwrap_used)]
use super::super::{Tls, TlsFiles, TlsLayer};
use super::*;
use crate::layer::{Layer, Opened};
use crate::{Counters, RemoteAddr};
use rustls::server::UnbufferedServerConnection;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const KEYS: TlsKeys = TlsKeys {
    authorities: "nodes.tls.ca",
    certificate: "nodes.tls.certificate",
    private_key: "nodes.tls.private_key",
    server_name: "nodes.tls.server_name",
};

/// A certificate for `localhost` that signs itself, and its key.
fn made(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let path = |end: &str| folder.join(format!("{name}.{end}"));
    std::fs::write(path("pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    (path("pem"), path("key"))
}

fn file(path: &Path) -> TlsFile {
    let (key, path) = ("server.tls", path.to_owned());
    TlsFile { key, path }
}

/// Both ends of a connection, and the bytes on their way.
struct Ends {
    opener: TlsLayer<Opener>,
    server: TlsLayer<UnbufferedServerConnection>,
    /// What each has to send, and what it received.
    of_opener: (Vec<u8>, Vec<u8>),
    of_server: (Vec<u8>, Vec<u8>),
}

impl Ends {
    fn new(outward: &Arc<OutwardTls>, host: &str, server: &Tls) -> Ends {
        let counters = Arc::<Counters>::default();
        let opener = outward.to(host).unwrap().begin().unwrap();
        Ends {
            opener: TlsLayer::new(opener, RemoteAddr(None), Arc::clone(&counters)),
            server: TlsLayer::new(server.begin().unwrap(), RemoteAddr(None), counters),
            of_opener: Default::default(),
            of_server: Default::default(),
        }
    }

    /// Carries bytes to and fro until there are none.
    fn talk(&mut self) {
        self.opener.begin(&mut self.of_opener.0);
        while carry(
            &mut self.opener,
            &mut self.of_opener.0,
            &mut self.server,
            &mut self.of_server,
        ) | carry(
            &mut self.server,
            &mut self.of_server.0,
            &mut self.opener,
            &mut self.of_opener,
        ) {}
    }
}

/// What one end may send reaches the other; false where that was nothing.
fn carry(
    from: &mut dyn Layer,
    out: &mut Vec<u8>,
    to: &mut dyn Layer,
    of_to: &mut (Vec<u8>, Vec<u8>),
) -> bool {
    from.seal(out, &mut Vec::new());
    let mut sent: Vec<u8> = out.drain(..from.sealed(out.len())).collect();
    from.forget_sealed(sent.len());
    // In pieces, as they may come.
    for piece in sent.chunks_mut(100) {
        if to.open(piece, &mut of_to.1, &mut of_to.0) == Opened::Failed {
            break;
        }
    }
    !sent.is_empty()
}

fn outward(authorities: Option<PathBuf>, identity: Option<(PathBuf, PathBuf)>) -> Arc<OutwardTls> {
    let files = OutwardTlsFiles {
        keys: KEYS,
        authorities,
        identity,
        server_name: None,
    };
    Arc::new(OutwardTls::read(files).unwrap())
}

#[test]
fn what_waits_for_the_handshake_follows_it_and_failures_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = made(folder.path(), "server");
    let (other, other_key) = made(folder.path(), "other");
    let server = |clients: Option<&Path>| {
        Tls::read(TlsFiles {
            certificate: file(&certificate),
            private_key: file(&key),
            client_certificates: clients.map(file),
            client_certificates_required: true,
        })
        .unwrap()
    };
    let check = |outward: &Arc<OutwardTls>, host: &str, server: &Tls, expected: Result<(), &str>| {
        let mut ends = Ends::new(outward, host, server);
        ends.of_opener.0 = b"a call".to_vec();
        ends.talk();
        match expected {
            Ok(()) => {
                ends.of_server.0 = b"an answer".to_vec();
                ends.talk();
                assert_eq!((ends.opener.failure(), ends.opener.is_shaking()), (None, false));
                assert_eq!(
                    (&ends.of_server.1[..], &ends.of_opener.1[..]),
                    (&b"a call"[..], &b"an answer"[..])
                );
            }
            Err(words) => {
                let failure = ends.opener.failure().unwrap();
                assert!(failure.contains(words), "{failure}");
            }
        }
    };
    let trusting = outward(Some(certificate.clone()), None);
    check(&trusting, "localhost", &server(None), Ok(()));
    check(
        &trusting,
        "other.example",
        &server(None),
        Err("or write that name as nodes.tls.server_name"),
    );
    let doubting = outward(Some(other.clone()), None);
    check(
        &doubting,
        "localhost",
        &server(None),
        Err("name its authority in nodes.tls.ca"),
    );
    let asking = server(Some(&other));
    check(
        &trusting,
        "localhost",
        &asking,
        Err("a certificate that it trusts in nodes.tls.certificate"),
    );
    let known = outward(
        Some(certificate.clone()),
        Some((other.clone(), other_key.clone())),
    );
    check(&known, "localhost", &asking, Ok(()));
    assert!(known.validity().is_some() && !known.is_stale());
    // What is read again goes for the connections after it, and wrong files change nothing.
    std::fs::copy(&certificate, &other).unwrap();
    assert!(known.is_stale() && known.reload().is_err() && !known.is_stale());
    check(&known, "localhost", &asking, Ok(()));
}

#[test]
fn a_port_without_tls_and_a_file_that_is_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = made(folder.path(), "server");
    let outward = outward(Some(certificate.clone()), None);
    let mut opener = TlsLayer::new(
        outward.to("localhost").unwrap().begin().unwrap(),
        RemoteAddr(None),
        Arc::default(),
    );
    let (mut out, mut plain) = (Vec::new(), Vec::new());
    opener.begin(&mut out);
    assert!(
        opener.failure().unwrap().contains("during the handshake"),
        "so far"
    );
    let opened = opener.open(
        &mut b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
        &mut plain,
        &mut out,
    );
    assert_eq!(opened, Opened::Failed);
    assert!(opener.failure().unwrap().contains("does not speak it"));
    let refused = |files: OutwardTlsFiles| OutwardTls::read(files).unwrap_err().to_string();
    let files = OutwardTlsFiles {
        keys: KEYS,
        authorities: Some(key.clone()),
        identity: None,
        server_name: None,
    };
    let found = refused(files.clone());
    assert!(
        found.starts_with("nodes.tls.ca: ") && found.contains("it holds a private key"),
        "{found}"
    );
    let found = refused(OutwardTlsFiles {
        authorities: Some(certificate.clone()),
        identity: Some((certificate.clone(), certificate.clone())),
        ..files.clone()
    });
    assert!(found.starts_with("nodes.tls.private_key: "), "{found}");
    let found = refused(OutwardTlsFiles {
        authorities: Some(certificate),
        server_name: Some("no name".to_owned()),
        ..files
    });
    assert!(
        found.contains("\"no name\" is no name") && found.contains("nodes.tls.server_name"),
        "{found}"
    );
}

/// Asks a server, of a thread that waits, for the bytes that it is sent.
fn echoed(outward: &Arc<OutwardTls>, serve: impl FnOnce(TcpStream) + Send) -> std::io::Result<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || serve(listener.accept().unwrap().0));
        let socket = TcpStream::connect(address).unwrap();
        let mut stream = outward.to("localhost").unwrap().over(socket)?;
        stream.write_all(b"a call")?;
        stream.flush()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

#[test]
fn a_thread_that_waits_is_told_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = made(folder.path(), "server");
    let (other, other_key) = made(folder.path(), "other");
    let tls = Tls::read(TlsFiles {
        certificate: file(&certificate),
        private_key: file(&key),
        client_certificates: Some(file(&other)),
        client_certificates_required: true,
    });
    let config = tls.unwrap().with(|current| Arc::clone(&current.config));
    let serve = |socket: TcpStream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, socket);
        let mut bytes = [0; 6];
        // It ends without a word, as a process that is killed.
        if stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).unwrap();
            stream.flush().unwrap();
        }
    };
    let known = outward(Some(certificate.clone()), Some((other.clone(), other_key)));
    assert_eq!(echoed(&known, serve).unwrap(), b"a call");
    let check = |outward: &Arc<OutwardTls>, serve: &(dyn Fn(TcpStream) + Sync), words: &str| {
        let failure = echoed(outward, serve).unwrap_err().to_string();
        assert!(failure.contains(words), "{failure}");
    };
    let stranger = outward(Some(certificate), None);
    check(
        &stranger,
        &serve,
        "a certificate that it trusts in nodes.tls.certificate",
    );
    check(
        &outward(Some(other), None),
        &serve,
        "name its authority in nodes.tls.ca",
    );
    check(&stranger, &drop, "address a port that speaks TLS");
}
