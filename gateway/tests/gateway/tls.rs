//! TLS: both versions of HTTP, chosen by ALPN.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::http::Connection;
use crate::process::Gateway;

fn start(directory: &TempDir) -> (Gateway, CertificateDer<'static>) {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(directory.path().join("cert.pem"), pair.cert.pem()).unwrap();
    fs::write(directory.path().join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
    let tls = [
        ("SERVER__TLS__CERT", "cert.pem"),
        ("SERVER__TLS__KEY", "key.pem"),
        ("SERVER__LISTENER__0__LISTEN", "127.0.0.1:0"),
        ("SERVER__LISTENER__0__TLS", "false"),
    ];
    let gateway = Gateway::start(directory, &tls);
    (gateway, CertificateDer::from_pem_slice(pair.cert.pem().as_bytes()).unwrap())
}

fn client(root: CertificateDer<'static>, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

fn connect(server: SocketAddr, config: Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    let mut session = ClientConnection::new(config, name).unwrap();
    session.complete_io(&mut stream).unwrap();
    StreamOwned::new(session, stream)
}

#[test]
fn http_1_where_the_client_offers_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let (gateway, root) = start(&directory);
    for alpn in [&[][..], &[b"http/1.1" as &[u8]][..]] {
        let stream = connect(gateway.s3[0], client(root.clone(), alpn));
        assert_eq!(stream.conn.alpn_protocol(), alpn.first().copied());
        let (head, _) = Connection::over(stream, gateway.s3[0]).ask("GET", "/", b"");
        assert_eq!(head.status, 200);
    }
}

#[test]
fn http_2_where_the_client_offers_it() {
    use tokio_rustls::TlsConnector;

    let directory = tempfile::tempdir().unwrap();
    let (gateway, root) = start(&directory);
    let (server, config) = (gateway.s3[0], client(root, &[b"h2", b"http/1.1"]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let executor = hyper_util::rt::TokioExecutor::new();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        tokio::spawn(connection);
        let request =
            http::Request::get(format!("https://{server}/")).body(http_body_util::Empty::<bytes::Bytes>::new());
        sender.send_request(request.unwrap()).await.unwrap().status()
    });
    assert_eq!(status, 403, "it is answered: unsigned requests may not list buckets");
}

#[test]
fn a_listener_may_do_without() {
    let directory = tempfile::tempdir().unwrap();
    let (gateway, _) = start(&directory);
    assert_eq!(crate::http::ask(gateway.s3[1], "GET", "/", b"").0, 200);
}
