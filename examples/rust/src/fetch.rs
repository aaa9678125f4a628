//! The fetch of one lease, and its report.

use std::time::SystemTime;

use tokio::sync::Notify;
use tokio::time::Instant;
use url::Url;

use crate::links;
use crate::proto::{Candidate, FetchPolicy, FetchStatus, Lease, Outcome, Report, Truncation};
use crate::web::{Answer, Failure, MAX_ROBOTS_BYTES, Visit, Web, seconds};

const MAX_ROBOTS_REDIRECTS: usize = 5;
/// Heritrix's "deemed not found": a robots.txt that redirects too often, or nowhere.
const DEEMED_NOT_FOUND: i32 = -404;

/// A fetched lease, and the links that it leads to.
pub struct Page {
    pub report: Report,
    pub links: Vec<Candidate>,
}

/// Fetches the URI of a lease. Whatever goes wrong becomes the report's status.
pub async fn fetch(web: &Web, lease: &Lease, policy: &FetchPolicy, interrupted: &Notify) -> Page {
    let start = Instant::now();
    let mut report = Report {
        token: lease.token.clone(),
        outcome: Outcome::Fetched.into(),
        start_time: Some(SystemTime::now().into()),
        ..Default::default()
    };
    let visit = Visit { lease, policy, deadline: start + seconds(policy.timeout) };
    let fetching = async {
        if visit.is_robots() {
            return fetch_robots(web, &visit, &mut report).await.map(|()| vec![]);
        }
        fetch_page(web, &visit, &mut report).await
    };
    let outcome = tokio::select! {
        outcome = fetching => outcome,
        () = interrupted.notified() => Err(Failure(FetchStatus::ProcessingThreadKilled, "interrupted")),
    };
    let links = outcome.unwrap_or_else(|Failure(status, note)| {
        report.fetch_status = status.into();
        report.annotations.push(note.into());
        vec![]
    });
    report.fetch_duration = start.elapsed().try_into().ok();
    Page { report, links }
}

async fn fetch_page(web: &Web, visit: &Visit<'_>, report: &mut Report) -> Result<Vec<Candidate>, Failure> {
    let uri = Url::parse(&visit.lease.uri).map_err(|_| Failure(FetchStatus::UnfetchableUri, "not-a-uri"))?;
    let answer = web.get(&uri, visit, report).await?;
    describe(&answer, visit.lease, report);
    Ok(links::candidates(visit.lease, visit.policy, &answer))
}

/// Fetches a robots.txt. No fault may look like an empty file, which allows everything.
async fn fetch_robots(web: &Web, visit: &Visit<'_>, report: &mut Report) -> Result<(), Failure> {
    let mut uri =
        Url::parse(&visit.lease.uri).map_err(|_| Failure(FetchStatus::UnfetchableUri, "not-a-uri"))?;
    let mut answer = web.get(&uri, visit, report).await?;
    for _ in 0..MAX_ROBOTS_REDIRECTS {
        match uri.join(&answer.header("location")) {
            Ok(target) if answer.is_redirect() => uri = target,
            _ => break,
        }
        answer = web.get(&uri, visit, report).await?;
    }
    describe(&answer, visit.lease, report);
    match answer.status {
        300..400 => report.fetch_status = DEEMED_NOT_FOUND,
        200..300 if answer.truncation == Truncation::Time => {
            report.fetch_status = FetchStatus::Timeout.into()
        }
        200..300 => {
            let torn = answer.truncation == Truncation::Disconnect;
            match answer.decoded() {
                None => report.fetch_status = FetchStatus::ProtocolError.into(),
                Some(body) if body.is_empty() && torn => {
                    report.fetch_status = FetchStatus::ConnectLost.into()
                }
                Some(body) if body.is_empty() => report.robots_empty = true,
                Some(mut body) => {
                    body.truncate(MAX_ROBOTS_BYTES);
                    report.robots_body = if torn { without_torn_allow(body) } else { body };
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// A file that broke off, without a last line that may allow more than the whole line.
fn without_torn_allow(mut body: Vec<u8>) -> Vec<u8> {
    let last = body.iter().rposition(|byte| b"\r\n".contains(byte)).map_or(0, |end| end + 1);
    if body[last..].trim_ascii_start().to_ascii_lowercase().starts_with(b"allow") {
        body.truncate(last);
        body.push(b'#'); // not empty
    }
    body
}

/// Puts an answer into a report.
fn describe(answer: &Answer, lease: &Lease, report: &mut Report) {
    let unchanged = answer.status == 304 && !lease.last_digest.is_empty();
    report.fetch_status = answer.status;
    report.body_bytes = answer.body_bytes;
    report.truncation = answer.truncation.into();
    report.media_type = answer.media_type();
    report.digest = if unchanged { lease.last_digest.clone() } else { answer.digest.clone() };
    if matches!(answer.truncation, Truncation::Unspecified | Truncation::Length) {
        report.etag = answer.header("etag"); // else the next visit must get the rest
        report.last_modified = answer.header("last-modified");
    }
    let wait = answer.header("retry-after");
    let until = httpdate::parse_http_date(&wait).ok();
    report.retry_after_duration = match wait.parse::<u32>() {
        Ok(seconds) => Some(prost_types::Duration { seconds: seconds.into(), nanos: 0 }),
        Err(_) => {
            until.and_then(|date| date.duration_since(SystemTime::now()).unwrap_or_default().try_into().ok())
        }
    };
}
