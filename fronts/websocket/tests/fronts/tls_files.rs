//! Files of TLS that cannot be used: each is named with its key and the hint.

use crate::authority::{Authority, Files};
use millpond_net::{Tls, TlsFile, TlsFiles};

fn check(files: TlsFiles, expected: &[&str]) {
    let error = Tls::read(files).unwrap_err().to_string();
    for words in expected {
        assert!(error.contains(words), "{error}\ndoes not contain {words:?}");
    }
    assert!(
        !error.contains("MC4C") && !error.contains("MIG"),
        "a key is shown: {error}"
    );
}

#[test]
fn the_certificate() {
    let authority = Authority::new();
    let pair = authority.signs("localhost");
    let files = Files::new(&pair);
    let named = || files.named(None);
    let with = |text: &str, expected: &[&str]| {
        files.write("server.pem", text);
        check(
            named(),
            &[&["server.tls.certificate: ", "server.pem "], expected].concat(),
        );
    };
    with("", &["holds no certificate", "the file is empty"]);
    with("hello", &["holds no certificate", "-----BEGIN CERTIFICATE-----"]);
    with(&pair.key, &["holds no certificate", "it holds a private key"]);
    let (head, _) = pair.certificate.split_at(200);
    with(head, &["is not PEM", "its end is missing"]);
    with(
        &pair.certificate.replacen("\nMI", "\n*I", 1),
        &["is not PEM", "no base64"],
    );
    let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    with(other, &["a certificate that cannot be used"]);
    with(&"x".repeat((1 << 20) + 1), &["more than 1048576 bytes"]);
    std::fs::remove_file(files.path("server.pem")).unwrap();
    check(
        named(),
        &["server.tls.certificate: ", "cannot be read", "correct the path"],
    );
    std::fs::write(files.path("server.pem"), [0x30, 0x82, 1, 2]).unwrap();
    check(named(), &["looks like DER", "openssl x509 -inform der"]);
    files.put(&pair);
    assert!(Tls::read(named()).is_ok());
}

#[test]
fn the_private_key() {
    let authority = Authority::new();
    let (pair, other) = (authority.signs("localhost"), authority.signs("localhost"));
    let files = Files::new(&pair);
    let with = |text: &str, expected: &[&str]| {
        files.write("server.key", text);
        check(
            files.named(None),
            &[&["server.tls.private_key: ", "server.key "], expected].concat(),
        );
    };
    with(
        &other.key,
        &["is not the key of the first certificate in", "server.pem"],
    );
    with(
        &pair.certificate,
        &["holds no private key", "it holds a certificate"],
    );
    with("", &["holds no private key", "empty"]);
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    with(encrypted, &["an encrypted key", "openssl pkey"]);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\naGVsbG8=\n-----END RSA PRIVATE KEY-----\n";
    with(old, &["an encrypted key", "openssl pkey"]);
    let no_key = "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n";
    with(no_key, &["a key that cannot be used", "use ECDSA"]);
}

#[test]
fn the_authority_of_clients() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let with = |text: &str, expected: &[&str]| {
        let mut named = files.named(Some((&authority, true)));
        named.client_certificates = Some(TlsFile {
            key: "server.tls.client_certificates",
            path: files.write("others.pem", text),
        });
        let place = ["server.tls.client_certificates: ", "others.pem "];
        check(named, &[&place, expected].concat());
    };
    with("", &["holds no certificate"]);
    let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    with(other, &["a certificate that cannot be used"]);
}

#[test]
fn a_key_that_everybody_may_read_is_known() {
    use std::os::unix::fs::PermissionsExt as _;
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let tls = Tls::read(files.named(None)).unwrap();
    for (mode, open) in [(0o600, false), (0o640, false), (0o644, true)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(files.path("server.key"), permissions).unwrap();
        assert_eq!(tls.open_private_key().is_some(), open, "{mode:o}");
    }
}
