//! TLS against rustls' own acceptor, with certificates made for each test.

use crate::peer::{EMPTY, Peer, answer, listen, number};
use millpond_client_rust::{CallError, Client, Options, Tls, TlsIdentity};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ProtocolVersion, RootCertStore, ServerConfig};

/// A certificate authority, and the folder with its files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let folder = tempfile::tempdir().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `name`.pem and `name`.key.
    fn issue(&self, name: &str, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> TlsIdentity {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let identity = TlsIdentity {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        std::fs::write(&identity.certificate, certificate.pem()).unwrap();
        std::fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }

    /// A server of that name; `asks` wants certificates of this authority from its clients.
    fn acceptor(&self, names: &[&str], asks: bool) -> TlsAcceptor {
        let identity = self.issue("server", names, ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = if asks {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
        TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()))
    }

    fn trusted(&self) -> Tls {
        Tls {
            ca: self.path("ca.pem"),
            ..Tls::default()
        }
    }
}

fn options(tls: Tls) -> Options {
    Options {
        tls: Some(tls),
        ..Options::default()
    }
}

/// The next connection, after the handshake; `None` where that failed.
async fn accept(listener: &TcpListener, acceptor: &TlsAcceptor) -> Option<Peer> {
    let (stream, _) = listener.accept().await.unwrap();
    let stream = acceptor.accept(stream).await.ok()?;
    assert_eq!(
        stream.get_ref().1.protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    Some(Peer::over(stream))
}

#[tokio::test]
async fn calls_go_over_tls_whatever_their_size() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["localhost", "127.0.0.1"], false);
    let (listener, addr) = listen().await;
    let addr = format!("tls://{addr}");
    let (client, peer) = tokio::join!(
        Client::connect(&addr, options(authority.trusted())),
        accept(&listener, &acceptor)
    );
    let (client, mut peer) = (client.unwrap(), peer.unwrap());
    let large = [
        &[0x81, 0xa1, b'b', 0xc6][..],
        &4_000_000_u32.to_be_bytes(),
        &vec![7; 4_000_000],
    ]
    .concat();
    for payload in [EMPTY, &large, &number(1)] {
        let (found, ()) = tokio::join!(client.call("m", payload, None), peer.echo());
        assert!(found.unwrap() == payload);
    }
    // The end is told, so that nobody can cut a connection short unnoticed.
    client.close().await;
    assert!(peer.ends_cleanly().await);
}

#[tokio::test]
async fn only_the_named_authority_and_name_are_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let acceptor = authority.acceptor(&["millpond.example"], false);
    let (listener, addr) = listen().await;
    let addr = format!("tls://{addr}");
    let named = Tls {
        server_name: Some("millpond.example".to_owned()),
        ..authority.trusted()
    };
    let stranger = Tls {
        ca: other.path("ca.pem"),
        ..named.clone()
    };
    for (tls, expected) in [
        (stranger, "invalid peer certificate: BadSignature"),
        (authority.trusted(), "not valid for name"),
    ] {
        let (found, _) = tokio::join!(Client::connect(&addr, options(tls)), accept(&listener, &acceptor));
        let error = found.unwrap_err();
        assert!(
            matches!(&error, CallError::Tls { addr: found, .. } if *found == addr),
            "{error:?}"
        );
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.may_have_run());
    }
    let (client, peer) = tokio::join!(
        Client::connect(&addr, options(named)),
        accept(&listener, &acceptor)
    );
    let (client, mut peer) = (client.unwrap(), peer.unwrap());
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
}

#[tokio::test]
async fn a_server_that_asks_is_shown_a_certificate() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["127.0.0.1"], true);
    let (listener, addr) = listen().await;
    let addr = format!("tls://{addr}");
    let known = Tls {
        identity: Some(authority.issue("client", &["caller"], ExtendedKeyUsagePurpose::ClientAuth)),
        ..authority.trusted()
    };
    let (client, peer) = tokio::join!(
        Client::connect(&addr, options(known)),
        accept(&listener, &acceptor)
    );
    let (client, mut peer) = (client.unwrap(), peer.unwrap());
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);

    // Without one the server hangs up behind the handshake, as TLS 1.3 has it.
    let nobody = async {
        match Client::connect(&addr, options(authority.trusted())).await {
            Ok(client) => client.call("m", EMPTY, None).await.unwrap_err(),
            Err(error) => error,
        }
    };
    let (error, peer) = tokio::join!(nobody, accept(&listener, &acceptor));
    assert!(peer.is_none());
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_apart_from_who_is_away() {
    let authority = Authority::new();
    let (listener, addr) = listen().await;
    let addr = format!("tls://{addr}");
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&answer(1, 0, EMPTY)).await.unwrap();
        stream
    };
    let (found, _stream) = tokio::join!(Client::connect(&addr, options(authority.trusted())), server);
    let error = found.unwrap_err();
    assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("speaks TLS 1.3"), "{error}");
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_before_the_first_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    let one = authority.issue("one", &["one"], ExtendedKeyUsagePurpose::ClientAuth);
    let two = other.issue("two", &["two"], ExtendedKeyUsagePurpose::ClientAuth);
    let empty = authority.path("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    let trusted = authority.trusted();
    let with = |identity: TlsIdentity| Tls {
        identity: Some(identity),
        ..trusted.clone()
    };
    let ca = |ca: PathBuf| Tls { ca, ..Tls::default() };
    let keyless = TlsIdentity {
        key: one.certificate.clone(),
        ..one.clone()
    };
    let mixed = TlsIdentity {
        key: two.key,
        ..one.clone()
    };
    let unnamed = Tls {
        server_name: Some("no name".to_owned()),
        ..trusted.clone()
    };
    for (addr, tls, expected) in [
        ("tls://localhost:1", None, "nobody is trusted"),
        (
            "localhost:1",
            Some(trusted.clone()),
            "no address begins with tls://",
        ),
        (
            "tls://localhost:1",
            Some(ca(authority.path("absent.pem"))),
            "absent.pem",
        ),
        (
            "tls://localhost:1",
            Some(ca(empty)),
            "empty.pem holds no certificate",
        ),
        (
            "tls://localhost:1",
            Some(ca(one.key.clone())),
            "one.key holds no certificate",
        ),
        (
            "tls://localhost:1",
            Some(with(keyless)),
            "no private key can be read from",
        ),
        ("tls://localhost:1", Some(with(mixed)), "cannot be used together"),
        ("tls://localhost:1", Some(unnamed), "\"no name\" is no name"),
    ] {
        let told = Options {
            tls,
            ..Options::default()
        };
        let error = Client::connect(addr, told).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Tls { addr: found, .. } if found == addr),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(expected),
            "{error} does not contain {expected:?}"
        );
    }
}
