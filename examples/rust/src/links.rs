//! The links of an answer. References stay as they are written: the frontier resolves and judges them.

use std::collections::HashSet;

use encoding_rs::{Encoding, UTF_8};
use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;

use crate::proto::{Candidate, FetchPolicy, Lease};
use crate::web::Answer;

const MAX_URI_BYTES: usize = 8192;

/// The candidates of an answer: a redirect's target, or the links of a page, each once.
pub fn candidates(lease: &Lease, policy: &FetchPolicy, answer: &Answer) -> Vec<Candidate> {
    let (base, links) = if answer.is_redirect() {
        (lease.uri.clone(), vec![(answer.header("location"), "R")])
    } else if let Some(body) = answer.decoded().filter(|_| answer.is_html()) {
        links(&text(&body, &answer.header("content-type")), lease, policy, answer)
    } else {
        return vec![];
    };
    let mut seen = HashSet::new();
    let max_links = policy.extract.as_ref().and_then(|extract| extract.max_links).unwrap_or(6000);
    links
        .into_iter()
        .filter(|(reference, _)| is_useful(reference) && seen.insert(reference.clone()))
        .take(max_links as usize)
        .map(|(uri, hop)| Candidate {
            uri,
            base: base.clone(),
            via: lease.uri.clone(),
            path: lease.path.clone() + hop,
            source: lease.source.clone(),
            redirects: if hop == "R" { lease.redirects.clone() } else { Default::default() },
            ..Default::default()
        })
        .collect()
}

/// The links of a page in their order, each with its hop, and what they are relative to.
fn links(
    page: &str,
    lease: &Lease,
    policy: &FetchPolicy,
    answer: &Answer,
) -> (String, Vec<(String, &'static str)>) {
    let mut base = None;
    let mut links = vec![];
    let mut nofollow = says_nofollow(&answer.header("x-robots-tag"));
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true); // a script's text has no tags
    for Ok(token) in Tokenizer::new_with_emitter(page, emitter) {
        let Token::StartTag(tag) = token else { continue };
        match (&tag.name[..], attribute(&tag, "href")) {
            (b"base", Some(href)) if base.is_none() => {
                base = Url::parse(&lease.uri).ok().and_then(|page| page.join(&href).ok());
            }
            (b"meta", _) => {
                let name = attribute(&tag, "name").unwrap_or_default().to_lowercase();
                nofollow |= (name == "robots" || name == policy.product_token.to_lowercase())
                    && says_nofollow(&attribute(&tag, "content").unwrap_or_default());
            }
            _ => links.extend(references(&tag)),
        }
    }
    if nofollow && policy.extract.as_ref().is_none_or(|extract| extract.obey_robots_meta.unwrap_or(true)) {
        links.retain(|(_, hop)| *hop != "L");
    }
    let base = base.map_or(lease.uri.clone(), String::from);
    for (reference, _) in links.iter_mut().filter(|(reference, _)| reference.starts_with('#')) {
        *reference = base.clone(); // not the page itself, if it has a <base>
    }
    (base, links)
}

/// The references of an element, to other pages (hop L) and to parts of the page (hop E).
fn references(tag: &StartTag<()>) -> Vec<(String, &'static str)> {
    let rel = attribute(tag, "rel").unwrap_or_default().to_lowercase();
    let relates = |words: &[&str]| rel.split_ascii_whitespace().any(|word| words.contains(&word));
    let (name, hop) = match &tag.name[..] {
        b"a" | b"area" => ("href", "L"),
        b"link" if relates(&["stylesheet", "icon"]) => ("href", "E"),
        b"link" if relates(&["canonical", "alternate", "next", "prev"]) => ("href", "L"),
        b"img" | b"script" | b"iframe" | b"frame" | b"embed" | b"source" | b"audio" | b"video" => {
            ("src", "E")
        }
        _ => return vec![],
    };
    let mut found: Vec<_> = attribute(tag, name).into_iter().map(|reference| (reference, hop)).collect();
    // `small.png 1x, large.png 2x`
    for picture in attribute(tag, "srcset").unwrap_or_default().split(',') {
        found.extend(picture.split_ascii_whitespace().next().map(|reference| (reference.to_owned(), "E")));
    }
    found
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    tag.attributes.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).trim().to_owned())
}

/// Whether a reference is to an http(s) URI that is not too long: no `mailto:` and the like.
fn is_useful(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each));
    let is_http = ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str());
    (1..=MAX_URI_BYTES).contains(&reference.len()) && (is_http || !has_scheme)
}

fn says_nofollow(rules: &str) -> bool {
    rules.to_lowercase().split([',', ':', ' ']).any(|rule| rule == "nofollow" || rule == "none")
}

/// A page as text, in the charset that its header names, or else its first bytes.
fn text(body: &[u8], content_type: &str) -> String {
    let start = String::from_utf8_lossy(&body[..body.len().min(1024)]);
    let charset = [content_type, &start].iter().find_map(|place| {
        let (_, value) = place.split_once("charset=")?;
        let name = value.trim_start_matches(['"', '\'']).split(['"', '\'', ';', ' ', '>', '/']).next()?;
        Encoding::for_label(name.as_bytes())
    });
    charset.unwrap_or(UTF_8).decode(body).0.into_owned()
}
