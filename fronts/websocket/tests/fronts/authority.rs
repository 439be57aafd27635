//! Certificates made for a test, clients that trust them, and transports that show them.

use crate::probe::{Probe, Transport, options, started};
use millpond_calls::{Service, Ticket};
use millpond_net::{Bound, Listener, Timeouts, Tls, TlsFile, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A client's side of a TLS connection.
pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Certificate and key in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Signs certificates; its own is what the other side trusts.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { issuer, certificate }
    }

    pub(crate) fn signs(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair {
            certificate,
            key: key.serialize_pem(),
        }
    }

    /// What a client of its servers begins with; with that certificate, if one is given.
    pub(crate) fn client(&self, own: Option<&Pair>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
                )
                .unwrap(),
        })
    }
}

/// The files of a server, in a folder of their own.
pub(crate) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new(pair: &Pair) -> Files {
        let files = Files {
            folder: tempfile::tempdir().unwrap(),
        };
        files.put(pair);
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        path
    }

    /// Puts that pair in the place of the one before.
    pub(crate) fn put(&self, pair: &Pair) {
        self.write("server.pem", &pair.certificate);
        self.write("server.key", &pair.key);
    }

    /// What names them; clients are asked for certificates that `clients` signed, where it is given.
    pub(crate) fn named(&self, clients: Option<(&Authority, bool)>) -> TlsFiles {
        let file = |key, path| TlsFile { key, path };
        let trusted = clients.map(|(authority, _)| self.write("clients.pem", &authority.certificate));
        TlsFiles {
            certificate: file("server.tls.certificate", self.path("server.pem")),
            private_key: file("server.tls.private_key", self.path("server.key")),
            client_certificates: trusted.map(|path| file("server.tls.client_certificates", path)),
            client_certificates_required: clients.is_some_and(|(_, required)| required),
        }
    }
}

/// A transport with a TLS port beside its plain one.
pub(crate) struct Port {
    pub(crate) transport: Transport,
    pub(crate) tls: Arc<Tls>,
    pub(crate) addr: SocketAddr,
}

impl Port {
    pub(crate) fn open(service: impl Service, files: TlsFiles, timeouts: Timeouts) -> Port {
        let tls = Arc::new(Tls::read(files).unwrap());
        let loopback = || Listener::bind("127.0.0.1:0".parse().unwrap(), "server.tls.listen").unwrap();
        let listener = loopback().with_tls(Arc::clone(&tls));
        let Bound::Inet(addr) = *listener.bound() else {
            unreachable!("an address was bound")
        };
        let transport = started(vec![loopback(), listener], options(1, timeouts), service);
        Port { transport, tls, addr }
    }

    /// The usual service on it, and the tickets of its calls to "later".
    pub(crate) fn probe(files: TlsFiles) -> (Port, mpsc::Receiver<Ticket>) {
        let (probe, tickets) = Probe::new();
        (Port::open(probe, files, Timeouts::default()), tickets)
    }

    /// A connection without a byte on it.
    pub(crate) fn dial(&self) -> TcpStream {
        let socket = TcpStream::connect(self.addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    }

    /// One that speaks TLS when it is first used.
    pub(crate) fn connect(&self, config: &Arc<ClientConfig>) -> Stream {
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::clone(config), name).unwrap();
        StreamOwned::new(client, self.dial())
    }

    pub(crate) fn handshakes(&self) -> [u64; 2] {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = self.transport.counters();
        [&counters.handshakes, &counters.handshakes_failed].map(|count| count.load(Relaxed))
    }

    /// Waits until so many were done, and so many failed.
    pub(crate) fn wait_for(&self, handshakes: [u64; 2]) {
        while self.handshakes() != handshakes {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn close(self) {
        self.transport.close(Duration::from_secs(5));
    }
}

/// A server's certificate and the client's side, for tests that need no more.
pub(crate) fn usual() -> (Port, Arc<ClientConfig>, mpsc::Receiver<Ticket>) {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let (port, tickets) = Port::probe(files.named(None));
    (port, authority.client(None), tickets)
}
