//! HTTP/1.1 over hyper. Each request has a connection of its own, to an address that the crawl allows.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE32;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::{Host, Position, Url};

use crate::addresses::allows;
use crate::proto::{FetchPolicy, FetchStatus, Lease, Purpose, Report, Truncation};

pub const MAX_ROBOTS_BYTES: usize = 500 * 1024;
/// How much of a body is kept to look for links, and how much a coding may make of it.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// A fetch got no answer: its status, and a note for crawl.log.
pub struct Failure(pub FetchStatus, pub &'static str);

/// The common part of the requests of one fetch: a robots.txt may take several.
pub struct Visit<'a> {
    pub lease: &'a Lease,
    pub policy: &'a FetchPolicy,
    pub deadline: Instant,
}

impl Visit<'_> {
    pub fn is_robots(&self) -> bool {
        self.lease.purpose() == Purpose::Robots
    }

    /// Waits for the server, but not beyond its patience and the deadline. None if either passed.
    async fn wait<T>(
        &self,
        patience: Option<prost_types::Duration>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let patience = seconds(patience).min(self.deadline.saturating_duration_since(Instant::now()));
        timeout(patience, work).await.ok()
    }
}

pub struct Web {
    tls: TlsConnector,
}

impl Web {
    pub fn new() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self { tls: Arc::new(config).into() }
    }

    /// Makes one request, and reads its answer. Follows no redirect.
    pub async fn get(&self, uri: &Url, visit: &Visit<'_>, report: &mut Report) -> Result<Answer, Failure> {
        let target = &uri[Position::BeforePath..Position::AfterQuery];
        let mut request = Request::get(target)
            .header("Host", &uri[Position::BeforeHost..Position::AfterPort])
            .header("User-Agent", &visit.policy.user_agent)
            .header("Accept", "*/*")
            .header("Accept-Encoding", "gzip")
            .header("Connection", "close");
        if !visit.lease.etag.is_empty() {
            request = request.header("If-None-Match", &visit.lease.etag);
        }
        if !visit.lease.last_modified.is_empty() {
            request = request.header("If-Modified-Since", &visit.lease.last_modified);
        }
        let Ok(request) = request.body(Empty::<Bytes>::new()) else {
            return Err(Failure(FetchStatus::UnfetchableUri, "unsendable"));
        };
        let stream = self.connect(uri, visit, report).await?;
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(1000)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure(FetchStatus::ConnectFailed, "handshake"))?;
        let mut driver = JoinSet::new(); // closes the connection when it goes out of scope
        driver.spawn(connection);
        match visit.wait(visit.policy.read_timeout, sender.send_request(request)).await {
            None => Err(Failure(FetchStatus::Timeout, "silence")),
            Some(Err(error)) if error.is_parse() => Err(Failure(FetchStatus::ProtocolError, "not-http")),
            Some(Err(_)) => Err(Failure(FetchStatus::ConnectLost, "no-answer")),
            Some(Ok(response)) => Answer::read(response, visit).await,
        }
    }

    async fn connect(
        &self,
        uri: &Url,
        visit: &Visit<'_>,
        report: &mut Report,
    ) -> Result<Box<dyn Connection>, Failure> {
        let port = uri.port_or_known_default().unwrap_or(80);
        let (name, found) = match uri.host() {
            _ if !visit.policy.proxy.is_empty() => {
                // a direct request is not what the crawl's operator wants
                return Err(Failure(FetchStatus::RuntimeException, "noProxies"));
            }
            None => return Err(Failure(FetchStatus::UnfetchableUri, "no-host")),
            Some(Host::Ipv4(address)) => (address.to_string(), vec![IpAddr::from(address)]),
            Some(Host::Ipv6(address)) => (address.to_string(), vec![address.into()]),
            Some(Host::Domain(name)) => (name.to_owned(), resolve(name, port, visit).await?),
        };
        let allowed: Vec<_> =
            found.into_iter().filter(|address| allows(&visit.policy.allowed_addresses, *address)).collect();
        if allowed.is_empty() {
            return Err(Failure(FetchStatus::UnfetchableUri, "address-not-allowed"));
        }
        for address in allowed {
            let connecting = TcpStream::connect((address, port));
            let Some(Ok(stream)) = visit.wait(visit.policy.connect_timeout, connecting).await else {
                continue;
            };
            if report.peer_address.is_empty() {
                // of a robots.txt that redirects, its own host's
                report.peer_address = address.to_string();
            }
            if uri.scheme() == "http" {
                return Ok(Box::new(stream));
            }
            let Ok(server) = ServerName::try_from(name.clone()) else { continue };
            if let Some(Ok(secured)) =
                visit.wait(visit.policy.connect_timeout, self.tls.connect(server, stream)).await
            {
                return Ok(Box::new(secured));
            }
        }
        Err(Failure(FetchStatus::ConnectFailed, "no-connection"))
    }
}

