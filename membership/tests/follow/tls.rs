//! etcd over TLS, which asks for a certificate.

use crate::etcd::Etcd;
use crate::heard::{Heard, quick};
use crate::leases::node;
use millpond_membership::{Error, Options, Tls, TlsIdentity};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::path::Path;

/// Writes an authority, and a certificate and its key that it signed.
fn write_certificates(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.pem", authority.self_signed(&authority_key).unwrap().pem());
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    certificate.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    write("cert.pem", certificate.signed_by(&key, &issuer).unwrap().pem());
    write("key.pem", key.serialize_pem());
}

#[test]
fn certificates_are_asked_for_on_both_sides() {
    let with_certificates = |folder: &Path| {
        write_certificates(folder);
        let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
        vec![
            file("cert-file", "cert.pem"),
            file("key-file", "key.pem"),
            file("trusted-ca-file", "ca.pem"),
            "--client-cert-auth".to_owned(),
        ]
    };
    let Some(etcd) = Etcd::start_with(
        "tls::certificates_are_asked_for_on_both_sides",
        "https",
        with_certificates,
    ) else {
        return;
    };
    let file = |name: &str| etcd.folder().join(name);
    let tls = |ca: &str, identity: bool| Options {
        tls: Some(Tls {
            ca: file(ca),
            identity: identity.then(|| TlsIdentity {
                certificate: file("cert.pem"),
                key: file("key.pem"),
            }),
        }),
        registration: Some(node("a")),
        ..quick(&format!("https://127.0.0.1:{}", etcd.port()))
    };
    let heard = Heard::of(tls("ca.pem", true));
    heard.connected();
    heard.up("a");
    let error = Heard::of(tls("ca.pem", false)).lost();
    assert!(
        matches!(error, Error::Connect { .. } | Error::Broken { .. }),
        "{error}"
    );
    // The server's own certificate is no authority.
    let error = Heard::of(tls("cert.pem", true)).lost();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}
