//! What is asked of the policy, and what it answers.

use crate::class::Class;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What an operation does with a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Look at metadata, or pass through a directory.
    Stat,
    /// Read the names in a directory.
    List,
    /// Read content, a link's target included.
    Read,
    /// Create, change or remove content, names or metadata.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stat => "stat",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// Transport protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP (IANA protocol number 6).
    Tcp,
    /// UDP (IANA protocol number 17).
    Udp,
}

impl Protocol {
    /// The IANA protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// One operation of a component, as the host or the kernel saw it.
///
/// Paths and addresses are the ones that the kernel would act on: links resolved, names looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// A file operation on an absolute host path, which need not be UTF-8.
    File {
        /// What the operation does.
        access: Access,
        /// Absolute host path with every link resolved, without `.`, `..` or a trailing slash.
        path: Vec<u8>,
    },
    /// A connection or a datagram to an address.
    Connect {
        /// Where to.
        addr: SocketAddr,
        /// TCP or UDP.
        protocol: Protocol,
        /// Canonical names that this run resolved to the address.
        names: Vec<String>,
    },
    /// Binding a socket to a local address that the guest chose.
    Bind {
        /// The local address.
        addr: SocketAddr,
        /// TCP or UDP.
        protocol: Protocol,
    },
    /// Accepting connections.
    Listen {
        /// The local address.
        addr: SocketAddr,
    },
    /// Resolving a name.
    Lookup {
        /// For which class: `wasi:sockets` or `wasi:http`.
        class: Class,
        /// The name as the guest wrote it.
        host: String,
    },
    /// An HTTP request: judged once before the name is resolved, and once for the address that it will go to.
    Http {
        /// Method, upper case as sent.
        method: String,
        /// `http` or `https`.
        scheme: String,
        /// Host without brackets or port, as the guest wrote it.
        host: String,
        /// Port.
        port: u16,
        /// The address that the name was resolved to; `None` before that.
        address: Option<IpAddr>,
    },
    /// Reading a credential.
    Credential {
        /// Its key.
        key: String,
    },
    /// An action of a semantic class, announced through `act:consent`.
    Consent {
        /// The class, as the guest wrote it.
        class: String,
        /// What it is about.
        key: String,
        /// Further dimensions.
        arguments: Vec<(String, String)>,
    },
    /// Any use of the network, by whatever class: for questions about permission rules.
    Net {
        /// Name or literal address.
        host: String,
        /// Port; `None`: not known yet.
        port: Option<u16>,
    },
    /// A tool call.
    Tool {
        /// Name of the component, or of a built-in group of tools.
        component: String,
        /// The tool.
        tool: String,
    },
    /// A native command.
    Spawn {
        /// Absolute path of the executable, resolved; or its name where only that is known.
        program: String,
        /// The words after it.
        words: Vec<String>,
    },
    /// A component asks to be shown.
    Ui {
        /// Where.
        placement: String,
    },
}

/// The answer to a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Let it pass.
    Allow,
    /// A human decides.
    Ask,
    /// Refuse.
    Deny,
}

/// Why a [`Verdict`] is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The rule in [`Verdict::rule`] allows it.
    Allowed,
    /// The directory lies on the way to something that a rule allows.
    Ancestor,
    /// The component never declared it.
    OutsideCeiling,
    /// Declared, but the operator's grant does not cover it.
    NotGranted,
    /// The deny rule in [`Verdict::rule`] matches.
    DeniedByRule,
    /// The managed layer does not let the class be used so.
    Managed,
    /// No permission rule allows it.
    NoRuleAllows,
    /// Mode `ask`: a human has to answer.
    AskMode,
    /// The managed layer's mode is `ask`: nothing but an answer lets it pass.
    ManagedAsk,
    /// The permission rule in [`Verdict::rule`] asks.
    AskRule,
    /// Not a regular file or directory; such files are never opened.
    SpecialFile,
    /// A physical class that was announced through `act:consent`: its operations are judged themselves.
    NotSemantic,
    /// The request itself is malformed, so no rule was consulted.
    Malformed,
    /// This host has no implementation of the operation.
    Unsupported,
}

/// Index of a rule in [`crate::Policy::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleId(pub u32);

/// A decision with its reason and the rule that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Verdict {
    /// What to do.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The rule, where a single one decided.
    pub rule: Option<RuleId>,
}

impl Verdict {
    /// A refusal for a reason that no rule gave.
    pub const fn deny(reason: Reason) -> Self {
        Self { decision: Decision::Deny, reason, rule: None }
    }
    /// Whether the operation may go on without asking.
    pub const fn allowed(self) -> bool {
        matches!(self.decision, Decision::Allow)
    }
}
