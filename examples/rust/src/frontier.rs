//! The connection to the frontier, and the rule by which calls are repeated.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

use crate::proto::frontier_service_client::FrontierServiceClient;

pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
pub const LONGEST_REST: Duration = Duration::from_secs(30);
const FIRST_REST: Duration = Duration::from_millis(200);
/// How often a call may fail in a way that has no name. Then that counts as a refusal.
const MAX_FAILURES: u32 = 5;
const CRAWL_IS_OVER: [&str; 3] = ["CRAWL_FINISHED", "CRAWL_TORN_DOWN", "UNKNOWN_CRAWL"];

pub type Rpcs = FrontierServiceClient<Channel>;

/// The frontier refused a call for good, and why.
pub struct Refusal {
    pub problem: String,
    /// Links have no place any more.
    pub crawl_is_over: bool,
}

#[derive(Clone)]
pub struct Frontier {
    rpcs: Rpcs,
}

impl Frontier {
    /// Connects to `HOST:PORT` with the first call, and again whenever the connection is lost.
    pub fn new(address: &str) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?
            .connect_timeout(Duration::from_secs(5))
            // The frontier allows a ping every five seconds.
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10))
            .connect_lazy();
        // tonic's own limit is 4 MiB, the contract's 8.
        Ok(Self { rpcs: FrontierServiceClient::new(channel).max_decoding_message_size(9 << 20) })
    }

    /// The RPCs, without the rule.
    pub fn rpcs(&self) -> Rpcs {
        self.rpcs.clone()
    }

    /// Makes a call, again and again until it is answered or refused for good. Drop the future to give up.
    ///
    /// Only an error with Toehold's ErrorInfo is the frontier's. All others come from the transport. The
    /// rests between two tries grow up to `longest_rest`, unless the frontier says how long to wait.
    pub async fn call<A, F>(&self, longest_rest: Duration, call: impl Fn(Rpcs) -> F) -> Result<A, Refusal>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (mut rest, mut failures) = (FIRST_REST, 0);
        loop {
            let error = match call(self.rpcs()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(error) => error,
            };
            let code = error.code();
            if let Some(info) = error.get_details_error_info().filter(|info| info.domain == "toehold") {
                let problem = format!("{}: {}", info.reason, error.message());
                if info.reason == "SESSION_SUPERSEDED" {
                    crate::exit(&problem); // another process has this name, and this one may do nothing more
                }
                if !matches!(code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded) {
                    let crawl_is_over = CRAWL_IS_OVER.contains(&info.reason.as_str());
                    return Err(Refusal { problem, crawl_is_over });
                }
            } else if !matches!(code, Code::Unavailable | Code::DeadlineExceeded) {
                failures += 1;
                // The first two: a message too large for gRPC, or not a frontier.
                if matches!(code, Code::ResourceExhausted | Code::Unimplemented) || failures == MAX_FAILURES {
                    return Err(Refusal { problem: error.to_string(), crawl_is_over: false });
                }
            }
            if rest == FIRST_REST {
                eprintln!("{error}; trying again");
            }
            let asked = error.get_details_retry_info().and_then(|hint| hint.retry_delay).unwrap_or_default();
            tokio::time::sleep(asked.max(rest.mul_f64(0.5 + fastrand::f64() / 2.0))).await;
            rest = (2 * rest).min(longest_rest.max(FIRST_REST));
        }
    }
}
