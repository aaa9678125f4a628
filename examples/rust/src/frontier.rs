//! The connection to the frontier, and the rule by which calls are repeated.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

use crate::proto::frontier_service_client::FrontierServiceClient;

pub const CALL_TIMEOUT: Duration = Duration::from_secs(15);
pub const LONGEST_REST: Duration = Duration::from_secs(30);
const FIRST_REST: Duration = Duration::from_millis(200);

pub type Rpcs = FrontierServiceClient<Channel>;

/// The frontier refused a call for good, and why.
pub struct Refusal(pub String);

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
        let mut rest = FIRST_REST;
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
                    return Err(Refusal(problem));
                }
            } else if matches!(code, Code::ResourceExhausted | Code::Unimplemented) {
                return Err(Refusal(error.to_string())); // a message too large for gRPC, or not a frontier
            }
            let asked = error.get_details_retry_info().and_then(|hint| hint.retry_delay).unwrap_or_default();
            tokio::time::sleep(asked.max(rest.mul_f64(0.5 + fastrand::f64() / 2.0))).await;
            rest = (2 * rest).min(longest_rest.max(FIRST_REST));
        }
    }
}