async fn resolve(name: &str, port: u16, visit: &Visit<'_>) -> Result<Vec<IpAddr>, Failure> {
    match visit.wait(visit.policy.timeout, lookup_host((name, port))).await {
        Some(Ok(found)) => Ok(found.map(|each| each.ip()).collect()),
        _ => Err(Failure(FetchStatus::DomainUnresolvable, "no-address")),
    }
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// The answer to a request, as much of it as came.
pub struct Answer {
    pub status: i32,
    pub body_bytes: i64,
    pub digest: String,
    pub truncation: Truncation,
    headers: HeaderMap,
    kept: Vec<u8>,
}

impl Answer {
    /// Reads the body. If it breaks off, the answer keeps its status, and `truncation` says why.
    async fn read(response: Response<Incoming>, visit: &Visit<'_>) -> Result<Self, Failure> {
        let (head, mut body) = response.into_parts();
        let mut answer = Self {
            status: head.status.as_u16().into(),
            body_bytes: 0,
            digest: String::new(),
            truncation: Truncation::Unspecified,
            headers: head.headers,
            kept: vec![],
        };
        let policy = visit.policy;
        if !visit.is_robots() && !answer.is_wanted(policy) {
            answer.truncation = Truncation::Filter;
            return Ok(answer);
        }
        let max_bytes = if visit.is_robots() { MAX_ROBOTS_BYTES } else { policy.max_bytes as usize };
        let start = Instant::now();
        let mut sha1 = Sha1::new();
        loop {
            match visit.wait(policy.read_timeout, body.frame()).await {
                Some(None) => break,
                Some(Some(Ok(frame))) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    let taken = &piece[..piece.len().min(max_bytes - answer.body_bytes as usize)];
                    sha1.update(taken);
                    answer
                        .kept
                        .extend_from_slice(&taken[..taken.len().min(MAX_KEPT_BYTES - answer.kept.len())]);
                    answer.body_bytes += taken.len() as i64;
                    if taken.len() < piece.len() {
                        answer.truncation = Truncation::Length;
                        break;
                    }
                    if policy.max_bytes_per_second > 0 {
                        let due_s = answer.body_bytes as f64 / policy.max_bytes_per_second as f64;
                        sleep_until((start + Duration::from_secs_f64(due_s)).min(visit.deadline)).await;
                    }
                }
                Some(Some(Err(error))) if answer.body_bytes == 0 && is_malformed(&error) => {
                    return Err(Failure(FetchStatus::ProtocolError, "bad-chunks"));
                }
                Some(Some(Err(_))) => {
                    answer.truncation = Truncation::Disconnect;
                    break;
                }
                None => {
                    answer.truncation = Truncation::Time; // the deadline, or silence
                    break;
                }
            }
        }
        answer.digest = format!("sha1:{}", BASE32.encode(&sha1.finalize()));
        Ok(answer)
    }

    /// Whether the crawl wants the body.
    fn is_wanted(&self, policy: &FetchPolicy) -> bool {
        let length: i64 = self.header("content-length").parse().unwrap_or_default();
        let media_type = Some(self.media_type()).filter(|given| !given.is_empty());
        let media_type = media_type.unwrap_or("application/octet-stream".into());
        let covers = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => media_type.starts_with(start),
            None => media_type == *pattern,
        };
        (policy.max_content_length == 0 || length <= policy.max_content_length)
            && !policy.reject_media_types.iter().any(covers)
            && (policy.accept_media_types.is_empty() || policy.accept_media_types.iter().any(covers))
    }

    /// A header's value, in UTF-8 if it is that, else in Latin-1; empty without one.
    pub fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        let text = str::from_utf8(value).map_or_else(|_| encoding_rs::mem::decode_latin1(value), Into::into);
        text.trim().to_owned()
    }

    pub fn media_type(&self) -> String {
        let header = self.header("content-type").to_lowercase();
        let name = header.split([';', ',']).next().unwrap_or_default().trim();
        name.chars().take(256).collect()
    }

    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308) && self.headers.contains_key("location")
    }

    pub fn is_html(&self) -> bool {
        ["text/html", "application/xhtml+xml"].contains(&self.media_type().as_str())
    }

    /// The body without its coding; None if the coding can't be undone.
    pub fn decoded(&self) -> Option<Vec<u8>> {
        if ["", "identity"].contains(&self.header("content-encoding").as_str()) {
            return Some(self.kept.clone());
        }
        let mut plain = vec![];
        let unpacked =
            MultiGzDecoder::new(&self.kept[..]).take(MAX_KEPT_BYTES as u64).read_to_end(&mut plain);
        // Of a body that broke off, the first part counts.
        (unpacked.is_ok() || !plain.is_empty()).then_some(plain)
    }
}

/// Whether a body is not framed as HTTP has it; otherwise its connection broke.
fn is_malformed(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause
        .is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
}

/// A duration of the contract; zero if it is missing.
pub fn seconds(duration: Option<prost_types::Duration>) -> Duration {
    duration.and_then(|given| given.try_into().ok()).unwrap_or_default()
}
