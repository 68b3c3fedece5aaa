//! How a write, or the making of a client, fails.

use blockgate_api::ErrorCode;
use thiserror::Error;

use crate::MissReason;

/// Why a write failed, or why a client can't be made. Reads have no errors: they miss, see [`MissReason`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the client is not accepted.
    #[error("{setting}: {reason}")]
    Configuration {
        /// The builder's method.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A limit of the contract is passed; nothing was sent.
    #[error("{value} {what}, more than {max}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        value: usize,
        /// How much there may be.
        max: usize,
    },
    /// No gateway can be connected to, or the breakers of all are open.
    #[error("no gateway can be reached: {reason}")]
    Unreachable {
        /// What the last one tried said.
        reason: String,
    },
    /// The connection ended before the answer was whole.
    #[error("the connection was lost: {reason}")]
    Lost {
        /// What the connection said.
        reason: String,
    },
    /// The deadline passed.
    #[error("the deadline passed")]
    Timeout,
    /// The answer is not what the contract says.
    #[error("the gateway's answer can't be used: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: String,
    },
    /// The gateway refused.
    #[error("the gateway refused: {code}: {message}")]
    Refused {
        /// For programs.
        code: ErrorCode,
        /// For people; names the request in the gateway's logs where the gateway did.
        message: String,
    },
    /// A blocking call was made from async code, whose thread it would block.
    #[error("a blocking call was made within an async runtime: use the async client there")]
    InsideRuntime,
}

impl Error {
    /// The miss that a read becomes when it fails so.
    #[must_use]
    pub fn miss_reason(&self) -> MissReason {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => MissReason::Unreachable,
            Self::Timeout => MissReason::Timeout,
            Self::Protocol { .. } => MissReason::Protocol,
            Self::Refused { code, .. } => MissReason::Refused(*code),
            Self::Configuration { .. } | Self::Limit { .. } => MissReason::Refused(ErrorCode::LimitExceeded),
            Self::InsideRuntime => MissReason::InsideRuntime,
        }
    }

    pub(crate) fn protocol(reason: impl ToString) -> Self {
        Self::Protocol { reason: reason.to_string() }
    }
}

/// An error and all that it was caused by, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
